//! `punctual lab`: the papers' studies.

use soft_modem::command::{self, Command};

use crate::exit::{Exit, Failure, Outcome};

const EXAMPLES: &str = "\
Examples:
  punctual lab soft-modem live                   a minute on this host, as root
  punctual lab soft-modem map --html study.html  in virtual time: the same on every machine

Exit codes: 0 done, 2 bad usage, 3 this host cannot.";

/// Repeat the studies of the papers this is built on
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    study: Study,
}

#[derive(clap::Subcommand)]
enum Study {
    /// The soft modem: one driver in interrupt, softirq, thread and reserved context
    #[command(after_help = EXAMPLES)]
    SoftModem {
        #[command(subcommand)]
        half: Command,
    },
}

pub(crate) fn main(args: &Args) -> Outcome {
    let Study::SoftModem { half } = &args.study;
    command::run(half).map_err(|why| match why {
        command::Error::Live(_) => Failure::cannot_here(why),
        command::Error::Map(_) => Failure::bad_input(why),
    })?;
    Ok(Exit::Kept)
}
