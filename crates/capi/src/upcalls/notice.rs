//! Defines the notices to the owner of upcalls.

use std::ffi::c_void;

use punctual_runtime::{Activity, Notice, NoticeKind};

/// The activity of an upcall.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum punctual_activity {
    /// It is released, or will be after punctual_run.
    PUNCTUAL_ACTIVE = 0,
    /// It was suspended, or its handler returned PUNCTUAL_DONE.
    PUNCTUAL_SUSPENDED = 1,
    /// Its handler has not returned, and was set aside.
    PUNCTUAL_CONTAINED = 2,
    /// It was closed, or there never was such an upcall.
    PUNCTUAL_CLOSED = 3,
}

/// An upcall that punctual_wait waits for.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_waited {
    /// Its number, set by the program.
    pub id: u32,
    /// A punctual_activity, set by punctual_wait.
    pub activity: u32,
}

/// The kind of a notice.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum punctual_notice_kind {
    /// `count` jobs were not complete at their deadlines, and go on or will still run.
    PUNCTUAL_NOTICE_OVERRUN = 0,
    /// `count` jobs were dropped before they began.
    PUNCTUAL_NOTICE_SKIPPED = 1,
    /// A job was ended at a yield point before it was complete.
    PUNCTUAL_NOTICE_ABORTED = 2,
    /// The handler did not reach a yield point in time, and was set aside for the `count`-th time.
    PUNCTUAL_NOTICE_CONTAINED = 3,
    /// The handler that had been set aside returned.
    PUNCTUAL_NOTICE_RETURNED = 4,
    /// The upcall was contained too often, and is released no more.
    PUNCTUAL_NOTICE_CLOSED = 5,
}

/// An event that the owner of an upcall may want to act on. Its layout does not change.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct punctual_notice {
    /// The time at which it was noticed (CLOCK_MONOTONIC).
    pub at_ns: u64,
    /// The count of its kind, or 1 if the kind has none.
    pub count: u64,
    /// The number of the upcall.
    pub id: u32,
    /// A punctual_notice_kind.
    pub kind: u32,
}

/// Called for each notice, on an ordinary thread of the library: at once for PUNCTUAL_NOTIFY and
/// containment, within 50 ms for others. It may call every function except punctual_stop and
/// punctual_free. It must return, and neither throw nor longjmp.
pub type punctual_on_notice =
    Option<unsafe extern "C" fn(arg: *mut c_void, notice: *const punctual_notice)>;

/// Converts an activity for C.
pub(crate) fn activity(activity: Activity) -> punctual_activity {
    match activity {
        Activity::Active => punctual_activity::PUNCTUAL_ACTIVE,
        Activity::Suspended => punctual_activity::PUNCTUAL_SUSPENDED,
        Activity::Contained => punctual_activity::PUNCTUAL_CONTAINED,
        Activity::Closed => punctual_activity::PUNCTUAL_CLOSED,
    }
}

/// Converts a notice for C.
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
