//! Checks whether each promise was kept, by comparing the events of a simulated or live run with
//! what was promised. The state of each subject is tracked, and each of its events is checked
//! against its earlier ones.
//!
//! A verdict is *kept*, *broken*, or *not judgeable* with a reason. Nothing unseen counts as kept:
//! where events were lost, or the trace ends before the run did, a promise is broken or not
//! judgeable.

#[cfg(test)]
mod tests;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;

use punctual_model::{Backlog, Duration, Instant, JobId, Service};

use crate::cause::LateJob;
use crate::constraint::{Answer, ConstraintRequest};
use crate::event::{Event, Kind, Promise, Sink, Subject};
use crate::file::Gap;

/// The number of late jobs that are kept for [`Checker::take_late`]. Further ones are only counted.
const MOST_LATE: usize = 1 << 16;

/// The greatest part of its jobs, one in so many, that may not be judged where a promise counts as
/// kept.
const UNJUDGED_OF: u64 = 100;

/// The verdict on a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every job of the run was complete by its absolute deadline.
    Kept,
    /// At least one job was not complete by its absolute deadline.
    Broken,
    /// The promise cannot be judged.
    NotJudgeable(Unjudgeable),
}

/// The reason why a promise cannot be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unjudgeable {
    /// No relative deadline was promised.
    NoPromise,
    /// No job was released.
    NoJob,
    /// Events were lost, or parts of the file.
    Lost {
        /// The number of events. It is 0 if only other parts of the file are missing, or if the
        /// number is not known.
        events: u64,
    },
    /// More than one job in 100 cannot be judged: its thread did something that no record shows.
    Unseen {
        /// The number of these jobs.
        jobs: u64,
        /// The number of all jobs.
        of: u64,
    },
    /// The trace has no end: its writer died, or is still writing.
    NoEnd,
    /// Two events cannot both be true.
    Contradiction {
        /// The instant of the second of them.
        at: Instant,
    },
}

impl Verdict {
    /// Returns the verdict on several promises together: broken if one is, else not judgeable if
    /// one is not, else kept. A subject without a promise or without a job breaks none.
    ///
    /// ```
    /// use punctual_trace::check::{Unjudgeable, Verdict};
    ///
    /// let lost = Verdict::NotJudgeable(Unjudgeable::NoEnd);
    /// let no_job = Verdict::NotJudgeable(Unjudgeable::NoJob);
    /// assert_eq!(Verdict::of_all([no_job, Verdict::Kept]), Verdict::Kept);
    /// assert_eq!(Verdict::of_all([lost, Verdict::Kept]), lost);
    /// assert_eq!(Verdict::of_all([lost, Verdict::Broken]), Verdict::Broken);
    /// ```
    pub fn of_all(verdicts: impl IntoIterator<Item = Self>) -> Self {
        verdicts.into_iter().fold(Self::Kept, |so_far, verdict| match (so_far, verdict) {
            (_, Self::Broken) => Self::Broken,
            (
                so_far,
                Self::Kept | Self::NotJudgeable(Unjudgeable::NoPromise | Unjudgeable::NoJob),
            ) => so_far,
            (Self::Kept, why) => why,
            (so_far, Self::NotJudgeable(_)) => so_far,
        })
    }
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

impl fmt::Display for Unjudgeable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPromise => f.write_str("no deadline was promised"),
            Self::NoJob => f.write_str("no job was released"),
            Self::Lost { events: 0 } => f.write_str("parts of the trace were lost"),
            Self::Lost { events } => write!(f, "{events} events were lost"),
            Self::Unseen { jobs, of } => {
                write!(f, "the kernel's records have holes: {jobs} of {of} jobs were not judged")
            }
            Self::NoEnd => f.write_str("the trace has no end"),
            Self::Contradiction { at } => {
                write!(f, "the events contradict each other at {} ns", at.as_nanos())
            }
        }
    }
}

/// The result for one subject's promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The verdict: kept, broken, or not judgeable.
    pub verdict: Verdict,
    /// Jobs that are complete.
    pub complete: u64,
    /// Jobs that were not complete at their absolute deadlines.
    pub late: u64,
    /// The first late job.
    pub first_late: Option<JobId>,
    /// The greatest tardiness of a job, as far as it was observed.
    pub max_tardiness: Duration,
    /// Jobs that were not judged, because their thread did something that no record shows.
    pub unjudged: u64,
    /// The time of which nothing is known for that reason.
    pub unseen: Duration,
    /// Jobs that were released sooner after their predecessor than the promised period: the subject
    /// broke its own promise.
    pub too_early: u64,
    /// Time constraints that were requested and refused. A refusal promises nothing, so it breaks
    /// nothing.
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
    // The key is a number from a file and may be anything.
    of: BTreeMap<u32, Account>,
    late: Vec<LateJob>,
    /// The number of missing events, or `None` if nothing is missing.
    lost: Option<u64>,
    end: Option<Instant>,
}

impl Checker {
    /// Makes a checker that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares that events with this number belong to `subject` from here on.
    pub fn subject(&mut self, number: u32, subject: &Subject) {
        let account = self.account(number);
        (account.promise, account.is_declared) = (subject.promise, true);
    }

    /// Takes a request for a time constraint and its answer. A granted one has its deadline after
    /// its start, and the events of its job follow. Without such events it was never ended.
    pub fn request(&mut self, request: &ConstraintRequest) {
        let ConstraintRequest { job, start, estimate, deadline, answer, .. } = *request;
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

    /// Notes that parts of the file are missing here. If they described subjects, no promise is
    /// known from here on, until it is declared again.
    pub fn missing(&mut self, gap: Gap) {
        self.lost(gap.events.into());
        if gap.subjects > 0 {
            for account in self.of.values_mut() {
                account.promise = Promise::default();
                account.is_declared = false;
            }
        }
    }

    /// Notes that `events` events are missing here, or 0 if their number is not known.
    pub fn lost(&mut self, events: u64) {
        self.lost = Some(self.lost.unwrap_or(0).saturating_add(events));
        for account in self.of.values_mut() {
            account.blind = true;
            account.begun = None;
            // Their ends may be among the lost events.
            account.granted.clear();
        }
    }

    /// Forgets the job that this subject has begun, because its fate is not known.
    pub fn forget(&mut self, number: u32) {
        let account = self.account(number);
        let begun = u64::from(account.begun.take().is_some());
        account.released = account.released.saturating_sub(begun);
    }

    /// Notes that the thread of this subject did something unseen for `unseen`. The job that it has
    /// begun is neither complete nor late.
    pub fn unseen(&mut self, number: u32, unseen: Duration) {
        let account = self.account(number);
        account.begun = None;
        account.blind = true;
        account.unjudged += 1;
        account.unseen = account.unseen.saturating_add(unseen);
    }

    /// Takes the jobs that were released and not complete at the end of the run.
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

    /// Ends the run.
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

    /// Returns the verdict and the counts of this subject.
    pub fn judge(&self, number: u32) -> Judged {
        let nothing = Account::default();
        let account = self.of.get(&number).unwrap_or(&nothing);
        let verdict = if account.late > 0 {
            Verdict::Broken
        } else if let (Some(events), false) = (self.lost, account.is_declared) {
            // Its promise may be in the missing part.
            Verdict::NotJudgeable(Unjudgeable::Lost { events })
        } else if account.promise.relative_deadline.is_none() && !account.was_granted {
            Verdict::NotJudgeable(Unjudgeable::NoPromise)
        } else if let Some(at) = account.contradiction {
            Verdict::NotJudgeable(Unjudgeable::Contradiction { at })
        } else if let Some(events) = self.lost {
            Verdict::NotJudgeable(Unjudgeable::Lost { events })
        } else if account.unjudged.saturating_mul(UNJUDGED_OF) > account.complete + account.unjudged
        {
            let (jobs, of) = (account.unjudged, account.complete + account.unjudged);
            Verdict::NotJudgeable(Unjudgeable::Unseen { jobs, of })
        } else if self.end.is_none() {
            Verdict::NotJudgeable(Unjudgeable::NoEnd)
        } else if account.released == 0 {
            Verdict::NotJudgeable(Unjudgeable::NoJob)
        } else {
            Verdict::Kept
        };
        Judged {
            verdict,
            complete: account.complete,
            late: account.late,
            first_late: account.first_late,
            max_tardiness: account.max_tardiness,
            unjudged: account.unjudged,
            unseen: account.unseen,
            too_early: account.too_early,
            refused: account.refused,
        }
    }

    /// Returns the late jobs since the last call, in the order in which they ended.
    pub fn take_late(&mut self) -> Vec<LateJob> {
        core::mem::take(&mut self.late)
    }

    /// Returns the numbers of the subjects that were declared or that have events.
    pub fn subjects(&self) -> impl Iterator<Item = u32> + '_ {
        self.of.keys().copied()
    }

    fn account(&mut self, number: u32) -> &mut Account {
        self.of.entry(number).or_default()
    }

    /// Ends a job. It is late if `end` is after its absolute deadline.
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

    /// Takes jobs that will never begin. Those whose deadline has come are late; the others were
    /// given up.
    fn skipped(&mut self, number: u32, first: JobId, release: Instant, jobs: u64, at: Instant) {
        let Promise { period, relative_deadline, .. } = self.account(number).promise;
        let Some(relative_deadline) = relative_deadline else { return };
        let apart = period.unwrap_or(relative_deadline).as_nanos().max(1);
        let deadline = release.saturating_add(relative_deadline);
        if at < deadline {
            return;
        }
        let late = (at.saturating_since(deadline).as_nanos() / apart).saturating_add(1).min(jobs);
        // However many jobs a file claims, no more than these are looked at one by one.
        let told = late.min(MOST_LATE.saturating_sub(self.late.len()) as u64);
        for nth in 0..told {
            let job = JobId { index: first.index.saturating_add(nth), ..first };
            let after = Duration::from_nanos(apart.saturating_mul(nth));
            let release = release.saturating_add(after);
            // A job that is skipped exactly at its deadline is not complete by then.
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
            // The job is judged when it ends.
            Kind::Overrun { .. } => {}
            // These events concern the budget, not the job.
            Kind::Replenish { .. } | Kind::Throttle { .. } | Kind::Unthrottle => {}
            Kind::Skip { jobs } => self.skipped(number, job, release, jobs, at),
            Kind::Abort | Kind::Contained => {
                account.begun = None;
                // A job that is ended exactly at its deadline is not complete by then.
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

/// The state of one subject.
#[derive(Clone, Debug, Default)]
struct Account {
    promise: Promise,
    /// The subject was declared, with or without a promise.
    is_declared: bool,
    /// The job that has begun and has not ended.
    begun: Option<Begun>,
    /// The newest release that was seen.
    newest: Option<(JobId, Instant)>,
    released: u64,
    complete: u64,
    late: u64,
    first_late: Option<JobId>,
    max_tardiness: Duration,
    unjudged: u64,
    unseen: Duration,
    too_early: u64,
    contradiction: Option<Instant>,
    /// Time constraints that were granted and have not ended, by job index.
    granted: BTreeMap<u64, Granted>,
    /// At least one time constraint was granted.
    was_granted: bool,
    refused: u64,
    /// Events were lost: the next one may belong to a job whose start was not seen.
    blind: bool,
}

/// The release and the deadline of a job. The deadline is never before the release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Due {
    release: Instant,
    deadline: Instant,
    wcet: Option<Service>,
}

/// A time constraint that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Granted {
    start: Instant,
    estimate: Service,
    deadline: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Begun {
    job: JobId,
    release: Instant,
    runs: bool,
}

impl Account {
    /// Returns when this job is due, if a deadline was promised.
    fn due(&self, job: JobId, release: Instant) -> Option<Due> {
        if let Some(granted) = self.granted.get(&job.index) {
            let Granted { start, estimate, deadline } = *granted;
            return Some(Due { release: start, deadline, wcet: Some(estimate) });
        }
        let deadline = release.saturating_add(self.promise.relative_deadline?);
        Some(Due { release, deadline, wcet: self.promise.wcet })
    }

    /// Counts the first event of a job's release. Does nothing for a job that is not newer than the
    /// newest.
    fn released(&mut self, job: JobId, release: Instant) {
        if let Some((newest, before)) = self.newest {
            if job.index <= newest.index {
                return;
            }
            let due = (job.index - newest.index)
                .checked_mul(self.promise.period.map_or(0, Duration::as_nanos));
            let gap = release.saturating_since(before).as_nanos();
            self.too_early += u64::from(due.is_some_and(|due| gap < due));
        }
        self.released += 1;
        self.newest = Some((job, release));
    }

    /// Checks an event of the job that has begun against the state, and updates the state.
    fn goes_on(&mut self, event: &Event, ran: bool, runs: Option<bool>) {
        let Event { at, job, release, .. } = *event;
        match self.begun {
            Some(begun) if begun.job == job && begun.runs == ran && begun.release == release => {}
            None if self.blind => {}
            _ => {
                self.contradiction.get_or_insert(at);
            }
        }
        self.begun = runs.map(|runs| Begun { job, release, runs });
    }
}
