//! Tracks which of the program's functions this thread is in.

use std::cell::Cell;

/// The function in which calls would wait for themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inside {
    /// None of them.
    Nothing,
    /// `iterate` or `commit`, on the thread that carries out requests and cannot wait for one.
    Handler,
    /// A notice, on the thread for which stopping waits.
    Notice,
}

thread_local! {
    // Constant and without a destructor, so that the first access on a real-time thread allocates
    // nothing.
    static INSIDE: Cell<Inside> = const { Cell::new(Inside::Nothing) };
}

/// Returns which function this thread is in.
pub(crate) fn inside() -> Inside {
    INSIDE.get()
}

/// Restores the previous state of the thread when dropped.
pub(crate) struct Left(Inside);

impl Inside {
    pub(crate) fn enter(self) -> Left {
        Left(INSIDE.replace(self))
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        INSIDE.set(self.0);
    }
}
