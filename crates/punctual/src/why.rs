//! Explains why jobs were late, for a program or process that is watched or from a trace file.

mod records;

use std::collections::BTreeSet;
use std::path::Path;

use punctual_linux::clock;
use punctual_linux::process::{Blocked, Caught};
use punctual_model::{Duration, Instant, JobId, Service};
use punctual_observe::{Seen, Session};
use punctual_trace::cause::{FromEvents, Spent, judge};
use punctual_trace::check::Checker;
use punctual_trace::file::Run;
use punctual_trace::{Sink, Subject};

pub use punctual_observe::Ended;
pub use punctual_trace::cause::Verdict;
pub use punctual_trace::check::Judged;
pub use records::{
    CauseRecord, EndRecord, JobRecord, LateRecord, SubjectRecord, TraceEndRecord, late_at_end,
};
use records::{named, subject};

use crate::Failure;
use crate::program::{Program, Target, enforcer};
use crate::trace::{self, Entry, State};

/// The interval at which the kernel's records are read.
const TURN: Duration = Duration::from_millis(50);

/// The options for watching a program or process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The time from a job's release within which it is to be complete.
    pub relative_deadline: Duration,
    /// The longest work of a job; more is the job's own fault. `None`: its deadline.
    pub work: Option<Service>,
    /// The longest time to watch; `None`: until the program ends.
    pub length: Option<Duration>,
    /// Whether everything that is seen of its jobs is kept, for a trace.
    pub keeps_seen: bool,
}

/// Watches until the program or process ends, the time is over, or a signal asks to end. Every 50
/// ms it passes the new observations to `turn`, with the causes of late jobs. Returns the findings,
/// with the verdicts of the last turn.
///
/// The signals that end a process are blocked in this thread meanwhile. The call takes CAP_BPF and
/// CAP_PERFMON.
///
/// # Errors
/// If there is no such program or process, the kernel's records cannot be read, or `turn` returns
/// an error.
///
/// # Examples
/// ```no_run
/// use punctual::model::Duration;
/// use punctual::program::Target;
/// use punctual::why::{self, Options};
///
/// let options = Options {
///     relative_deadline: Duration::from_millis(5),
///     work: None,
///     length: Some(Duration::from_secs(10)),
///     keeps_seen: false,
/// };
/// let player = Target::Program(vec!["./player".into(), "song.wav".into()]);
/// why::watch(&player, options, |_, _, late| {
///     for verdict in late {
///         if let Some(main) = verdict.main() {
///             println!("late by {}: {}", verdict.late.tardiness(), main.cause.word());
///         }
///     }
///     Ok(())
/// })?;
/// # Ok::<(), punctual::Failure>(())
/// ```
pub fn watch(
    target: &Target,
    options: Options,
    mut turn: impl FnMut(&Session, Vec<Seen>, &[Verdict]) -> Result<(), Failure>,
) -> Result<Ended, Failure> {
    let signals = Blocked::new().map_err(Failure::cannot_here)?;
    let mut session =
        Session::start(options.relative_deadline, options.work).map_err(Failure::cannot_here)?;
    if options.keeps_seen {
        session.keep_seen();
    }
    if let Some((program, commands)) = enforcer() {
        session.enforced_by(program, commands);
    }
    let (mut program, pid) = target.start(&signals)?;
    session.follow(pid);
    let until = options.length.map(|length| clock::now() + length);
    loop {
        let caught = signals.wait_until(clock::now() + TURN).map_err(Failure::cannot_here)?;
        let late = session.turn();
        let seen = session.take_seen();
        turn(&session, seen, &late)?;
        let is_asked = matches!(caught, Some(Caught::Sent { .. } | Caught::Stop { .. }));
        let is_over = until.is_some_and(|until| clock::now() >= until);
        let has_ended = program.as_mut().map_or(Ok(false), Program::has_ended)?;
        if is_asked || is_over || has_ended || !session.is_alive() {
            break;
        }
    }
    let ended = session.end();
    if let Some(program) = program {
        program.end()?;
    }
    Ok(ended)
}

/// The promises and the late jobs in a trace file.
#[derive(Clone, Debug)]
pub struct OfTrace {
    /// The run that the file is of; `None` if the file does not say.
    pub run: Option<Run>,
    /// The subjects of the file, and how they were judged.
    pub subjects: Vec<(Subject, Judged)>,
    /// The causes of late jobs that rest on the kernel's evidence.
    pub by_kernel: Vec<Verdict>,
    /// The causes of the other late jobs, which rest on the trace's own events.
    pub by_events: Vec<Verdict>,
    /// Whether the file is complete.
    pub state: State,
    /// The time at which its first job began.
    pub begun: Instant,
}

impl OfTrace {
    /// Describes a cause of the lateness of a job of subject `number`, with the names of the trace.
    pub fn describe(&self, cause: &Spent, number: u32) -> String {
        describe(cause, Some(number), &self.subjects)
    }

    /// Returns the records of all late jobs, those with the kernel's evidence first.
    pub fn late_records(&self) -> impl Iterator<Item = LateRecord<'_>> {
        let record = |verdict: &Verdict, by_kernel| {
            let number = verdict.late.job.task;
            let mut late = LateRecord::of_subject(named(&self.subjects, verdict), verdict);
            for (cause, share) in late.causes.iter_mut().zip(&verdict.shares) {
                cause.text = self.describe(&share.cause, number);
            }
            LateRecord { by_kernel: Some(by_kernel), ..late }
        };
        let by_kernel = self.by_kernel.iter().map(move |verdict| record(verdict, true));
        by_kernel.chain(self.by_events.iter().map(move |verdict| record(verdict, false)))
    }

    /// Returns the last record.
    pub fn end_record(&self) -> TraceEndRecord<'_> {
        let run = self.run.as_ref();
        TraceEndRecord {
            command: run.map(|run| run.command.as_str()),
            live: run.map(|run| run.live),
            threads: self.subjects.iter().map(subject).collect(),
            events_lost: self.state.events_lost,
            has_end: self.state.has_end,
            damaged_places: self.state.damages.len(),
            damaged_bytes: self.state.damaged_bytes,
            blocks_missing: self.state.blocks_missing,
            events_missing: self.state.events_missing,
            notes: self.state.lines(),
        }
    }
}

/// Describes a cause of the lateness of a job of subject `number`, or of jobs of several subjects
/// (`None`), with the names of `subjects`.
pub fn describe(cause: &Spent, number: Option<u32>, subjects: &[(Subject, Judged)]) -> String {
    let other = match cause {
        Spent::Subject(other) if Some(*other) == number => {
            return "its own earlier jobs".to_owned();
        }
        Spent::Subject(other) => subjects.get(*other as usize),
        _ => None,
    };
    other.map_or_else(|| cause.to_string(), |(of, _)| format!("{} ran instead", of.name))
}

/// Reads a trace file to its end. Says for each subject whether its promise was kept, and why jobs
/// were late.
///
/// # Errors
/// If the file cannot be read, or is no trace.
pub fn of_trace(path: &Path) -> Result<OfTrace, Failure> {
    let (mut checker, mut seen) = (Checker::new(), FromEvents::new());
    let (mut run, mut subjects, mut by_kernel) = (None, Vec::<Subject>::new(), Vec::new());
    let mut first = None::<Instant>;
    let state = trace::read(path, |entry| {
        match entry {
            Entry::Run(of) => run = Some(of),
            Entry::Subject(number, subject) => {
                checker.subject(number, &subject);
                seen.subject(number, &subject);
                match subjects.get_mut(number as usize) {
                    Some(known) => *known = subject,
                    None => subjects.push(subject),
                }
            }
            Entry::Events(events) => {
                for event in events {
                    let began = event.at.min(event.release);
                    first = Some(first.map_or(began, |first| first.min(began)));
                    checker.record(event);
                    seen.record(event);
                }
            }
            Entry::ConstraintRequest(request) => checker.request(&request),
            Entry::Lost(events) => {
                checker.lost(events);
                seen.lost();
            }
            Entry::Missing(gap) => {
                checker.missing(gap);
                seen.lost();
            }
            Entry::Verdict(verdict) => by_kernel.push(verdict),
            Entry::End(at) => checker.end(at),
        }
        Ok::<_, Failure>(())
    })?;
    let explained: BTreeSet<JobId> = by_kernel.iter().map(|one| one.late.job).collect();
    let late = checker.take_late().into_iter().filter(|late| !explained.contains(&late.job));
    let by_events = late.map(|late| {
        let stretches = seen.stretches(late.job, late.release, late.end);
        judge(late, &stretches, |_| false)
    });
    let by_events = by_events.collect();
    let judged = (0..).map(|number| checker.judge(number));
    let subjects = subjects.into_iter().zip(judged).collect();
    let begun = first.unwrap_or(Instant::ZERO);
    Ok(OfTrace { run, subjects, by_kernel, by_events, state, begun })
}
