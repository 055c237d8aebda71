//! Exports one-shot time constraints: an amount of work between a start and a deadline.

use std::mem::offset_of;
use std::thread::{self, ThreadId};

use punctual_model::Service;
use punctual_runtime::reservation::Constraint;

use super::opening::punctual_reservations;
use crate::error::punctual_error;
use crate::error::{Failure, guarded};
use crate::sized::{Record, can_write, handle, out, write};
use crate::upcalls::{from_now_on, within};

/// The outcome of a time constraint.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_used {
    /// sizeof(punctual_used).
    pub size: usize,
    /// The processor time that the thread used since the constraint began.
    pub used_ns: u64,
    /// The estimate of the request.
    pub estimate_ns: u64,
    /// 1 if it ended by its deadline, else 0.
    pub in_time: u32,
    /// Must be zero.
    pub reserved: u32,
}

// SAFETY: integers only, a size first.
unsafe impl Record for punctual_used {
    const NAME: &'static str = "punctual_used";
    const FIRST: usize = offset_of!(Self, reserved) + size_of::<u32>();
}

/// An accepted time constraint. Only the thread that began it may use it, and must end it.
pub struct punctual_constraint {
    thread: ThreadId,
    constraint: Constraint,
}

/// Requests a time constraint: `estimate_ns` of processor time for the calling thread between
/// `start_ns` and `deadline_ns` (CLOCK_MONOTONIC, or now if that is later), in addition to all that
/// is reserved and was accepted before. Call it before the work begins. The thread stays on one CPU
/// until the constraint ends.
///
/// Returns PUNCTUAL_EREFUSED, with the largest estimate that would fit and the earliest deadline in
/// the sentence, if it is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_constraint_begin(
    reservations: *mut punctual_reservations,
    start_ns: u64,
    estimate_ns: u64,
    deadline_ns: u64,
    constraint: *mut *mut punctual_constraint,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises for both.
        let (given, to) =
            unsafe { (handle(reservations, "reservations")?, out(constraint, "constraint")?) };
        let start = from_now_on(start_ns, "start_ns")?;
        let deadline = from_now_on(deadline_ns, "deadline_ns")?;
        let estimate = Service::from_nanos(within(estimate_ns, "estimate_ns")?);
        if estimate.is_zero() || deadline <= start {
            return Err(Failure::invalid(
                "the estimate must be positive, and the deadline after the start and after now",
            ));
        }
        let constraint = Constraint::begin(&given.0, start, estimate, deadline)?;
        let thread = thread::current().id();
        to.write(Box::into_raw(Box::new(punctual_constraint { thread, constraint })));
        Ok(())
    })
}

/// Ends a time constraint and frees it. The rest of its time becomes available to others. `used`
/// may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_constraint_end(
    constraint: *mut punctual_constraint,
    used: *mut punctual_used,
) -> punctual_error {
    guarded(|| {
        if !used.is_null() {
            // SAFETY: as the caller promises.
            unsafe { can_write(used) }?;
        }
        // SAFETY: as the caller promises.
        let thread = unsafe { handle(constraint, "constraint") }?.thread;
        if thread != thread::current().id() {
            return Err(Failure::invalid("the time constraint is another thread's"));
        }
        // SAFETY: made by `punctual_constraint_begin`, given up by the caller, and this is its
        // thread.
        let ended = unsafe { Box::from_raw(constraint) }.constraint.end();
        if used.is_null() {
            return Ok(());
        }
        let found = punctual_used {
            size: size_of::<punctual_used>(),
            used_ns: ended.used.as_nanos(),
            estimate_ns: ended.estimate.as_nanos(),
            in_time: u32::from(ended.in_time),
            reserved: 0,
        };
        // SAFETY: as the caller promises.
        unsafe { write(used, found) }
    })
}
