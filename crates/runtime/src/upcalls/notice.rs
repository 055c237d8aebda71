//! Reports to the owner of upcalls, in addition to the trace.

use punctual_model::Instant;

/// Something that the owner of an upcall may want to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The time at which it was noticed (CLOCK_MONOTONIC).
    pub at: Instant,
    /// The upcall's number.
    pub task: u32,
    /// The kind of event.
    pub kind: NoticeKind,
}

/// The kind of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeKind {
    /// Jobs were not complete at their absolute deadlines, and go on or will still run.
    Overrun {
        /// The number of jobs.
        jobs: u64,
        /// True if the upcall requested an immediate notice ([`punctual_model::Overrun::Notify`]).
        urgent: bool,
    },
    /// Jobs were dropped before they began.
    Skipped {
        /// The number of jobs.
        jobs: u64,
    },
    /// A job was ended at a yield point before it was complete.
    Aborted,
    /// Its handler did not come to a yield point in time, and was contained.
    Contained {
        /// The number of containments so far.
        times: u32,
    },
    /// The contained handler returned, and will be released again.
    Returned,
    /// It was contained too often, or its handler was lost in a panic while contained: it is
    /// released no more.
    Closed,
}

impl NoticeKind {
    /// Returns whether an observer is woken for it.
    pub(crate) fn is_urgent(self) -> bool {
        !matches!(self, Self::Overrun { urgent: false, .. } | Self::Skipped { .. } | Self::Aborted)
    }
}

/// The state of an upcall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It is released.
    Active,
    /// Its owner suspended it.
    Suspended,
    /// Its handler has not returned.
    Contained,
    /// It is closed.
    Closed,
}
