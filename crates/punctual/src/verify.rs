//! Runs everything in a contract, and says for each promise whether it was kept.
//!
//! Reading order: `promises` (the promises to judge, and the evidence for a verdict). Then the
//! modules that run the work: `programs` (commands, by `punctual run`), `synthetic` (stand-ins for
//! tasks and upcalls that have no code), `emulated` (channels that no program uses), `brokered`
//! (channels that a program uses). Last, `report`.

mod brokered;
mod emulated;
mod programs;
mod promises;
mod report;
mod synthetic;

use std::path::Path;

use punctual_analysis::{Grant, mapping};
use punctual_linux::clock;
use punctual_linux::process::{Blocked, Caught};
use punctual_model::{Contract, Duration, HostProfile};
use punctual_observe::Session;

pub use promises::{Evidence, Options, PromiseVerdict, Promised};
pub use report::Report;

use crate::Failure;
use crate::program::enforcer_at;
use crate::trace::{Recorded, Recorder};
use brokered::Brokered;
use emulated::Emulated;
use programs::{Owners, Programs};
use synthetic::Synthetic;

/// The interval at which the kernel's records are read.
const TURN: Duration = Duration::from_millis(50);

/// Runs the contract of `file` and says for each promise whether it was kept. A contract that is
/// refused does not run, and the report says that it was refused. Once the contract is admitted,
/// `trace` is called to create the trace file.
///
/// The signals that end a process are blocked in this thread meanwhile; one of them ends the run.
/// The call takes CAP_BPF and CAP_PERFMON, and the privileges that running the commands takes.
///
/// # Errors
/// If the commands cannot be run, or the kernel's records cannot be read.
///
/// # Examples
/// ```no_run
/// use punctual::model::Duration;
/// use punctual::verify::{Options, verify};
///
/// let file = "studio.toml".as_ref();
/// let contract = punctual::contract::read(file)?.contract;
/// let host = punctual::host::choose(None)?.host;
/// let options = Options {
///     length: Duration::from_secs(60),
///     only_programs: false,
///     broker: "/run/punctual/broker.sock".into(),
///     run_by: Some("/usr/bin/punctual".into()),
/// };
/// for promised in verify(file, &contract, &host, &options, || Ok(None))?.promises {
///     println!("{} {}: {}", promised.kind, promised.name, promised.became.name());
/// }
/// # Ok::<(), punctual::Failure>(())
/// ```
pub fn verify(
    file: &Path,
    contract: &Contract,
    host: &HostProfile,
    options: &Options,
    trace: impl FnOnce() -> Result<Option<Recorder>, Failure>,
) -> Result<Report, Failure> {
    let grant = match punctual_analysis::admit(contract, host) {
        Ok(grant) => grant,
        Err(refusal) => return Ok(Report::refused(file, &refusal.to_string())),
    };
    let signals = Blocked::new().map_err(Failure::cannot_here)?;
    let plan = match options.run_by {
        Some(_) => programs::plan(contract, host, &options.broker)?,
        None => Vec::new(),
    };
    let owners = Owners::new(contract, plan);
    let mut recorded = Recorded::new(trace()?);
    let mut session = Session::promising(owners.asked()).map_err(Failure::cannot_here)?;
    if recorded.is_on() {
        session.keep_seen();
    }
    if let Some((program, commands)) = options.run_by.as_deref().and_then(enforcer_at) {
        session.enforced_by(program, commands);
    }
    let mut report = Report::new(file, promises::all(contract, options));
    let mut brokered = Brokered::start(options, contract, &owners);
    let mut standing_in = match options.only_programs {
        true => StandingIn::default(),
        false => StandingIn::start(contract, &grant, host, &brokered, &mut session, &mut report)?,
    };
    let mut programs = Programs::start(file, options, contract, &signals)?;
    if let Some(programs) = &programs {
        owners.started(programs.id());
        session.follow(programs.id());
    }
    let begun = clock::now();
    loop {
        let caught = signals.wait_until(clock::now() + TURN).map_err(Failure::cannot_here)?;
        standing_in.tell(&mut session);
        let late = session.turn();
        report.late(&late);
        recorded.more(session.take_seen(), &late)?;
        brokered.look(&owners);
        let asked = matches!(caught, Some(Caught::Sent { .. } | Caught::Stop { .. }));
        let over = clock::now().saturating_since(begun) >= options.length;
        let programs_ended = programs.as_mut().map_or(Ok(true), Programs::have_ended)?;
        if asked || over || (programs_ended && standing_in.is_empty() && brokered.is_empty()) {
            break;
        }
    }
    report.ran = clock::now().saturating_since(begun);
    brokered.look_once_more(&owners);
    let channels = standing_in.stop(&mut session)?;
    let mut ended = session.end();
    recorded.more(std::mem::take(&mut ended.seen), &ended.verdicts)?;
    recorded.end()?;
    if let Some(programs) = programs {
        report.ended = programs.end()?;
    }
    report.judge(contract, &ended, &owners);
    report.emulated(contract, channels);
    report.brokered(contract, &brokered);
    Ok(report)
}

/// The stand-ins for code that the contract does not name.
#[derive(Default)]
struct StandingIn {
    synthetic: Option<Synthetic>,
    emulated: Option<Emulated>,
}

impl StandingIn {
    fn start(
        contract: &Contract,
        grant: &Grant,
        host: &HostProfile,
        brokered: &Brokered,
        session: &mut Session,
        report: &mut Report,
    ) -> Result<Self, Failure> {
        let (expanded, _) = mapping::expand(contract, host)?;
        let (synthetic, undriven) = Synthetic::start(&expanded, grant, *host, session)?;
        report.undriven(contract, &undriven);
        let wanted = |name: &str| !brokered.has(name);
        let (emulated, undriven) = Emulated::start(&expanded, wanted, session);
        report.undriven(contract, &undriven);
        Ok(Self { synthetic, emulated })
    }

    fn is_empty(&self) -> bool {
        self.synthetic.is_none() && self.emulated.is_none()
    }

    fn tell(&mut self, session: &mut Session) {
        self.synthetic.iter_mut().for_each(|synthetic| synthetic.tell(session));
        self.emulated.iter_mut().for_each(|emulated| emulated.tell(session));
    }

    /// Ends all stand-ins. Returns the results of the channels.
    fn stop(self, session: &mut Session) -> Result<Vec<report::Channel>, Failure> {
        let channels = self.emulated.map(|emulated| emulated.stop(session));
        self.synthetic.map_or(Ok(()), |synthetic| synthetic.stop(session))?;
        Ok(channels.unwrap_or_default())
    }
}
