//! The workloads of rt-app, read as contracts.
//!
//! rt-app (<https://github.com/scheduler-tools/rt-app>) plays workloads that a JSON file describes:
//! threads that run, sleep, wait for timers and for each other. [`parse`] makes a contract of such
//! a file. Everything that a contract cannot express comes back as [`Note`]s; nothing is dropped
//! silently. `docs/rt-app.md` explains each key.
//!
//! A file is read into a tree (`reader`), the tree into threads with phases and events
//! (`threads`, `scheduling`, `workload`), each thread into the rate of its jobs (`sequence`,
//! `rate`), and all together into a contract (`entries`). All times in the file are microseconds.

mod entries;
mod problem;
mod rate;
mod reader;
mod scheduling;
mod sequence;
mod threads;
mod workload;

use alloc::borrow::ToOwned;
use alloc::vec;
use alloc::vec::Vec;

use crate::{Contract, FileError};
use problem::{Problem, placed};

pub use problem::Note;

/// A workload, as far as a contract can express it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The contract, with at least one task or reservation.
    pub contract: Contract,
    /// The parts that were left out, in file order.
    pub notes: Vec<Note>,
}

/// Reads an rt-app workload. `file` only appears in messages.
///
/// # Errors
/// Refuses with file, line and column: text that is not JSON even with rt-app's liberties; input
/// that rt-app itself refuses (a thread without events, a wrong type, an unknown policy); numbers
/// that no contract can hold; and a workload of which nothing can be carried over. Time and memory
/// are linear in the length of `bytes`, up to a logarithm.
pub fn parse(file: &str, bytes: &[u8]) -> Result<Imported, FileError> {
    let (text, utf8) = match core::str::from_utf8(bytes) {
        Ok(text) => (text, Ok(())),
        Err(error) => {
            // Cannot fail: this is the part that is UTF-8.
            let valid = core::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
            let text = "this byte is not UTF-8; a workload is a JSON text file".to_owned();
            (valid, Err(Problem { offset: valid.len(), text }))
        }
    };
    let mut notes = Vec::new();
    utf8.and_then(|()| reader::read(text))
        .and_then(|root| workload::contract(&root, &mut notes))
        .map(|contract| Imported { contract, notes: placed(text, notes) })
        .map_err(|problem| {
            let mut placed = placed(text, vec![problem]);
            // One problem goes in, so one comes out.
            let Note { line, column, what } = placed.swap_remove(0);
            FileError { file: file.into(), line, column, problem: what }
        })
}

#[cfg(test)]
mod tests;
