//! Watches a program or process, and finds the causes of its late jobs while it runs.

use punctual_linux::clock;
use punctual_linux::process::{Blocked, Caught};
use punctual_model::{Duration, Service};
use punctual_observe::{Ended, Seen, Session};
use punctual_trace::cause::Verdict;
use serde::Serialize;

use super::records::{self, LateRecord, SubjectRecord};
use crate::Failure;
use crate::program::{Program, Target, enforcer};

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

/// The last record of a program or process that was watched.
#[derive(Clone, Debug, Serialize)]
pub struct EndRecord<'a> {
    /// Its threads.
    pub threads: Vec<SubjectRecord<'a>>,
    /// The number of records of the kernel.
    pub records: u64,
    /// The number of those that were lost.
    pub records_lost: u64,
    /// The observations that this kernel does not provide.
    pub not_told: &'a [&'static str],
}

impl<'a> EndRecord<'a> {
    /// Makes the last record, after those of [`late_at_end`].
    pub fn of(ended: &'a Ended) -> Self {
        Self {
            threads: ended.subjects.iter().map(records::subject).collect(),
            records: ended.counts.written,
            records_lost: ended.counts.lost,
            not_told: &ended.missing,
        }
    }
}

/// Returns the records of the late jobs that were found at the end of an observation.
pub fn late_at_end(ended: &Ended) -> impl Iterator<Item = LateRecord<'_>> {
    let of = |verdict| LateRecord::of_subject(records::named(&ended.subjects, verdict), verdict);
    ended.verdicts.iter().map(of)
}

impl<'a> LateRecord<'a> {
    /// Makes the record of a late job of a thread that is watched.
    pub fn in_session(session: &'a Session, verdict: &Verdict) -> Self {
        Self::of_subject(session.subject(verdict.late.job.task), verdict)
    }
}
