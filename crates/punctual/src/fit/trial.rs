//! Runs the program under the proposed reservations.
//!
//! Its threads are put under SCHED_DEADLINE while it runs on, so that the observation and the trial
//! see the same program in the same state. A program that has ended is started again. The kernel
//! does not accept a thread that is bound to CPUs; then the whole program is started again by
//! `punctual run`, under a timetable on that CPU.

use std::collections::BTreeMap;
use std::ffi::OsString;

use punctual_linux::clock;
use punctual_linux::process::Blocked;
use punctual_linux::sched::{self, Class, SchedError};
use punctual_linux::thread::Tid;
use punctual_model::{Duration, Reservation};
use punctual_observe::{Fitting, Promised};
use punctual_trace::fit::{Demand, Proposal};

use super::finding::{Finding, OfTrial, jobs};
use super::watching::{self, Options};
use crate::Failure;
use crate::program::{Program, Target};

/// The result of the trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trial {
    /// There was no trial, for this reason.
    None(&'static str),
    /// No trial was asked for ([`Options::tries`]).
    NotAsked,
    /// This host does not accept the proposal.
    Refused(String),
    /// It ran; the results of each thread are with its finding.
    Tried(Tried),
}

/// A trial that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// The length of the trial.
    pub length: Duration,
    /// The back end that held the threads.
    pub by: &'static str,
    /// Whether the program was started again for it.
    pub anew: bool,
}

/// The program and the options for starting it again.
pub(super) struct Again<'a> {
    pub(super) target: &'a Target,
    pub(super) options: &'a Options,
    pub(super) signals: &'a Blocked,
}

impl Again<'_> {
    fn command(&self) -> &[OsString] {
        match self.target {
            Target::Program(words) => words,
            Target::Process(_) => &[],
        }
    }

    /// Returns the command that runs the program under a timetable; `None` without a program that
    /// could.
    fn under_timetable(&self, cpu: usize, reservation: &str) -> Option<Vec<OsString>> {
        let this = std::iter::once(self.options.run_by.as_ref()?.into());
        let words = ["run", "--quiet", "--backend", "timetable", "--cpu"].map(OsString::from);
        let rest = [cpu.to_string().into(), "--reserve".into(), reservation.into(), "--".into()];
        Some(this.chain(words).chain(rest).chain(self.command().iter().cloned()).collect())
    }
}

const BY_KERNEL: &str = "SCHED_DEADLINE";
const BY_TIMETABLE: &str = "a timetable";

/// Runs the program on, or again, under the proposed reservations, and judges its threads.
pub(super) fn run(
    fitting: &mut Fitting,
    mut program: Program,
    findings: &mut [Finding],
    again: &Again<'_>,
) -> Result<Trial, Failure> {
    let Again { options, signals, .. } = *again;
    let alive = !program.has_ended()?;
    let mut pinned = None;
    if alive {
        for finding in findings.iter().filter(|one| one.proposal.is_some()) {
            match hold(fitting, finding.tid, finding) {
                Ok(()) => {}
                Err(SchedError::AffinityTooNarrow { allowed, .. }) => pinned = Some(allowed),
                // Threads come and go: the trial uses those that exist.
                Err(SchedError::NoSuchThread { .. }) => {}
                Err(why) => {
                    program.end()?;
                    return Ok(Trial::Refused(why.to_string()));
                }
            }
        }
    }
    if alive && pinned.is_none() {
        fitting.begin_anew();
        let (length, _) =
            watching::watch(fitting, Some(&mut program), signals, options.length, |_, _| Ok(()))?;
        judge(fitting, findings, length, options, |finding, tid, _| finding.tid == tid);
        program.end()?;
        return Ok(Trial::Tried(Tried { length, by: BY_KERNEL, anew: false }));
    }
    program.end()?;
    anew(fitting, findings, again, pinned)
}

/// Gives this thread its proposed reservation. Its late jobs are judged by that.
fn hold(fitting: &mut Fitting, tid: u32, finding: &Finding) -> Result<(), SchedError> {
    let Some(Proposal { reservation, .. }) = finding.proposal else { return Ok(()) };
    if let Some(thread) = i32::try_from(tid).ok().and_then(Tid::from_raw) {
        sched::set(thread, Class::Deadline { reservation, reset_on_fork: true })?;
    }
    fitting.promise(tid, promised(reservation));
    Ok(())
}

fn promised(reservation: Reservation) -> Promised {
    Promised { relative_deadline: reservation.period(), budget: reservation.budget() }
}

/// Starts the program again, and holds its threads as they appear, by their names.
fn anew(
    fitting: &mut Fitting,
    findings: &mut [Finding],
    again: &Again<'_>,
    pinned: Option<Vec<usize>>,
) -> Result<Trial, Failure> {
    let Again { options, signals, .. } = *again;
    let proposed = || findings.iter().filter_map(|one| one.proposal);
    let words = match &pinned {
        None => again.command().to_vec(),
        Some(cpus) => match (&cpus[..], proposed().count()) {
            ([cpu], 1) => {
                let reservations = proposed().map(|one| one.reservation.to_string());
                match again.under_timetable(*cpu, &reservations.collect::<String>()) {
                    Some(words) => words,
                    None => {
                        return Ok(Trial::Refused(format!(
                            "SCHED_DEADLINE takes no thread that is bound to a CPU ({cpu}), and no \
                             program punctual was given that would hold it by a timetable"
                        )));
                    }
                }
            }
            _ => {
                return Ok(Trial::Refused(format!(
                    "SCHED_DEADLINE takes no thread that is bound to CPUs ({cpus:?}), and a timetable \
                     holds a whole program on one CPU; lift the pinning, or reserve for it by hand (docs/run.md)"
                )));
            }
        },
    };
    if words.is_empty() {
        return Ok(Trial::None("there is no program to start again"));
    }
    let before: Vec<u32> = fitting.threads().map(|thread| thread.tid).collect();
    fitting.begin_anew();
    let mut program = Program::start(&words, signals)?;
    fitting.follow(program.id());
    let mut refused: Option<SchedError> = None;
    let mut held: BTreeMap<u32, usize> = BTreeMap::new();
    let mut settled = false;
    let begun = clock::now();
    let (length, _) =
        watching::watch(fitting, Some(&mut program), signals, options.length, |fitting, _| {
            if !settled && clock::now().saturating_since(begun) >= options.settle {
                settled = true;
                fitting.begin_anew();
            }
            for (tid, at) in matched(fitting, &before, findings) {
                if held.contains_key(&tid) || held.values().any(|&taken| taken == at) {
                    continue;
                }
                let Some(Proposal { reservation, .. }) = findings[at].proposal else { continue };
                if pinned.is_some() {
                    fitting.promise(tid, promised(reservation));
                } else if let Err(why) = hold(fitting, tid, &findings[at])
                    && !matches!(why, SchedError::NoSuchThread { .. })
                {
                    refused = Some(why);
                }
                held.insert(tid, at);
            }
            Ok(())
        })?;
    program.end()?;
    if let Some(why) = refused {
        return Ok(Trial::Refused(why.to_string()));
    }
    let of = |finding: &Finding, tid: u32, at: usize| {
        held.get(&tid) == Some(&at) && finding.proposal.is_some()
    };
    judge(fitting, findings, length, options, of);
    let by = if pinned.is_some() { BY_TIMETABLE } else { BY_KERNEL };
    Ok(Trial::Tried(Tried { length, by, anew: true }))
}

/// Returns new threads, each with the finding of the same name and position.
fn matched(fitting: &Fitting, before: &[u32], findings: &[Finding]) -> Vec<(u32, usize)> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut pairs = Vec::new();
    for thread in fitting.threads().filter(|thread| !before.contains(&thread.tid)) {
        let nth = seen.entry(thread.name.to_owned()).or_default();
        let is_same = |one: &Finding| one.name == thread.name && one.nth == *nth;
        pairs.extend(findings.iter().position(is_same).map(|at| (thread.tid, at)));
        *nth += 1;
    }
    pairs
}

fn judge(
    fitting: &Fitting,
    findings: &mut [Finding],
    length: Duration,
    options: &Options,
    is_of: impl Fn(&Finding, u32, usize) -> bool,
) {
    for (at, finding) in findings.iter_mut().enumerate() {
        let Some(Proposal { reservation, .. }) = finding.proposal else { continue };
        let Some(thread) = fitting.threads().find(|thread| is_of(finding, thread.tid, at)) else {
            continue;
        };
        let samples = jobs(thread.samples);
        let late = Demand::late(&samples, reservation.period());
        let mut causes: BTreeMap<&'static str, usize> = BTreeMap::new();
        for verdict in fitting.late().iter().filter(|one| one.late.job.task == thread.tid) {
            if let Some(main) = verdict.main() {
                *causes.entry(main.cause.word()).or_default() += 1;
            }
        }
        let mut causes: Vec<_> = causes.into_iter().collect();
        causes.sort_by_key(|&(_, jobs)| std::cmp::Reverse(jobs));
        let offered = length.as_secs_f64() * reservation.utilisation();
        // The number of jobs beyond the quantile.
        let allowed =
            (samples.len() as f64 * (100.0 - options.margin.quantile) / 100.0).ceil() as usize;
        finding.tried = Some(OfTrial {
            jobs: samples.len(),
            late,
            allowed,
            of_budget: thread.samples.exec_time.as_secs_f64() / offered.max(1e-9),
            causes,
        });
    }
}
