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
mod placed;
mod presence;
mod receiving;
mod recorded;
mod report;
mod slices;
mod steps;
mod streams;
#[cfg(test)]
mod tests;
mod witness;

use punctual_analysis::{Grant, Refusal};
use punctual_model::{Contract, HostProfile, Policy};

use crate::host::{Chosen, Stamp};
use crate::{Failure, Remedy};
use placed::{Placed, host_of};

pub use arrivals::FaultCounts;
pub use channels::ChannelOutcome;
pub use cpus::Watching;
pub use options::{
    ExecTimes, ExtraReleases, Flood, LateTimers, Options, Overheads, Overrun, Pattern, When,
};
pub use presence::{Departed, Joined};
pub use receiving::ReceivingOutcome;
pub use recorded::Recorded;
pub use report::{Faults, Outcomes, Report, Stolen};
pub use slices::Slices;
pub use streams::StreamOutcome;
pub use witness::{Found, Release, Search, search};

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
            "there are two criticalities under policy = \"edf-vd\" alone, and this is \"{}\"",
            contract.policy.name()
        ))
        .with(Remedy::HighJobs));
    }
    for flood in &options.flood {
        let mut streams = contract.streams.iter().map(|stream| stream.name());
        let mut channels = contract.channels.iter().map(|channel| channel.name());
        let mut receiving = contract.receiving.iter().map(|channel| &channel.name[..]);
        let is_flood = |name: &str| name == flood.name;
        if !(streams.any(is_flood) || channels.any(is_flood) || receiving.any(is_flood)) {
            return Err(Failure::bad_input(format!(
                "\"{}\" is no channel and no stream of this contract",
                flood.name
            ))
            .with(Remedy::Flood));
        }
    }
    Ok(())
}
