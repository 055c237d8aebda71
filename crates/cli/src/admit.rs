//! `punctual admit`: does this contract fit on this host?

mod json;
mod text;

use std::path::PathBuf;

use punctual_analysis::Steps;
use punctual_model::HostProfile;

use crate::exit::{Exit, Outcome};
use crate::{contract_file, output};

const EXAMPLES: &str = "\
Examples:
  punctual admit video.toml
      every task with its proven response time, or what does not fit and what would
  punctual admit --explain video.toml
      also how streams became upcalls and channels, and how far each number could grow
  generate-contract | punctual admit --json -
      the same for a program, with the contract from standard input

Exit codes: 0 admitted, 1 refused, 2 bad usage or bad contract.";

/// Says whether a contract fits on this host, with the numbers and, if not, what would.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The contract, a TOML file; "-" reads standard input.
    contract: PathBuf,

    /// Show how streams were derived, and how far each number of an admitted contract could grow.
    #[arg(long)]
    explain: bool,

    /// Print JSON, times in nanoseconds.
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: &Args) -> Outcome {
    let contract = contract_file::read(&args.contract)?;
    let host = this_host();
    let answer = punctual_analysis::admit(&contract, &host);
    let growth = (args.explain && answer.is_ok())
        .then(|| Growth(punctual_analysis::sensitivity(&contract, &host, Steps::ADMISSION)));
    let page = if args.json {
        json::page(&contract, &answer, growth.as_ref())
    } else {
        text::page(&contract, &answer, args.explain, growth.as_ref())
    };
    output::print(&page)?;
    Ok(if answer.is_ok() { Exit::Kept } else { Exit::Refused })
}

/// How far each number of an admitted contract can go, the others as they are.
struct Growth(Vec<punctual_analysis::Offer>);

/// This host with the kernel's limits on reservations, and with switches that cost nothing until a
/// measured profile says what they cost.
pub(crate) fn this_host() -> HostProfile {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let deadline_limits = punctual_linux::host::deadline_limits();
    let reservable_ppm = deadline_limits.reservable_ppm();
    let ideal = HostProfile::ideal(u16::try_from(cpus).unwrap_or(u16::MAX));
    HostProfile { reservable_ppm, deadline_limits, ..ideal }
}
