//! Reads the contract named on a command line.

use std::path::Path;

use punctual::contract::{self, Declared};

use crate::exit::Failure;
use crate::host_profile::note;

/// Reads and validates the contract at `path`; "-" is standard input. Prints a line on standard
/// error for each part of the file that the contract does not cover.
pub(crate) fn read(path: &Path) -> Result<Declared, Failure> {
    let declared = contract::read(path)?;
    note(&declared.notes);
    Ok(declared)
}
