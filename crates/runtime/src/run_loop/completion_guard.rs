//! However the thread that turns ends, its owner learns of it.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{End, Finish, Shared};

/// The duty of the one who turns: to tell the owner when nobody does any more.
pub(super) struct CompletionGuard<'a, H> {
    shared: &'a Shared<H>,
    holds: Cell<bool>,
}

impl<H> CompletionGuard<'_, H> {
    /// Runs `body`. If a panic ends it before it has been relieved, the owner is told that, and gets
    /// nothing else: what the thread owned is lost with it.
    pub(super) fn kept(shared: &Shared<H>, body: impl FnOnce(&CompletionGuard<'_, H>)) {
        let completion_guard = CompletionGuard { shared, holds: Cell::new(true) };
        match catch_unwind(AssertUnwindSafe(|| body(&completion_guard))) {
            Ok(()) => {}
            Err(panic) if completion_guard.holds.get() => {
                completion_guard.tell(Finish::lost(End::Panicked(panic)))
            }
            // It was printed when it happened, and may panic again when it is dropped.
            Err(panic) => std::mem::forget(panic),
        }
    }

    /// Another thread turns.
    pub(super) fn relieved(&self) {
        self.holds.set(false);
    }

    /// Nobody turns any more.
    pub(super) fn tell(&self, finish: Finish<H>) {
        self.holds.set(false);
        self.shared.ended(finish);
    }
}

/// Drops what others wrote, and so may panic when it is dropped. That was printed then.
pub(crate) fn drop_quietly<T>(value: T) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        std::mem::forget(panic);
    }
}
