//! Runs a contract under its own policy, in virtual time.
//!
//! A [`Simulation`] is a virtual host that runs a contract as admission placed it. On each CPU the
//! kernel's reservations go first, then the slots of the timetable, then the threads that send and
//! receive for channels, then tasks. The policies are the same types that run live. [`search`]
//! looks for a schedule in which a job is late.

mod arrivals;
mod channels;
mod cpus;
mod options;
mod presence;
mod receiving;
mod report;
mod slices;
mod steps;
mod streams;
#[cfg(test)]
mod tests;
mod witness;

use punctual_analysis::channel::egress::Egress;
use punctual_analysis::mapping::Mapping;
use punctual_analysis::{Grant, Refusal, admit, mapping};
use punctual_model::{Contract, HostProfile, Policy};
use punctual_trace::{Sink, Subject};

use crate::Failure;
use crate::host::{Chosen, Stamp};
use channels::{Channels, Sending};
use presence::Presence;
use receiving::Receiving;
use streams::Streams;

pub use arrivals::FaultCounts;
pub use channels::ChannelOutcome;
pub use options::{
    ExecTimes, ExtraReleases, Flood, LateTimers, Options, Overheads, Overrun, Pattern, When,
};
pub use presence::{Departed, Joined};
pub use receiving::ReceivingOutcome;
pub use report::{Faults, Outcomes, Report, Stolen};
pub use slices::Slices;
pub use streams::StreamOutcome;
pub use witness::{Found, Release, Search, search};

/// An observer of a run in progress.
///
/// `()` observes nothing.
pub trait Watching: Sink {
    /// Receives the subjects of the events that follow, by their positions, and their `cpu`.
    ///
    /// # Errors
    /// Any error of the observer; it ends the run.
    fn turn_to(&mut self, cpu: u16, subjects: &[Subject]) -> Result<(), Failure>;
}

impl Watching for () {
    fn turn_to(&mut self, _: u16, _: &[Subject]) -> Result<(), Failure> {
        Ok(())
    }
}

/// A contract on a virtual host.
///
/// # Examples
/// ```
/// use std::path::Path;
///
/// use punctual::host;
/// use punctual::model::{Contract, Duration};
/// use punctual::simulate::{Options, Simulation};
///
/// let text = br#"
/// [[task]]
/// name = "mixer"
/// period = "10ms"
/// wcet = "2ms"
/// "#;
/// let contract = Contract::parse("audio.toml", text)?;
/// let host = host::choose(Some(Path::new("ideal")))?;
/// let options = Options { until: Duration::from_secs(1), ..Options::default() };
/// let report = Simulation::new(&contract, &host, options)?.run(&mut ())?;
/// assert!(report.admitted);
/// assert_eq!((report.tasks[0].jobs, report.broken()), (100, 0));
/// assert_eq!(report.tasks[0].max_response_time_ns, Some(2_000_000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Simulation {
    placed: Placed,
    options: Options,
    stamp: Stamp,
}

impl Simulation {
    /// Sets `contract` up on a host like `chosen`, with as many CPUs as the contract asks for.
    ///
    /// If `options` gives no switch costs, the run pays the measured ones. A contract that is
    /// refused runs all the same if it can: on one CPU.
    ///
    /// # Errors
    /// If the options do not apply to the contract, if there is no way to run it, or if the run
    /// would take too long.
    pub fn new(contract: &Contract, chosen: &Chosen, options: Options) -> Result<Self, Failure> {
        applies(&options, contract)?;
        let (host, stamp) = host_of(contract, chosen, options.overheads);
        let measured = chosen.charge.map(|charge| Overheads::of(charge, host.wake_up));
        let options = Options { overheads: options.overheads.or(measured), ..options };
        let placed = Placed::of(contract, host, &options)?;
        let received = placed.receiving(&options)?;
        steps::bounded(&options, &placed.contract, placed.sender.as_ref(), &received)?;
        placed.is_placed()?;
        Ok(Self { placed, options, stamp })
    }

    /// Returns the answer of admission to the contract, for the part that is present from the
    /// beginning.
    ///
    /// # Errors
    /// The refusal.
    pub fn answer(&self) -> Result<&Grant, &Refusal> {
        self.placed.answer.as_ref().map_err(|refusal| &**refusal)
    }

    /// Returns the host for which the contract was admitted and on which it runs.
    pub fn host(&self) -> &HostProfile {
        &self.placed.host
    }

    /// Runs the contract to its end, CPU by CPU, and reports for each promise whether it was kept.
    ///
    /// # Errors
    /// The error of `watching`.
    pub fn run(&self, watching: &mut dyn Watching) -> Result<Report, Failure> {
        let mut report = Report::new(&self.options, self.placed.answer.is_ok(), self.stamp.clone());
        self.placed.run(&self.options, watching, &mut report)?;
        Ok(report)
    }
}

/// Refuses options that do not apply to `contract`.
fn applies(options: &Options, contract: &Contract) -> Result<(), Failure> {
    if options.high_jobs.is_some() && contract.policy != Policy::EdfVd {
        return Err(Failure::bad_input(format!(
            "--high-jobs: there are two criticalities under policy = \"edf-vd\" alone, and this is \"{}\"",
            contract.policy.name()
        )));
    }
    for flood in &options.flood {
        let mut streams = contract.streams.iter().map(|stream| stream.name());
        let mut channels = contract.channels.iter().map(|channel| channel.name());
        let mut receiving = contract.receiving.iter().map(|channel| &channel.name[..]);
        let is_flood = |name: &str| name == flood.name;
        if !(streams.any(is_flood) || channels.any(is_flood) || receiving.any(is_flood)) {
            return Err(Failure::bad_input(format!(
                "--flood: \"{}\" is no channel and no stream of this contract",
                flood.name
            )));
        }
    }
    Ok(())
}

/// Returns the chosen host with as many CPUs as the contract asks for, because virtual ones cost
/// nothing, and with the switch costs that were asked for.
fn host_of(
    contract: &Contract,
    chosen: &Chosen,
    overheads: Option<Overheads>,
) -> (HostProfile, Stamp) {
    let host = HostProfile { cpus: chosen.host.cpus.max(contract.cpus), ..chosen.host };
    let Some(overheads) = overheads else { return (host, chosen.stamp.clone()) };
    let costs = overheads.costs();
    let context_switch = costs.switch + costs.cache;
    let host = HostProfile { context_switch, wake_up: costs.wake_up, ..host };
    (host, chosen.stamp.clone().charging(&host))
}

/// A contract where admission placed it.
#[derive(Debug)]
struct Placed {
    /// The expanded contract.
    contract: Contract,
    /// The mappings of its streams.
    mappings: Vec<Mapping>,
    host: HostProfile,
    answer: Result<Grant, Box<Refusal>>,
    /// The thread that sends, if anything is sent.
    sender: Option<Sending>,
    /// `None` if everything is present all the time.
    presence: Option<Presence>,
}

impl Placed {
    fn of(contract: &Contract, host: HostProfile, options: &Options) -> Result<Self, Failure> {
        let answer = admit(&presence::first(contract, options), &host);
        let expanded = mapping::expand(contract, &host).map_err(Failure::bad_input);
        let (contract, mappings) = expanded.map_err(|failure| in_no_way(&answer, failure))?;
        let sender = sender(&contract, &host).map_err(|failure| in_no_way(&answer, failure))?;
        let presence = Presence::of(options, &contract, &host)?;
        Ok(Self { contract, mappings, host, answer, sender, presence })
    }

    fn receiving(&self, options: &Options) -> Result<Receiving, Failure> {
        Receiving::of(options, &self.contract, &self.host)
            .map_err(|failure| in_no_way(&self.answer, failure))
    }

    /// Refuses a contract that was refused without a placement of its work on CPUs.
    fn is_placed(&self) -> Result<(), Failure> {
        match &self.answer {
            Err(refusal) if self.contract.cpus > 1 => Err(Failure::Refused(format!(
                "{refusal}; so nothing says what runs on which of its {} CPUs",
                self.contract.cpus
            ))),
            _ => Ok(()),
        }
    }

    /// Returns whether channels run on `cpu`: they are on the last one.
    fn has_channels(&self, cpu: u16) -> bool {
        cpu + 1 == self.contract.cpus
    }

    /// Runs it, CPU by CPU. The channels are on the last CPU, and no other CPU waits for it.
    fn run(
        &self,
        options: &Options,
        watching: &mut dyn Watching,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let Self { contract, mappings, host, answer, sender, presence } = self;
        let streams = Streams::of(options, contract, mappings);
        // A command may be bound to a CPU beyond those of the contract.
        let bound = answer.iter().flat_map(|grant| &grant.timetables).map(|table| table.cpu + 1);
        for cpu in 0..bound.fold(contract.cpus, u16::max) {
            let on_cpu = match presence {
                None => cpus::on_cpu(cpu, contract, answer),
                Some(presence) => cpus::on_cpu_while(cpu, contract, answer, presence),
            };
            let mut sent = sender
                .as_ref()
                .filter(|_| self.has_channels(cpu))
                .map(|sender| Channels::of(options, contract, sender, &streams));
            let mut received = match self.has_channels(cpu) {
                true => self.receiving(options)?,
                false => Receiving::default(),
            };
            if !on_cpu.entries.is_empty() || sent.is_some() || !received.is_empty() {
                watching.turn_to(cpu, &on_cpu.subjects(cpu))?;
                let allowance = host.slot_allowance;
                let others = (&mut received, sent.as_mut(), &streams);
                let ran =
                    cpus::run(options, contract.policy, allowance, cpu, &on_cpu, others, watching);
                report.add(&on_cpu, cpu, &ran);
            }
            report.receiving.extend(received.outcomes(cpu));
            if let Some(sent) = sent {
                report.channels = sent.outcomes(answer);
            }
        }
        report.streams = streams.outcomes(options, answer.as_ref().ok());
        if let Some(Presence { joined, left, .. }) = presence {
            (report.joined, report.left) = (joined.clone(), left.clone());
        }
        Ok(())
    }
}

/// Returns the error for work that there is no way to run. If admission refuses it, the refusal is
/// the better explanation.
fn in_no_way(answer: &Result<Grant, Box<Refusal>>, failure: Failure) -> Failure {
    match answer {
        Err(refusal) => Failure::Refused(refusal.to_string()),
        Ok(_) => failure,
    }
}

fn sender(contract: &Contract, host: &HostProfile) -> Result<Option<Sending>, Failure> {
    if contract.channels.is_empty() {
        return Ok(None);
    }
    let sender = contract.sender.and_then(|spec| Some((spec, spec.sender(host.send_costs)?)));
    let Some((spec, sender)) = sender else {
        return Err(Failure::bad_input(
            "the costs of sending are not known; measure them by `punctual calibrate`, or write \
             [sending.costs] into the contract",
        ));
    };
    let egress = Egress::of(&spec, sender.costs, host.wake_up).map_err(Failure::bad_input)?;
    Ok(Some(Sending { egress, best_effort: sender.best_effort }))
}
