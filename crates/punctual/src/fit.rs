//! Watches a program, finds the reservation that each of its threads needs, and tries it out.
//!
//! Reading order: `finding` (the findings for a thread), `trial` (the same program under the
//! proposed reservations), `snippet` (the proposal as a contract), `json` (the findings as JSON).

mod finding;
mod json;
mod snippet;
mod trial;
mod watching;

use punctual_linux::process::Blocked;
use punctual_model::{Duration, HostProfile};
use punctual_observe::Fitting;

pub use finding::{Finding, NoPeriod, OfTrial};
pub use punctual_trace::fit::{Demand, Found, Margin, NotPeriodic, Period, Proposal};
pub use trial::{Trial, Tried};
pub use watching::Options;

use crate::Failure;
use crate::program::{Target, enforcer, enforcer_at};

/// The findings for a program.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The findings for each of its threads that ran.
    pub findings: Vec<Finding>,
    /// The time for which it was watched.
    pub watched: Duration,
    /// The reason why the kernel would not accept all proposals together, if it would not.
    pub objection: Option<String>,
    /// The result of the trial.
    pub trial: Trial,
    /// The number of records of the kernel that were lost. Jobs are missing if it is not zero.
    pub records_lost: u64,
    /// The observations that this kernel does not provide.
    pub missing: Vec<&'static str>,
}

impl Fit {
    /// Returns whether any thread has a proposal.
    pub fn proposes(&self) -> bool {
        self.findings.iter().any(|one| one.proposal.is_some())
    }

    /// Returns whether every thread kept its proposed reservation's promise in the trial.
    pub fn is_kept(&self) -> bool {
        self.findings.iter().all(Finding::is_kept)
    }

    /// Returns a contract (docs/contract.md) that makes the proposed reservation for `target`.
    pub fn contract(&self, target: &Target) -> String {
        snippet::of(&self.findings, target)
    }
}

/// Watches a program or process and proposes a reservation for each of its periodic threads. If the
/// options ask for a trial, threads of the program then run under SCHED_DEADLINE. The kernel's
/// limits are those of `host`.
///
/// The signals that end a process are blocked in this thread meanwhile. The call takes CAP_BPF and
/// CAP_PERFMON, and CAP_SYS_NICE for the trial.
///
/// # Errors
/// If there is no such program or process, or the kernel's records cannot be read.
///
/// # Examples
/// ```no_run
/// use punctual::fit::{Margin, Options, fit};
/// use punctual::model::Duration;
/// use punctual::program::Target;
///
/// let host = punctual::host::choose(None)?.host;
/// let margin = Margin {
///     quantile: 99.0,
///     percent: 20,
///     switch: host.context_switch,
///     relative_deadline: None,
/// };
/// let options = Options {
///     length: Duration::from_secs(10),
///     settle: Duration::from_secs(1),
///     margin,
///     tries: true,
///     run_by: None,
/// };
/// let player = Target::Program(vec!["./player".into(), "song.wav".into()]);
/// print!("{}", fit(&player, &options, &host)?.contract(&player));
/// # Ok::<(), punctual::Failure>(())
/// ```
pub fn fit(target: &Target, options: &Options, host: &HostProfile) -> Result<Fit, Failure> {
    // Signals are blocked before threads are made, so that they stay pending for this thread.
    let signals = Blocked::new().map_err(Failure::cannot_here)?;
    let mut fitting = Fitting::start().map_err(Failure::cannot_here)?;
    if let Some((program, commands)) = options.run_by.as_deref().map_or_else(enforcer, enforcer_at)
    {
        fitting.enforced_by(program, commands);
    }
    let (mut program, pid) = target.start(&signals)?;
    fitting.follow(pid);
    if let Some(program) = &mut program {
        let settle = options.settle;
        watching::watch(&mut fitting, Some(program), &signals, settle, |_, _| Ok(()))?;
        fitting.begin_anew();
    }
    let (watched, asked) =
        watching::watch(&mut fitting, program.as_mut(), &signals, options.length, |_, _| Ok(()))?;
    let mut findings = finding::all(&fitting, watched, options.margin);
    let objection = finding::objection(&findings, host);
    let proposes = findings.iter().any(|one| one.proposal.is_some());
    let tries = proposes && options.tries && !asked && objection.is_none();
    let trial = match (program.take_if(|_| tries), &objection) {
        (Some(running), _) => {
            let again = trial::Again { target, options, signals: &signals };
            trial::run(&mut fitting, running, &mut findings, &again)?
        }
        _ if matches!(target, Target::Process(_)) => Trial::None(
            "a process that is only watched is not changed: a thread leaves SCHED_DEADLINE only by \
             itself",
        ),
        _ if !proposes => Trial::None("nothing is proposed"),
        _ if !options.tries => Trial::NotAsked,
        (None, Some(objection)) => Trial::Refused(objection.clone()),
        _ => Trial::None("asked to end"),
    };
    if let Some(program) = program {
        program.end()?;
    }
    let (counts, missing) = (fitting.counts(), fitting.missing().to_vec());
    Ok(Fit { findings, watched, objection, trial, records_lost: counts.lost, missing })
}
