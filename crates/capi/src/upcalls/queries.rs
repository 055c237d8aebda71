//! Exports the activity, notices, events and statistics of upcalls, while they run and until their
//! handle is freed.

use super::notice::punctual_notice;
use super::records::{punctual_event, punctual_stats};
use super::state::{no_stats, punctual_upcalls};
use crate::error::guarded;
use crate::error::punctual_error;
use crate::sized::{can_write, handle, out, room, write};

/// Writes the activity of an upcall, a punctual_activity. An unknown upcall counts as closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_activity_of(
    upcalls: *mut punctual_upcalls,
    id: u32,
    activity: *mut u32,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises for both.
        let (upcalls, to) = unsafe { (handle(upcalls, "upcalls")?, out(activity, "activity")?) };
        to.write(upcalls.inner.activity(id));
        Ok(())
    })
}

/// Takes the oldest notices, at most `capacity` of them, and writes their number to `count`. None
/// wait if there is a function for them (punctual_options.on_notice). `lost`, which may be null,
/// receives the number lost since the last call because 4096 waited already.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_notices(
    upcalls: *mut punctual_upcalls,
    notices: *mut punctual_notice,
    capacity: usize,
    count: *mut usize,
    lost: *mut u64,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises for all three.
        let (upcalls, notices, count) = unsafe {
            (handle(upcalls, "upcalls")?, room(notices, capacity, "notices")?, out(count, "count")?)
        };
        let (taken, missed) = upcalls.inner.post.take(capacity);
        count.write(taken.len());
        for (to, notice) in notices.iter_mut().zip(taken) {
            to.write(notice);
        }
        if !lost.is_null() {
            // SAFETY: as the caller promises.
            unsafe { out(lost, "lost") }?.write(missed);
        }
        Ok(())
    })
}

/// Takes the oldest events, at most `capacity` of them, and writes their number to `count`. `lost`,
/// which may be null, receives the number lost since the last call because 65536 waited already;
/// statistics include those.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_drain(
    upcalls: *mut punctual_upcalls,
    events: *mut punctual_event,
    capacity: usize,
    count: *mut usize,
    lost: *mut u64,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises for all three.
        let (upcalls, events, count) = unsafe {
            (handle(upcalls, "upcalls")?, room(events, capacity, "events")?, out(count, "count")?)
        };
        let mut state = upcalls.inner.count();
        let (taken, missed) = state.tally.take(capacity);
        let mut drained = 0;
        for (to, event) in events.iter_mut().zip(taken) {
            to.write(event.into());
            drained += 1;
        }
        count.write(drained);
        if !lost.is_null() {
            // SAFETY: as the caller promises.
            unsafe { out(lost, "lost") }?.write(missed);
        }
        Ok(())
    })
}

/// Writes the statistics of an upcall so far. They are available after it was closed, until
/// punctual_forget.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_get_stats(
    upcalls: *mut punctual_upcalls,
    id: u32,
    stats: *mut punctual_stats,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises for both.
        let upcalls = unsafe {
            can_write(stats)?;
            handle(upcalls, "upcalls")?
        };
        let found = upcalls.inner.count().tally.stats(id).ok_or_else(|| no_stats(id))?;
        // SAFETY: as the caller promises.
        unsafe { write(stats, found) }
    })
}

/// Frees the statistics of a closed upcall (half a megabyte); punctual_get_stats then returns
/// PUNCTUAL_ENOENT. Without this call they stay until punctual_free, so a program that goes on
/// creating and closing upcalls should call it for each. Events that wait for punctual_drain stay.
///
/// Returns PUNCTUAL_EINVAL if the upcall is not closed, PUNCTUAL_ESTUCK if it is contained and was
/// not closed, and PUNCTUAL_ENOENT if there never was such an upcall, or it was forgotten already.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_forget(
    upcalls: *mut punctual_upcalls,
    id: u32,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises.
        unsafe { handle(upcalls, "upcalls") }?.inner.forget_stats(id)
    })
}
