//! What the owner of upcalls is told.

use std::ffi::c_void;

use punctual_runtime::{Activity, Notice, NoticeKind};

/// Whether an upcall is being released.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum punctual_activity {
    /// It is, or will be once all are run.
    PUNCTUAL_ACTIVE = 0,
    /// It was suspended, or said PUNCTUAL_DONE.
    PUNCTUAL_SUSPENDED = 1,
    /// Its handler has not come back, and was put aside.
    PUNCTUAL_CONTAINED = 2,
    /// It is gone, or was never there.
    PUNCTUAL_CLOSED = 3,
}

/// One upcall that punctual_wait waits for.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_waited {
    /// Which; set by the program.
    pub id: u32,
    /// A punctual_activity; set by punctual_wait.
    pub activity: u32,
}

/// What a notice is about.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum punctual_notice_kind {
    /// `count` jobs were not complete at their deadlines, and go on or will still run.
    PUNCTUAL_NOTICE_OVERRUN = 0,
    /// `count` jobs were dropped before they began.
    PUNCTUAL_NOTICE_SKIPPED = 1,
    /// A job was ended at a yield point before it was complete.
    PUNCTUAL_NOTICE_ABORTED = 2,
    /// The handler did not come to a yield point in time, and was put aside for the `count`-th time.
    PUNCTUAL_NOTICE_CONTAINED = 3,
    /// The handler that had been put aside came back.
    PUNCTUAL_NOTICE_RETURNED = 4,
    /// It was contained too often, and is released no more.
    PUNCTUAL_NOTICE_CLOSED = 5,
}

/// Something that the owner of an upcall may want to act on. Its layout does not change.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct punctual_notice {
    /// When it was noticed (CLOCK_MONOTONIC).
    pub at_ns: u64,
    /// What it counts; 1 where nothing is counted.
    pub count: u64,
    /// Which upcall.
    pub id: u32,
    /// A punctual_notice_kind.
    pub kind: u32,
}

/// Called for each notice, on an ordinary thread of the library: at once for PUNCTUAL_NOTIFY and
/// containment, within 50 ms for others. It may call everything but punctual_stop and punctual_free.
/// It must return, and neither throw nor longjmp.
pub type punctual_on_notice =
    Option<unsafe extern "C" fn(arg: *mut c_void, notice: *const punctual_notice)>;

/// As C sees it.
pub(crate) fn activity(activity: Activity) -> punctual_activity {
    match activity {
        Activity::Active => punctual_activity::PUNCTUAL_ACTIVE,
        Activity::Suspended => punctual_activity::PUNCTUAL_SUSPENDED,
        Activity::Contained => punctual_activity::PUNCTUAL_CONTAINED,
        Activity::Closed => punctual_activity::PUNCTUAL_CLOSED,
    }
}

/// As C sees it.
pub(crate) fn notice(notice: Notice) -> punctual_notice {
    use punctual_notice_kind::*;
    let (kind, count) = match notice.kind {
        NoticeKind::Overrun { jobs, .. } => (PUNCTUAL_NOTICE_OVERRUN, jobs),
        NoticeKind::Skipped { jobs } => (PUNCTUAL_NOTICE_SKIPPED, jobs),
        NoticeKind::Aborted => (PUNCTUAL_NOTICE_ABORTED, 1),
        NoticeKind::Contained { times } => (PUNCTUAL_NOTICE_CONTAINED, u64::from(times)),
        NoticeKind::Returned => (PUNCTUAL_NOTICE_RETURNED, 1),
        NoticeKind::Closed => (PUNCTUAL_NOTICE_CLOSED, 1),
    };
    let (at_ns, id, kind) = (notice.at.as_nanos(), notice.task, kind as u32);
    punctual_notice { at_ns, count, id, kind }
}
