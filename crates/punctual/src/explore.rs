//! Studies how much work of a kind would be admitted, by sweeps over the analysis.
//!
//! - `breakdown`: the factor by which all work can grow, by policy and by test.
//! - `reservations`: the least budget for each period with all tasks in one reservation.
//! - `channels`: the number of channels that fit, against packet size and packets between
//!   preemption points.
//! - `report`: the results, as a page with plots, as CSV files and as JSON.
//! - `folder`: the folder that they are written to.

mod breakdown;
mod channels;
mod folder;
mod report;
mod reservations;

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;

pub use folder::{Folder, FolderError};
use punctual_analysis::mapping;
use punctual_model::channel::{Channel, SendCosts, SenderSpec};
use punctual_model::{Contract, Duration, HostProfile};
pub use punctual_sweep::page::Section;
use punctual_sweep::workers::Workers;
pub use report::Report;

use crate::{Failure, Remedy};

/// The sweeps to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweeps {
    /// All sweeps that apply to the contract.
    All,
    /// The factor by which all work can grow, by policy and by test.
    Breakdown,
    /// The least budget for each period with all tasks in one reservation.
    Reservations,
    /// The number of channels against packet size and packets between preemption points.
    Channels,
}

/// The options of an exploration.
#[derive(Clone, Debug)]
pub struct Options {
    /// The sweeps to run.
    pub what: Sweeps,
    /// The shortest period of reservations; `None`: derived from the contract.
    pub from: Option<Duration>,
    /// The longest period of reservations; `None`: derived from the contract.
    pub to: Option<Duration>,
    /// The number of periods of reservations.
    pub points: u32,
    /// The channel that is copied; `None`: the first.
    pub channel: Option<String>,
}

/// The sweeps that apply to a contract.
///
/// # Examples
/// ```
/// use punctual::explore::{Exploration, Options, Sweeps};
/// use punctual::model::{Contract, HostProfile};
///
/// let task = b"[[task]]\nname = \"mixer\"\nperiod = \"10ms\"\nwcet = \"2ms\"\n";
/// let contract = Contract::parse("audio.toml", task)?;
/// let options =
///     Options { what: Sweeps::Breakdown, from: None, to: None, points: 2, channel: None };
/// let exploration = Exploration::new(&contract, &HostProfile::ideal(1), &options)?;
/// let sections = exploration.run(None);
/// assert_eq!(sections.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Exploration {
    contract: Contract,
    host: HostProfile,
    points: u32,
    sweeps: Vec<Sweep>,
    /// The sweeps that do not apply, and the reasons, as sentences.
    pub notes: Vec<String>,
}

impl Exploration {
    /// Selects the sweeps that apply to `contract`, on a host with as many CPUs as the contract
    /// asks for.
    ///
    /// # Errors
    /// If a sweep or a channel that the options name does not apply, or no sweep does.
    pub fn new(
        contract: &Contract,
        host: &HostProfile,
        options: &Options,
    ) -> Result<Self, Failure> {
        // The host has as many CPUs as the contract asks for, so that the result does not depend on
        // the machine that computes it.
        let host = HostProfile { cpus: contract.cpus, ..*host };
        let (expanded, _) = mapping::expand(contract, &host)?;
        // The needs of streams are among its tasks and channels, and must not be counted twice.
        let contract = Contract { streams: Vec::new(), ..expanded };
        let (sweeps, notes) = sweeps(options, &contract, &host)?;
        Ok(Self { contract, host, points: options.points, sweeps, notes })
    }

    /// Returns the names of the files of the [`Report`] that [`run`](Self::run) leads to.
    pub fn files(&self) -> Vec<String> {
        let sheets = self.sweeps.iter().flat_map(Sweep::files);
        std::iter::once(Report::PAGE.to_owned()).chain(sheets).collect()
    }

    /// Runs the sweeps with `threads` threads; `None`: one for each CPU. The results are the same
    /// with any number.
    pub fn run(&self, threads: Option<NonZeroUsize>) -> Vec<Section> {
        let threads = threads.or_else(|| std::thread::available_parallelism().ok());
        let workers = Workers::new(threads.map_or(1, NonZeroUsize::get));
        let sections = self.sweeps.iter().map(|sweep| sweep.run(self, &workers)).collect();
        workers.finish();
        sections
    }
}

/// A sweep with its part of the contract.
#[derive(Debug)]
enum Sweep {
    Breakdown,
    Reservations(RangeInclusive<u64>),
    Channels(Box<(SenderSpec, SendCosts, Channel)>),
}

impl Sweep {
    /// Returns the names of the data files that it will write beside the page.
    fn files(&self) -> Vec<String> {
        let sheets: &[&str] = match self {
            Self::Breakdown => &["breakdown", "response-times"],
            Self::Reservations(_) => &["reservations", "reservation-map"],
            Self::Channels(..) => &["channels", "channel-slack", "channel-copies"],
        };
        sheets.iter().map(|sheet| format!("{sheet}.csv")).collect()
    }

    fn run(&self, of: &Exploration, workers: &Workers) -> Section {
        let Exploration { contract, host, points, .. } = of;
        match self {
            Self::Breakdown => breakdown::explore(contract, host, workers),
            Self::Reservations(range) => {
                reservations::explore(contract, host, range.clone(), *points, workers)
            }
            Self::Channels(chosen) => {
                let (spec, costs, copied) = &**chosen;
                let server = channels::Server { spec, costs: *costs, wake_up: host.wake_up };
                channels::explore(&server, &contract.channels, copied, workers)
            }
        }
    }
}

/// Returns the requested sweeps that apply, and the reasons why others do not. A sweep that the
/// options name must apply, and at least one must.
fn sweeps(
    options: &Options,
    contract: &Contract,
    host: &HostProfile,
) -> Result<(Vec<Sweep>, Vec<String>), Failure> {
    let asked = |what| options.what == Sweeps::All || options.what == what;
    let with_tasks = |sweep: Sweep| {
        if contract.tasks.is_empty() {
            Err("the contract declares no task".into())
        } else {
            Ok(sweep)
        }
    };
    let mut answers = Vec::new();
    if asked(Sweeps::Breakdown) {
        answers.push(("breakdown", with_tasks(Sweep::Breakdown)));
    }
    if asked(Sweeps::Reservations) {
        let sweep = with_tasks(Sweep::Reservations(range(options, contract)?));
        answers.push(("reservations", sweep));
    }
    if asked(Sweeps::Channels) {
        answers.push(("channels", channel_sweep(options, contract, host)?));
    }
    let (mut sweeps, mut notes) = (Vec::new(), Vec::new());
    for (what, answer) in answers {
        match answer {
            Ok(sweep) => sweeps.push(sweep),
            Err(why) => notes.push(format!("Not explored: {what}, because {why}.")),
        }
    }
    if sweeps.is_empty() { Err(Failure::bad_input(notes.join("\n"))) } else { Ok((sweeps, notes)) }
}

fn range(options: &Options, contract: &Contract) -> Result<RangeInclusive<u64>, Failure> {
    let default = reservations::default_range(contract);
    let from = options.from.map_or(*default.start(), Duration::as_nanos);
    let to = options.to.map_or(*default.end(), Duration::as_nanos);
    if from > to {
        let time = punctual_model::Duration::from_nanos;
        return Err(Failure::bad_input(format!(
            "periods from {} to {}: the first must not be longer",
            time(from),
            time(to)
        ))
        .with(Remedy::Periods));
    }
    Ok(from..=to)
}

/// Returns the sweep, or the reason why it does not apply. A named channel that does not exist is a
/// failure.
fn channel_sweep(
    options: &Options,
    contract: &Contract,
    host: &HostProfile,
) -> Result<Result<Sweep, String>, Failure> {
    let copied = match &options.channel {
        None => contract.channels.first(),
        Some(name) => {
            let named = contract.channels.iter().find(|channel| channel.name() == name);
            Some(named.ok_or_else(|| {
                Failure::bad_input(format!("the contract declares no channel \"{name}\""))
            })?)
        }
    };
    let (Some(copied), Some(spec)) = (copied, contract.sender) else {
        return Ok(Err("the contract declares no channel".into()));
    };
    Ok(match spec.costs.or(host.send_costs) {
        Some(costs) => Ok(Sweep::Channels(Box::new((spec, costs, copied.clone())))),
        None => {
            Err("what sending costs is neither in the contract nor measured on this host".into())
        }
    })
}
