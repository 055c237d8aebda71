//! Records how the calling thread was scheduled before it was given slots.
//!
//! The dispatcher leaves an owner that it releases as an ordinary thread. A thread that had a class
//! of its own restores that itself, afterwards.

use punctual_linux::sched::{self, Class, Restore, SchedError};
use punctual_linux::thread;

use super::owner::IN_SLOT;

/// Returns a guard that restores the calling thread's scheduling when it is dropped, which must be
/// after the dispatcher has released the thread. Returns `None` for a thread that is in a slot of
/// another reservation: its class is that slot's, not its own.
///
/// # Errors
/// Returns an error if the kernel does not report how the thread is scheduled.
pub(super) fn scheduling() -> Result<Option<Restore>, SchedError> {
    let in_slot = || {
        let class = sched::get(thread::current())?.class();
        Ok::<_, SchedError>(class == Some(Class::Fifo { priority: IN_SLOT }))
    };
    if in_slot()? {
        return Ok(None);
    }
    let restore = Restore::current()?;
    // Checked once more, because a slot may begin at any instruction.
    if in_slot()? {
        // Not dropped: that would set the recorded class, which may be the slot's.
        std::mem::forget(restore);
        return Ok(None);
    }
    Ok(Some(restore))
}
