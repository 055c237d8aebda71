//! Watches a program or process, and finds the causes of its late jobs while it runs.

use punctual_linux::clock;
use punctual_linux::process::{Blocked, Caught};
use punctual_model::{Duration, Service};
use punctual_observe::{Ended, Judging, Release, Rhythm, Seen, Session};
use punctual_trace::cause::Verdict;
use punctual_trace::check::{self, Unjudgeable};
use punctual_trace::{Promise, Subject};
use serde::Serialize;

use super::records::{self, LateRecord, SubjectRecord};
use crate::Failure;
use crate::program::{Program, Target, enforcer};

/// The interval at which the kernel's records are read.
const TURN: Duration = Duration::from_millis(50);

/// The options for watching a program or process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The threads that are judged, and their releases.
    pub judging: Judging,
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
/// use punctual::why::{self, Judging, Options};
///
/// let options = Options {
///     judging: Judging::default(),
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
    let relative_deadline = Some(options.relative_deadline);
    let promise = Promise { period: None, relative_deadline, wcet: options.work };
    let mut session =
        Session::judging(options.judging, move |_| promise).map_err(Failure::cannot_here)?;
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

/// Returns the verdict on all threads together. If none of them had a job, nothing was judged.
pub fn verdict(ended: &Ended) -> check::Verdict {
    let verdicts = || ended.subjects.iter().map(|(_, judged)| judged.verdict);
    match check::Verdict::of_all(verdicts()) {
        check::Verdict::Kept if !verdicts().any(|one| one == check::Verdict::Kept) => {
            check::Verdict::NotJudgeable(Unjudgeable::NoJob)
        }
        verdict => verdict,
    }
}

/// The record of what is taken to be a job of a thread. It comes before those of its late jobs.
#[derive(Clone, Debug, Serialize)]
pub struct ReleaseRecord<'a> {
    /// The releases.
    pub release: ReleasesRecord<'a>,
}

/// The releases of a thread.
#[derive(Clone, Debug, Serialize)]
pub struct ReleasesRecord<'a> {
    /// Its name.
    pub thread: &'a str,
    /// Its id.
    pub tid: Option<u32>,
    /// The sentence that says all of the following.
    pub text: String,
    /// The wait for releases.
    pub wait: String,
    /// Whether only wake-ups by a timer are releases.
    pub by_timer: bool,
    /// How releases follow each other: `timeline`, `relative` or `events`.
    pub rhythm: &'static str,
    /// The time from one to the next.
    pub period_ns: Option<u64>,
    /// Whether the user declared it.
    pub declared: bool,
    /// The part of the wake-ups that keep to it; without a period, of the sleep in this wait.
    pub regular: f64,
    /// The number of waits that this is inferred from.
    pub waits: usize,
}

impl<'a> ReleaseRecord<'a> {
    /// Makes the record of the releases of a thread.
    pub fn of(subject: Option<&'a Subject>, release: &Release) -> Self {
        let (thread, tid) = subject.map_or(("", None), |of| (of.name.as_str(), of.thread));
        let rhythm = match release.rhythm {
            Rhythm::Timeline => "timeline",
            Rhythm::Relative => "relative",
            Rhythm::Events => "events",
        };
        let release = ReleasesRecord {
            thread,
            tid,
            text: release.to_string(),
            wait: release.wait.to_string(),
            by_timer: release.by_timer,
            rhythm,
            period_ns: release.period.map(Duration::as_nanos),
            declared: release.is_declared,
            regular: release.regular,
            waits: release.seen,
        };
        Self { release }
    }
}

/// Returns the records of the releases that became known at the end of an observation.
pub fn releases_at_end(ended: &Ended) -> impl Iterator<Item = ReleaseRecord<'_>> {
    ended.releases.iter().map(|(number, release)| {
        let subject = ended.subjects.get(*number as usize).map(|(subject, _)| subject);
        ReleaseRecord::of(subject, release)
    })
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
            threads: (0..)
                .zip(&ended.subjects)
                .map(|(number, subject)| SubjectRecord {
                    jobs: ended.taken.get(&number).map(ToString::to_string),
                    ..records::subject(subject)
                })
                .collect(),
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
