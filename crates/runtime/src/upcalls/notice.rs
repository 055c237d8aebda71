//! What the owner of upcalls is told beside the trace.

use punctual_model::Instant;

/// Something that the owner of an upcall may want to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// When it was noticed (CLOCK_MONOTONIC).
    pub at: Instant,
    /// Which upcall.
    pub task: u32,
    /// What.
    pub kind: NoticeKind,
}

/// What an owner is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeKind {
    /// So many jobs were not complete at their absolute deadlines, and go on or will still run.
    Overrun {
        /// How many.
        jobs: u64,
        /// Whether the upcall asked to be told at once ([`punctual_model::Overrun::Notify`]).
        urgent: bool,
    },
    /// So many jobs were dropped before they began.
    Skipped {
        /// How many.
        jobs: u64,
    },
    /// A job was ended at a yield point before it was complete.
    Aborted,
    /// Its handler did not come to a yield point in time, and was put aside.
    Contained {
        /// How often by now.
        times: u32,
    },
    /// The handler that had been put aside came back, and will be released again.
    Returned,
    /// It was contained too often, or its handler was lost in a panic while put aside: it is
    /// released no more.
    Closed,
}

impl NoticeKind {
    /// Whether an observer is woken for it.
    pub(crate) fn is_urgent(self) -> bool {
        !matches!(self, Self::Overrun { urgent: false, .. } | Self::Skipped { .. } | Self::Aborted)
    }
}

/// Whether an upcall is being released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It is.
    Active,
    /// Its owner suspended it.
    Suspended,
    /// Its handler has not come back.
    Contained,
    /// It is gone.
    Closed,
}
