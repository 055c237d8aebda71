//! The `--host-profile` option, which chooses a profile.

use std::path::PathBuf;

use punctual::host::{self, Chosen};

use crate::exit::Failure;

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
        note(&chosen.notes);
        Ok(chosen)
    }
}

/// Prints notes on standard error, one a line.
pub(crate) fn note(notes: &[String]) {
    for note in notes {
        anstream::eprintln!("note: {note}");
    }
}
