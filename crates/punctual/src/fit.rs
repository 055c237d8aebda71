//! Watches a program, finds which reservation each of its threads needs, and tries it.
//!
//! Reading order: `finding` (what was found of a thread), `trial` (the same program under what was proposed),
//! `snippet` (what is proposed, as a contract).

mod finding;
mod snippet;
mod trial;
mod watching;

use std::path::PathBuf;

use punctual_linux::process::Blocked;
use punctual_model::{Duration, HostProfile};
use punctual_observe::Fitting;

pub use finding::{Finding, OfTrial, Why};
pub use punctual_trace::fit::{Demand, Found, Margin, NotPeriodic, Period, Proposal};
pub use trial::{Trial, Tried};

use crate::Failure;
use crate::program::{Target, enforcer};

/// How a program is watched and tried.
#[derive(Clone, Debug)]
pub struct Options {
    /// Watch for so long, and try for so long.
    pub length: Duration,
    /// So long after its start a program is not watched: what it does then it does once.
    pub settle: Duration,
    /// How much more is proposed than was seen.
    pub margin: Margin,
    /// Whether what is proposed is tried, by the program `punctual` there: it runs what is bound to a CPU under a
    /// timetable. None: it is only proposed.
    pub tried_by: Option<PathBuf>,
}

/// What was found of a program.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Of each of its threads that ran.
    pub findings: Vec<Finding>,
    /// How long was watched.
    pub watched: Duration,
    /// Why the kernel would not take all that is proposed together, if it would not.
    pub objection: Option<String>,
    /// What became of the trial.
    pub trial: Trial,
    /// Records of the kernel that were lost: jobs are missing.
    pub records_lost: u64,
    /// What this kernel does not tell.
    pub missing: Vec<&'static str>,
}

impl Fit {
    /// Returns whether there is a proposal for any thread.
    pub fn proposes(&self) -> bool {
        self.findings.iter().any(|one| one.proposal.is_some())
    }

    /// Returns whether every thread kept in the trial what was proposed for it.
    pub fn is_kept(&self) -> bool {
        self.findings.iter().all(Finding::is_kept)
    }

    /// Returns the contract (docs/contract.md) that reserves for `target` what is proposed.
    pub fn contract(&self, target: &Target) -> String {
        snippet::of(self, target)
    }
}

/// Watches a program or process, proposes a reservation for each of its threads that is periodic, and tries it where
/// that is wanted: then threads of the program run under SCHED_DEADLINE. The kernel's limits are those of `host`.
///
/// The signals that end a process are blocked in this thread meanwhile. It takes CAP_BPF and CAP_PERFMON, and
/// CAP_SYS_NICE for the trial.
///
/// # Errors
/// If there is no such program or process, or the kernel cannot be asked.
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
///     tried_by: None,
/// };
/// let player = Target::Program(vec!["./player".into(), "song.wav".into()]);
/// print!("{}", fit(&player, &options, &host)?.contract(&player));
/// # Ok::<(), punctual::Failure>(())
/// ```
pub fn fit(target: &Target, options: &Options, host: &HostProfile) -> Result<Fit, Failure> {
    // Before threads are made, so that a signal waits for us.
    let signals = Blocked::new().map_err(Failure::cannot_here)?;
    let mut fitting = Fitting::start().map_err(Failure::cannot_here)?;
    if let Some((program, commands)) = enforcer() {
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
    let tries = proposes && options.tried_by.is_some() && !asked && objection.is_none();
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
        _ if options.tried_by.is_none() => Trial::None("--no-try"),
        (None, Some(objection)) => Trial::Refused(objection.clone()),
        _ => Trial::None("asked to end"),
    };
    if let Some(program) = program {
        program.end()?;
    }
    let (counts, missing) = (fitting.counts(), fitting.missing().to_vec());
    Ok(Fit { findings, watched, objection, trial, records_lost: counts.lost, missing })
}
