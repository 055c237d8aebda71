//! Was each promise kept? Holds the events of a run, simulated or live, against what was promised.
//!
//! An answer is *kept*, *broken*, or *not judgeable* and why. Nothing that was not seen counts as kept:
//! where events were lost, or the trace ends before the run did, a promise is broken or not judgeable.

mod account;
#[cfg(test)]
mod tests;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;

use punctual_model::{Backlog, Duration, Instant, JobId};

use account::{Account, Begun, Due, Granted};

use crate::cause::LateJob;
use crate::constraint::{Answer, Asked};
use crate::event::{Event, Kind, Sink};
use crate::file::Gap;
use crate::subject::{Promise, Subject};

/// What became of a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every job of the run was complete by its absolute deadline.
    Kept,
    /// At least one was not.
    Broken,
    /// It cannot be told.
    NotJudgeable(Why),
}

/// Why it cannot be told whether a promise was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// No relative deadline was promised.
    NoPromise,
    /// No job was released.
    NoJob,
    /// Events were lost, or parts of the file.
    Lost {
        /// How many events; 0 where only those parts are missing that hold other things, or that is not
        /// known.
        events: u64,
    },
    /// The trace has no end: its writer died, or still writes.
    NoEnd,
    /// Two events cannot both be true.
    Contradiction {
        /// The second of them.
        at: Instant,
    },
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept => f.write_str("kept"),
            Self::Broken => f.write_str("broken"),
            Self::NotJudgeable(why) => write!(f, "not judgeable: {why}"),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPromise => f.write_str("no deadline was promised"),
            Self::NoJob => f.write_str("no job was released"),
            Self::Lost { events: 0 } => f.write_str("parts of the trace were lost"),
            Self::Lost { events } => write!(f, "{events} events were lost"),
            Self::NoEnd => f.write_str("the trace has no end"),
            Self::Contradiction { at } => {
                write!(f, "the events contradict each other at {} ns", at.as_nanos())
            }
        }
    }
}

/// What is known of one subject's promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// Kept, broken, or not judgeable.
    pub verdict: Verdict,
    /// Jobs that are complete.
    pub complete: u64,
    /// Jobs that were not complete at their absolute deadlines.
    pub late: u64,
    /// The first of them.
    pub first_late: Option<JobId>,
    /// The longest that one was late, so far as it was watched.
    pub max_tardiness: Duration,
    /// Jobs released sooner after the one before than the promised period: the subject broke its own
    /// word.
    pub too_early: u64,
    /// Time constraints that were asked for and not granted: no promise, so none is broken.
    pub refused: u64,
}

/// Takes the events of a run and judges at its end.
///
/// ```
/// use punctual_model::{Duration, Instant, JobId};
/// use punctual_trace::check::{Checker, Verdict};
/// use punctual_trace::{Event, Kind, Promise, Sink, Subject, SubjectKind};
///
/// let mut audio = Subject::new("audio", SubjectKind::Upcall);
/// audio.promise.relative_deadline = Some(Duration::from_millis(5));
/// let mut checker = Checker::new();
/// checker.subject(0, &audio);
/// let (job, release) = (JobId { task: 0, index: 0 }, Instant::ZERO);
/// for (ms, kind) in [(1, Kind::Start), (2, Kind::Complete)] {
///     let at = Instant::from_nanos(ms * 1_000_000);
///     checker.record(Event { at, job, release, kind });
/// }
/// checker.end(Instant::from_nanos(9_000_000));
/// assert_eq!(checker.judge(0).verdict, Verdict::Kept);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Checker {
    // A number may be anything that a file says.
    of: BTreeMap<u32, Account>,
    late: Vec<LateJob>,
    /// Events that are missing, if something is.
    lost: Option<u64>,
    end: Option<Instant>,
}

impl Checker {
    /// Of a run of which nothing is known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Events of number `number` are of this subject from here on.
    pub fn subject(&mut self, number: u32, subject: &Subject) {
        let account = self.account(number);
        (account.promise, account.is_declared) = (subject.promise, true);
    }

    /// A time constraint was asked for, whose deadline comes after its start if it was granted. Of one that was granted the events of its job follow; one of
    /// which none do was not ended.
    pub fn asked(&mut self, asked: &Asked) {
        let Asked { job, start, estimate, deadline, answer, .. } = *asked;
        let account = self.account(job.task);
        match answer {
            Answer::Refused { .. } => account.refused = account.refused.saturating_add(1),
            Answer::Granted => {
                account.was_granted = true;
                account.released(job, start);
                account.granted.insert(job.index, Granted { start, estimate, deadline });
            }
        }
    }

    /// Tells that parts of the file are missing here. If they told of subjects, no promise is known from
    /// here on, until it is told again.
    pub fn missing(&mut self, gap: Gap) {
        self.lost(gap.events.into());
        if gap.subjects > 0 {
            for account in self.of.values_mut() {
                account.promise = Promise::default();
                account.is_declared = false;
            }
        }
    }

    /// Tells that events are missing here: so many, or 0 where their number is not known.
    pub fn lost(&mut self, events: u64) {
        self.lost = Some(self.lost.unwrap_or(0).saturating_add(events));
        for account in self.of.values_mut() {
            account.blind = true;
            account.begun = None;
            // Whether they were ended nobody can say.
            account.granted.clear();
        }
    }

    /// Nobody can say what became of the job that this subject has begun.
    pub fn forget(&mut self, number: u32) {
        self.account(number).begun = None;
    }

    /// At the end of the run these jobs were released and not complete.
    pub fn unfinished(&mut self, backlog: Backlog, end: Instant) {
        let Backlog { oldest, release, period, jobs, .. } = backlog;
        let number = oldest.task;
        for nth in 0..jobs {
            let job = JobId { index: oldest.index + nth, ..oldest };
            let release = release.saturating_add(period * nth);
            self.account(number).released += 1;
            self.over(number, job, release, end);
        }
        self.account(number).begun = None;
    }

    /// The run ended.
    pub fn end(&mut self, at: Instant) {
        for number in self.subjects().collect::<Vec<_>>() {
            if let Some(Begun { job, release, .. }) = self.account(number).begun.take() {
                self.over(number, job, release, at);
            }
            while let Some((&index, granted)) = self.account(number).granted.first_key_value() {
                let start = granted.start;
                self.over(number, JobId { task: number, index }, start, at);
            }
        }
        self.end = Some(at);
    }

    /// What is to be said of this subject.
    pub fn judge(&self, number: u32) -> Judged {
        let nothing = Account::default();
        let account = self.of.get(&number).unwrap_or(&nothing);
        let verdict = if account.late > 0 {
            Verdict::Broken
        } else if let (Some(events), false) = (self.lost, account.is_declared) {
            // What was promised to it may be in what is missing.
            Verdict::NotJudgeable(Why::Lost { events })
        } else if account.promise.relative_deadline.is_none() && !account.was_granted {
            Verdict::NotJudgeable(Why::NoPromise)
        } else if let Some(at) = account.contradiction {
            Verdict::NotJudgeable(Why::Contradiction { at })
        } else if let Some(events) = self.lost {
            Verdict::NotJudgeable(Why::Lost { events })
        } else if self.end.is_none() {
            Verdict::NotJudgeable(Why::NoEnd)
        } else if account.released == 0 {
            Verdict::NotJudgeable(Why::NoJob)
        } else {
            Verdict::Kept
        };
        Judged {
            verdict,
            complete: account.complete,
            late: account.late,
            first_late: account.first_late,
            max_tardiness: account.max_tardiness,
            too_early: account.too_early,
            refused: account.refused,
        }
    }

    /// The late jobs since the last call, in the order in which they were over.
    pub fn take_late(&mut self) -> Vec<LateJob> {
        core::mem::take(&mut self.late)
    }

    /// The numbers of the subjects that were named or of which an event told.
    pub fn subjects(&self) -> impl Iterator<Item = u32> + '_ {
        self.of.keys().copied()
    }

    fn account(&mut self, number: u32) -> &mut Account {
        self.of.entry(number).or_default()
    }

    /// A job will do no more; it is late if that is after its absolute deadline.
    fn over(&mut self, number: u32, job: JobId, release: Instant, end: Instant) {
        let account = self.account(number);
        let Some(due) = account.due(job, release) else { return };
        let Due { release, deadline: absolute_deadline, wcet } = due;
        account.granted.remove(&job.index);
        if end <= absolute_deadline {
            return;
        }
        account.late += 1;
        account.first_late.get_or_insert(job);
        let tardiness = end.saturating_since(absolute_deadline);
        account.max_tardiness = account.max_tardiness.max(tardiness);
        self.late.push(LateJob { job, release, absolute_deadline, end, wcet });
    }
}

impl Sink for Checker {
    fn record(&mut self, event: Event) {
        let Event { at, job, release, kind } = event;
        let number = job.task;
        let account = self.account(number);
        account.released(job, release);
        match kind {
            Kind::Start => {
                if account.begun.is_some() || at < release {
                    account.contradiction.get_or_insert(at);
                }
                account.blind = false;
                account.begun = Some(Begun { job, release, runs: true });
            }
            Kind::GiveWay => account.goes_on(&event, true, Some(false)),
            Kind::Resume => account.goes_on(&event, false, Some(true)),
            Kind::Complete => {
                account.goes_on(&event, true, None);
                account.complete += 1;
                self.over(number, job, release, at);
            }
            // Told once more when it is over.
            Kind::Overrun { .. } => {}
            // Of the budget, not of the job.
            Kind::Replenish { .. } | Kind::Throttle { .. } | Kind::Unthrottle => {}
            Kind::Skip { jobs } => self.skipped(number, job, release, jobs, at),
            Kind::Abort | Kind::Contained => {
                account.begun = None;
                // Ended at its deadline exactly, it is not complete by then.
                let end = if kind == Kind::Contained { Instant::MAX } else { at };
                let deadline = account.due(job, release).map(|due| due.deadline);
                if deadline.is_some_and(|deadline| end >= deadline) {
                    let end =
                        at.max(deadline.unwrap_or(at)).saturating_add(Duration::from_nanos(1));
                    self.over(number, job, release, end);
                }
            }
        }
    }
}

impl Checker {
    /// Jobs that will never begin; those whose deadline has come are late, the others were given up.
    fn skipped(&mut self, number: u32, first: JobId, release: Instant, jobs: u64, at: Instant) {
        let Promise { period, relative_deadline, .. } = self.account(number).promise;
        let Some(relative_deadline) = relative_deadline else { return };
        let apart = period.unwrap_or(relative_deadline).as_nanos().max(1);
        let deadline = release.saturating_add(relative_deadline);
        if at < deadline {
            return;
        }
        let late = (at.saturating_since(deadline).as_nanos() / apart).saturating_add(1).min(jobs);
        // However many a file says there are, no more than these are looked at one by one.
        let told = late.min(MOST_LATE.saturating_sub(self.late.len()) as u64);
        for nth in 0..told {
            let job = JobId { index: first.index.saturating_add(nth), ..first };
            let after = Duration::from_nanos(apart.saturating_mul(nth));
            let release = release.saturating_add(after);
            // At its deadline exactly it is not complete by then.
            let deadline = release.saturating_add(relative_deadline);
            self.over(
                number,
                job,
                release,
                at.max(deadline.saturating_add(Duration::from_nanos(1))),
            );
        }
        let account = self.account(number);
        account.late = account.late.saturating_add(late - told);
    }
}

/// Late jobs kept for [`Checker::take_late`]; more are counted only.
const MOST_LATE: usize = 1 << 16;
