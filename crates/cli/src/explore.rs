//! `punctual explore`: what else would fit, as tables and plots.

mod breakdown;
mod channels;
mod folder;
mod page;
mod reservations;

use std::fmt::Write;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use punctual_analysis::mapping;
use punctual_model::channel::{Channel, SendCosts, SenderSpec};
use punctual_model::{Contract, Duration, HostProfile};
use punctual_sweep::page::Section;
use punctual_sweep::workers::Workers;

use crate::exit::{Exit, Failure, Outcome};
use crate::host_profile::ProfileArgs;
use crate::options::time;
use crate::{contract_file, output};
use folder::Folder;
use punctual::host::{Chosen, Stamp};

/// The page's file; beside it is one CSV file for each table.
const PAGE: &str = "index.html";

const EXAMPLES: &str = "\
Examples:
  punctual explore studio.toml
      everything that applies to the contract, into explore-out/; open explore-out/index.html
  punctual explore studio.toml --what breakdown --json
      how far all work can grow under each policy, by each test
  punctual explore modem.toml --what reservations --from 1ms --to 30ms --points 291
      the least X for each Y, as a map
  punctual explore video.toml --what channels --channel camera --out camera
      how many cameras fit, for each packet size and preemption grain

The same contract gives the same files, byte for byte, however many threads there are. What is
explored is the contract; whether it is admitted as it stands, punctual admit says.

Exit codes: 0 explored, 2 bad usage or bad contract, 3 the results cannot be written.";

/// Explores what else would fit: breakdown utilisation, reservations, channels
///
/// Writes a page with plots that needs no network, and the numbers as CSV beside it.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The contract, a TOML file; "-" reads standard input
    contract: PathBuf,
    /// What to sweep
    #[arg(long, value_enum, default_value_t = What::All)]
    what: What,
    /// The folder for the page and the CSV files
    #[arg(long, value_name = "DIR", default_value = "explore-out")]
    out: PathBuf,
    /// Replace files that are there from before
    #[arg(long)]
    force: bool,
    /// Print JSON, times in nanoseconds and shares in millionths
    #[arg(long)]
    json: bool,
    /// Threads to use [default: one for each CPU]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// The shortest period Y of a reservation [default: 1ms, or less if a task needs it]
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Option<Duration>,
    /// The longest period Y of a reservation [default: twice the longest period]
    #[arg(long, value_name = "TIME", value_parser = time)]
    to: Option<Duration>,
    /// How many periods of a reservation to try
    #[arg(long, value_name = "N", default_value_t = 120,
        value_parser = clap::value_parser!(u32).range(2..=10_000))]
    points: u32,
    /// The channel of which copies are counted [default: the first]
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    #[command(flatten)]
    profile: ProfileArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Whatever applies to the contract
    All,
    /// How far all work can grow, by policy and by test
    Breakdown,
    /// The least budget X for each period Y with all tasks inside
    Reservations,
    /// Channels against packet size and packets between preemption points
    Channels,
}

pub(crate) fn main(args: &Args) -> Outcome {
    let declared = contract_file::read(&args.contract)?.contract;
    // As many CPUs as it asks for: what would fit does not hang on where the question is asked.
    let Chosen { host, stamp, .. } = args.profile.choose()?;
    let host = HostProfile { cpus: declared.cpus, ..host };
    let (expanded, _) = mapping::expand(&declared, &host).map_err(Failure::bad_input)?;
    // What streams ask for is among its tasks and channels, and must not be asked for twice.
    let contract = Contract { streams: Vec::new(), ..expanded };
    let (sweeps, notes) = sweeps(args, &contract, &host)?;
    let folder = Folder::new(&args.out, args.force);
    let sheets = sweeps.iter().flat_map(Sweep::files);
    folder.refuse_existing(&std::iter::once(PAGE.to_owned()).chain(sheets).collect::<Vec<_>>())?;

    let threads = args.threads.or_else(|| std::thread::available_parallelism().ok());
    let workers = Workers::new(threads.map_or(1, NonZeroUsize::get));
    let sections: Vec<Section> =
        sweeps.iter().map(|sweep| sweep.run(args, &contract, &host, &workers)).collect();
    workers.finish();

    let name = name_of(&args.contract);
    let sheets = sections.iter().flat_map(Section::sheets);
    let mut files: Vec<(String, Vec<u8>)> =
        sheets.map(|sheet| (sheet.file(), sheet.to_csv())).collect();
    let answer = if args.json { json } else { text };
    let answer = answer(args, &name, &stamp, &notes, &sections);
    files.push((PAGE.into(), page::page(&name, &stamp, notes, sections).into_bytes()));
    folder.write(&files)?;
    output::print(&answer)?;
    Ok(Exit::Kept)
}

/// A sweep with what it needs of the contract.
enum Sweep {
    Breakdown,
    Reservations(RangeInclusive<u64>),
    Channels(Box<(SenderSpec, SendCosts, Channel)>),
}

impl Sweep {
    /// What it will write beside the page.
    fn files(&self) -> Vec<String> {
        let sheets: &[&str] = match self {
            Self::Breakdown => &["breakdown", "response-times"],
            Self::Reservations(_) => &["reservations", "reservation-map"],
            Self::Channels(..) => &["channels", "channel-slack", "channel-copies"],
        };
        sheets.iter().map(|sheet| format!("{sheet}.csv")).collect()
    }

    fn run(
        &self,
        args: &Args,
        contract: &Contract,
        host: &HostProfile,
        workers: &Workers,
    ) -> Section {
        match self {
            Self::Breakdown => breakdown::explore(contract, host, workers),
            Self::Reservations(range) => {
                reservations::explore(contract, host, range.clone(), args.points, workers)
            }
            Self::Channels(chosen) => {
                let (spec, costs, copied) = &**chosen;
                let server = channels::Server { spec, costs: *costs, wake_up: host.wake_up };
                channels::explore(&server, &contract.channels, copied, workers)
            }
        }
    }
}

/// What was asked for and applies, and what does not apply and why. What somebody asked for by name
/// must apply, and something must.
fn sweeps(
    args: &Args,
    contract: &Contract,
    host: &HostProfile,
) -> Result<(Vec<Sweep>, Vec<String>), Failure> {
    let asked = |what| args.what == What::All || args.what == what;
    let with_tasks = |sweep: Sweep| {
        if contract.tasks.is_empty() {
            Err("the contract declares no task".into())
        } else {
            Ok(sweep)
        }
    };
    let mut answers = Vec::new();
    if asked(What::Breakdown) {
        answers.push(("breakdown", with_tasks(Sweep::Breakdown)));
    }
    if asked(What::Reservations) {
        let sweep = with_tasks(Sweep::Reservations(range(args, contract)?));
        answers.push(("reservations", sweep));
    }
    if asked(What::Channels) {
        answers.push(("channels", channel_sweep(args, contract, host)?));
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

fn range(args: &Args, contract: &Contract) -> Result<RangeInclusive<u64>, Failure> {
    let default = reservations::default_range(contract);
    let from = args.from.map_or(*default.start(), Duration::as_nanos);
    let to = args.to.map_or(*default.end(), Duration::as_nanos);
    if from > to {
        let time = punctual_model::Duration::from_nanos;
        return Err(Failure::bad_input(format!(
            "periods from {} to {}: the first must not be longer; see --from and --to",
            time(from),
            time(to)
        )));
    }
    Ok(from..=to)
}

/// The sweep, or why it does not apply; a channel that is named and not there is a failure.
fn channel_sweep(
    args: &Args,
    contract: &Contract,
    host: &HostProfile,
) -> Result<Result<Sweep, String>, Failure> {
    let copied = match &args.channel {
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

/// The file's name alone, so that the results do not hang on where it lies.
fn name_of(contract: &Path) -> String {
    match contract.file_name() {
        Some(name) if contract != Path::new("-") => name.to_string_lossy().into_owned(),
        _ => "standard input".into(),
    }
}

fn text(args: &Args, _: &str, stamp: &Stamp, notes: &[String], sections: &[Section]) -> String {
    let mut text = String::new();
    for section in sections {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}\n{}\n", section.title, section.summary.to_table());
    }
    for note in notes {
        let _ = writeln!(text, "{note}");
    }
    let _ = writeln!(text, "{}", stamp.line());
    let _ = writeln!(text, "Plots and all numbers: {}", args.out.join(PAGE).display());
    text
}

fn json(args: &Args, name: &str, stamp: &Stamp, notes: &[String], sections: &[Section]) -> String {
    let summaries: serde_json::Map<String, serde_json::Value> = sections
        .iter()
        .map(|section| (section.summary.name.to_owned(), section.summary.to_json()))
        .collect();
    let files: Vec<String> = sections.iter().flat_map(Section::sheets).map(|s| s.file()).collect();
    let answer = serde_json::json!({
        "contract": name,
        "folder": args.out.to_string_lossy(),
        "page": PAGE,
        "files": files,
        "host_profile": stamp,
        "notes": notes,
        "summaries": summaries,
    });
    // Cannot fail: every key is text.
    serde_json::to_string_pretty(&answer).unwrap_or_default() + "\n"
}
