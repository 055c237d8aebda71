//! `punctual lab`: the papers' studies.

use soft_modem::command::{self, Command, Error};
use soft_modem::live;

use crate::exit::{Exit, Failure, Outcome};
use crate::trace_file::refused;

const EXAMPLES: &str = "\
Examples:
  punctual lab soft-modem live                   two minutes on this host, as root
  punctual lab soft-modem live --trace D         every service, for punctual why, report and export
  punctual lab soft-modem transfers --results D  a quarter of an hour on this host, as root
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
        Error::Live(live::Error::Trace(why)) => refused(why),
        why if why.is_of_input() => Failure::bad_input(why),
        why => Failure::cannot_here(why),
    })?;
    Ok(Exit::Kept)
}
