//! Which of the program's functions this thread is inside of.

use std::cell::Cell;

/// Where calls would wait for themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inside {
    /// Nowhere special.
    Nothing,
    /// `iterate` or `commit`: the thread that follows orders is the one that would give them.
    Handler,
    /// A notice: the thread that stopping waits for.
    Notice,
}

thread_local! {
    // Constant and without a destructor, so that a real-time thread's first look allocates nothing.
    static INSIDE: Cell<Inside> = const { Cell::new(Inside::Nothing) };
}

/// Where this thread is.
pub(crate) fn inside() -> Inside {
    INSIDE.get()
}

/// Until this is dropped the thread is inside.
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
