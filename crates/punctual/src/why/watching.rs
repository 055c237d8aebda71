//! Watches a program or process, and finds the causes of its late jobs while it runs.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;

use punctual_linux::clock;
use punctual_linux::process::{Blocked, Caught};
use punctual_linux::sched::{self, Class};
use punctual_linux::thread::{self, Tid};
use punctual_model::{Duration, Instant, Service};
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
    let _raised = until.map(Raised::at);
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

/// Gives the calling thread a real-time priority at the end of the time to watch, until this is
/// dropped. Before, the observation shall not delay what it observes; at the end it would wait for as
/// long as others keep all CPUs. Does nothing without CAP_SYS_NICE.
struct Raised {
    /// Dropping it ends the thread that raises.
    ends: Option<Sender<()>>,
    raises: Option<JoinHandle<()>>,
    before: Option<(Tid, Class)>,
}

/// Above the real-time threads of programs, and below the callbacks that must not wait for anyone.
const RAISED: Class = Class::Fifo { priority: 97 };

impl Raised {
    fn at(until: Instant) -> Self {
        let this = thread::current();
        let before = sched::get(this).ok().and_then(|now| now.class()).map(|class| (this, class));
        let (ends, ended) = mpsc::channel::<()>();
        let (ready, is_ready) = mpsc::channel::<()>();
        let raises = std::thread::Builder::new().name("punctual-end".to_owned()).spawn(move || {
            let can = sched::set(thread::current(), RAISED).is_ok();
            // The other end waits, or has gone.
            let _ = ready.send(());
            let left = until.saturating_since(clock::now());
            let left = std::time::Duration::from_nanos(left.as_nanos());
            if can && ended.recv_timeout(left) == Err(RecvTimeoutError::Timeout) {
                // If this fails, the end comes later.
                let _ = sched::set(this, RAISED);
            }
        });
        let _ = is_ready.recv();
        Self { ends: Some(ends), raises: raises.ok(), before }
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        self.ends = None;
        if let Some(raises) = self.raises.take() {
            let _ = raises.join();
        }
        if let Some((this, class)) = self.before {
            let _ = sched::set(this, class);
        }
    }
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
    /// The number of records that the kernel did not write, because it skipped a program.
    pub records_skipped: u64,
    /// The number of places at which the kernel left out records without counting them.
    pub holes: u64,
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
            records_skipped: ended.counts.skipped,
            holes: ended.holes,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_time_raises_this_thread_for_as_long_as_it_takes() {
        if let Err(why) = sched::try_out(RAISED) {
            return println!("skipped: {why}");
        }
        let class = || sched::get(thread::current()).expect("known").class();
        let before = class();
        let raised = Raised::at(clock::now() + Duration::from_secs(1000));
        assert_eq!(class(), before, "it is not the end");
        drop(raised);
        let raised = Raised::at(clock::now() + Duration::from_millis(5));
        while class() != Some(RAISED) {
            clock::sleep(Duration::from_millis(1));
        }
        drop(raised);
        assert_eq!(class(), before);
    }
}
