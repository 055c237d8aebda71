//! What the policy tells its driver.

use punctual_model::{Duration, Instant, JobId, Rank};

/// What the driver must do now.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Run an iteration of this job.
    Run(Turn),
    /// Nothing to run yet: these jobs are late. Make it known and ask again.
    Missed(Missed),
    /// Nothing is released; the next release is at `until` ([`Instant::MAX`]: never), and it is a
    /// release of an upcall with this period.
    Idle {
        /// When to ask again.
        until: Instant,
        /// The period of the upcall that will be released then.
        period: Duration,
    },
}

/// A job's turn on the CPU.
///
/// It holds all that a yield point needs which does not end it: [`Self::iterated`] touches nothing
/// else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Which upcall, and which of its jobs.
    pub job: JobId,
    /// When the job was released.
    pub release: Instant,
    /// Whether the job has run before and gave way.
    pub resumed: bool,
    /// Whether the upcall was demoted: it runs because nothing else real-time wants to.
    pub demoted: bool,
    /// PDUs to process until the next yield point.
    pub pdus: u32,
    pub(super) rank: Rank,
    pub(super) quantum: u32,
    /// PDUs of the job that are left.
    pub(super) left: u32,
    /// When somebody more urgent, or the job's own deadline, comes next; before that a yield point
    /// has nothing to do.
    pub(super) give_way_at: Instant,
}

/// What a yield point means for the handler that reached it.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum YieldPoint {
    /// Process [`Turn::pdus`] PDUs more.
    Continue,
    /// Something may have happened: ask [`super::Rmdp::look`].
    Look,
    /// The batch is processed: tell [`super::Rmdp::complete`].
    Complete,
}

impl Turn {
    /// The handler finished an iteration at `now`, having processed `pdus` PDUs; zero means that it
    /// has nothing left to do in this period. A compare or two, no memory beside the turn's.
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

/// The answer of [`super::Rmdp::look`].
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The running job has become late: make it known.
    pub missed: Option<Missed>,
    /// What becomes of the turn.
    pub then: Then,
}

/// What becomes of a turn after a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It goes on.
    Continue,
    /// It is over: somebody more urgent waits; the rest of the batch stays in the run queue.
    Yield,
    /// It is over: the job was aborted.
    Abort,
}

/// Jobs of one upcall that were not complete at their absolute deadlines. Each is told of once, but
/// one that went on late and then is one too many (see [`super::most_pending`]) again as skipped.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    /// The oldest of them.
    pub oldest: JobId,
    /// Its release; those of the others follow one period apart.
    pub release: Instant,
    /// How many they are, at least one.
    pub jobs: u64,
    /// What becomes of them.
    pub fate: Fate,
    /// Whether their upcall wants its owner told at once.
    pub urgent: bool,
}

/// What becomes of late jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// They go on or still run.
    Late,
    /// They will never begin.
    Skipped,
    /// It had begun, and is over.
    Aborted,
}
