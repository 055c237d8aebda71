//! The contract of a command line.

use std::path::Path;

use punctual::contract::{self, Declared};

use crate::exit::Failure;
use crate::host_profile::note;

/// Reads and validates the contract at `path`; "-" is standard input. What its file says beyond the contract goes to
/// standard error, a line each.
pub(crate) fn read(path: &Path) -> Result<Declared, Failure> {
    let declared = contract::read(path)?;
    note(&declared.notes);
    Ok(declared)
}
