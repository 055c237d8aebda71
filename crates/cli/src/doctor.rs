//! `punctual doctor`

use crate::exit::{Exit, Outcome};

/// To come.
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn main(_args: &Args) -> Outcome {
    Ok(Exit::Kept)
}
