//! Reports that are made once, on standard error.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

/// A report that is made once in the life of a program.
#[derive(Debug)]
pub(crate) struct Once(AtomicBool);

impl Once {
    pub(crate) const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Reports `text`, unless that was done before. Uses one write, so that the line is not mixed
    /// with the program's own.
    pub(crate) fn say(&self, text: impl FnOnce() -> String) {
        if !self.0.swap(true, Ordering::Relaxed) {
            // Standard error may be closed: then there is no report.
            let _ = std::io::stderr().write_all(format!("punctual: {}\n", text()).as_bytes());
        }
    }
}
