//! What is said, once, on standard error.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

/// Something that is said once in the life of a program.
#[derive(Debug)]
pub(crate) struct Once(AtomicBool);

impl Once {
    pub(crate) const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Says it, unless it was said. In one write, so that it is not mixed with the program's lines.
    pub(crate) fn say(&self, text: impl FnOnce() -> String) {
        if !self.0.swap(true, Ordering::Relaxed) {
            // Nobody may be listening: then it is not said.
            let _ = std::io::stderr().write_all(format!("punctual: {}\n", text()).as_bytes());
        }
    }
}
