//! `--host-profile`, the option that chooses a profile.

use std::path::PathBuf;

use punctual::host::{self, Chosen};

use crate::exit::Failure;

/// The option that chooses a profile.
#[derive(clap::Args, Clone)]
pub(crate) struct ProfileArgs {
    /// What switches, sending and receiving cost: a file of punctual calibrate, or "ideal" for switches that
    /// are free [default: $PUNCTUAL_HOST_PROFILE, else this host's if it was measured, else ideal]
    #[arg(long, value_name = "FILE|ideal")]
    host_profile: Option<PathBuf>,
}

impl ProfileArgs {
    /// Reads the profile asked for, and says on standard error what is to be known of it.
    pub(crate) fn choose(&self) -> Result<Chosen, Failure> {
        let chosen = host::choose(self.host_profile.as_deref())?;
        note(&chosen.notes);
        Ok(chosen)
    }
}

/// Says notes on standard error, a line each.
pub(crate) fn note(notes: &[String]) {
    for note in notes {
        anstream::eprintln!("note: {note}");
    }
}
