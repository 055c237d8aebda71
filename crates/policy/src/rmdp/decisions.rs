//! The policy's decisions, for its driver.

use punctual_model::{Duration, Instant, JobId, Rank};

/// The next action of the driver.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Run an iteration of this job.
    Run(Turn),
    /// These jobs are late: report them and call `next` again.
    Missed(Missed),
    /// No job is released. The next release is at `until` ([`Instant::MAX`]: never), of an upcall
    /// with this period.
    Idle {
        /// The time at which to call `next` again.
        until: Instant,
        /// The period of the upcall that will be released then.
        period: Duration,
    },
}

/// A job's turn on the CPU.
///
/// It holds all data that a yield point needs unless the turn ends there: [`Self::iterated`] reads
/// nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The upcall, and the number of its job.
    pub job: JobId,
    /// The release of the job.
    pub release: Instant,
    /// True if the job has run before and was preempted.
    pub resumed: bool,
    /// True if the upcall is demoted: it runs because no other real-time upcall is ready.
    pub demoted: bool,
    /// PDUs to process until the next yield point.
    pub pdus: u32,
    pub(super) rank: Rank,
    pub(super) quantum: u32,
    /// The PDUs of the job that are left.
    pub(super) left: u32,
    /// The next release of a more urgent upcall, or the job's own deadline if that is earlier.
    /// Before this time a yield point has nothing to do.
    pub(super) give_way_at: Instant,
}

/// The result of a yield point for the handler that reached it.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum YieldPoint {
    /// Process [`Turn::pdus`] more PDUs.
    Continue,
    /// There may be a release or a deadline: call [`super::Rmdp::look`].
    Look,
    /// The batch is processed: call [`super::Rmdp::complete`].
    Complete,
}

impl Turn {
    /// Records that the handler finished an iteration at `now` and processed `pdus` PDUs; zero
    /// means that it has no more work in this period. It takes one or two comparisons and reads
    /// only the turn.
    #[inline]
    pub fn iterated(&mut self, now: Instant, pdus: u32) -> YieldPoint {
        if pdus == 0 || pdus >= self.left {
            self.left = 0;
            return YieldPoint::Complete;
        }
        self.left -= pdus;
        self.pdus = self.quantum.min(self.left);
        if now < self.give_way_at { YieldPoint::Continue } else { YieldPoint::Look }
    }
}

/// The result of [`super::Rmdp::look`].
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The running job has become late: report it.
    pub missed: Option<Missed>,
    /// The state of the turn.
    pub then: Then,
}

/// The state of a turn after [`super::Rmdp::look`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The turn continues.
    Continue,
    /// The turn is over: a more urgent upcall is ready. The rest of the batch stays in the run
    /// queue.
    Yield,
    /// The turn is over: the job was aborted.
    Abort,
}

/// Jobs of one upcall that were not complete at their absolute deadlines. Each is reported once,
/// except that a job that was late and is then one too many (see [`super::most_pending`]) is
/// reported again as skipped.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    /// The oldest of them.
    pub oldest: JobId,
    /// The release of the oldest; the others follow one period apart.
    pub release: Instant,
    /// The number of jobs, at least one.
    pub jobs: u64,
    /// The fate of these jobs.
    pub fate: Fate,
    /// True if the upcall's owner must be notified at once.
    pub urgent: bool,
}

/// The fate of late jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// They continue or still run.
    Late,
    /// They will never begin.
    Skipped,
    /// The job had begun, and is over.
    Aborted,
}
