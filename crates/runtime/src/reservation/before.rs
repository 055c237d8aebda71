//! How the calling thread was scheduled before it was given slots.
//!
//! The dispatcher leaves whoever it lets go of an ordinary thread. One that came with a class of its
//! own gets that back itself, afterwards.

use punctual_linux::sched::{self, Class, Restore, SchedError};
use punctual_linux::thread;

use super::owner::IN_SLOT;

/// Restores when it is dropped, which must be after the dispatcher has let go. `None` for a thread
/// that is in a slot of another reservation: what it has is that slot's, not its own.
///
/// # Errors
/// If the kernel does not tell how it is scheduled.
pub(super) fn scheduling() -> Result<Option<Restore>, SchedError> {
    let in_slot = || {
        let class = sched::get(thread::current())?.class();
        Ok::<_, SchedError>(class == Some(Class::Fifo { priority: IN_SLOT }))
    };
    if in_slot()? {
        return Ok(None);
    }
    let restore = Restore::current()?;
    // Once more, because a slot may begin at any instruction.
    if in_slot()? {
        // Not dropped: that would set what it recorded, which may be the slot's.
        std::mem::forget(restore);
        return Ok(None);
    }
    Ok(Some(restore))
}
