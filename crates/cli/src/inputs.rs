//! Reads what most commands are given: a contract, and the host profile that `--host-profile`
//! chooses. Both come with notes for the user.

use std::path::{Path, PathBuf};

use punctual::contract::{self, Declared};
use punctual::host::{self, Chosen};
use punctual_frontend::exit::Failure;
use punctual_frontend::hint::told;

/// The option that chooses a profile.
#[derive(clap::Args, Clone)]
pub(crate) struct ProfileArgs {
    /// The costs of switches, sending and receiving: a file from punctual calibrate, or "ideal" for
    /// free switches [default: $PUNCTUAL_HOST_PROFILE, else this host's if it was measured, else
    /// ideal]
    #[arg(long, value_name = "FILE|ideal")]
    host_profile: Option<PathBuf>,
}

impl ProfileArgs {
    /// Reads the chosen profile, and prints notes about it on standard error.
    pub(crate) fn choose(&self) -> Result<Chosen, Failure> {
        let chosen = host::choose(self.host_profile.as_deref())?;
        chosen.notes.iter().for_each(|message| note(&told(message)));
        Ok(chosen)
    }
}

/// Reads and validates the contract at `path`; "-" is standard input. Prints a line on standard
/// error for each part of the file that the contract does not cover.
pub(crate) fn read_contract(path: &Path) -> Result<Declared, Failure> {
    let declared = contract::read(path)?;
    declared.notes.iter().for_each(|text| note(text));
    Ok(declared)
}

/// Prints a note on standard error.
pub(crate) fn note(text: &str) {
    anstream::eprintln!("note: {text}");
}
