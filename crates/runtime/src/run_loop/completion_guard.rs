//! Tells the owner when the executor's thread ends, however it ends.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{End, Finish, Shared};

/// The executor thread's obligation to tell the owner when the run loop ends.
pub(super) struct CompletionGuard<'a, H> {
    shared: &'a Shared<H>,
    holds: Cell<bool>,
}

impl<H> CompletionGuard<'_, H> {
    /// Runs `body`. If a panic ends it before it has been relieved, the owner gets that panic and
    /// nothing else: what the thread owned is lost with it.
    pub(super) fn kept(shared: &Shared<H>, body: impl FnOnce(&CompletionGuard<'_, H>)) {
        let completion_guard = CompletionGuard { shared, holds: Cell::new(true) };
        match catch_unwind(AssertUnwindSafe(|| body(&completion_guard))) {
            Ok(()) => {}
            Err(panic) if completion_guard.holds.get() => {
                completion_guard.tell(Finish::lost(End::Panicked(panic)))
            }
            // The panic was printed when it happened, and may panic again when it is dropped.
            Err(panic) => std::mem::forget(panic),
        }
    }

    /// Ends the obligation because another thread runs the loop.
    pub(super) fn relieved(&self) {
        self.holds.set(false);
    }

    /// Tells the owner that the run loop has ended.
    pub(super) fn tell(&self, finish: Finish<H>) {
        self.holds.set(false);
        self.shared.ended(finish);
    }
}

/// Drops a value of the user's type, which may panic when it is dropped. The panic hook prints that
/// panic.
pub(crate) fn drop_quietly<T>(value: T) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        std::mem::forget(panic);
    }
}
