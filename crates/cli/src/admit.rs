//! `punctual admit`: does this contract fit on this host?

mod json;
mod text;
mod timetable;

use std::path::{Path, PathBuf};

use punctual_analysis::{Refusal, Steps};
use punctual_model::{Contract, HostProfile};

use crate::contract_file::{self, Declared};
use crate::exit::{Exit, Outcome};
use crate::output;

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
    /// The contract, a TOML file or rt-app's JSON (.json); "-" reads standard input.
    contract: PathBuf,

    /// Show how streams were derived, and how far each number of an admitted contract could grow.
    #[arg(long)]
    explain: bool,

    /// Print JSON, times in nanoseconds.
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: &Args) -> Outcome {
    let Declared { contract, notes } = contract_file::read_with_notes(&args.contract)?;
    let host = this_host();
    let answer = punctual_analysis::admit(&contract, &host);
    let explanation = match &answer {
        Ok(grant) if args.explain => Some(Explanation {
            growth: punctual_analysis::sensitivity(&contract, &host, 5 * Steps::ADMISSION),
            timetable: timetable::rows(grant, &host),
        }),
        _ => None,
    };
    let page = if args.json {
        json::page(&contract, &answer, explanation.as_ref(), &notes)
    } else {
        let hint = answer.as_ref().err().and_then(|refusal| hint(args, &contract, refusal));
        text::page(&contract, &answer, explanation.as_ref()) + &hint.unwrap_or_default()
    };
    output::print(&page)?;
    Ok(if answer.is_ok() { Exit::Kept } else { Exit::Refused })
}

/// How to see a refused task being late: where the test is exact, so that there is a schedule, and
/// where the contract can be read again.
fn hint(args: &Args, contract: &Contract, refusal: &Refusal) -> Option<String> {
    let tasks_alone = contract.cpus == 1
        && contract.reservations.is_empty()
        && contract.channels.is_empty()
        && contract.streams.is_empty();
    let exact = matches!(refusal.test, "response-time" | "processor-demand" | "fifo-response-time");
    // Within the bound on the analysis: without a shortfall nothing may be late.
    let late = refusal.shortfall.is_some() || refusal.why.contains("no finite response time");
    let file = &args.contract;
    (tasks_alone && exact && late && file != Path::new("-"))
        .then(|| format!("see it happen: punctual simulate --witness {}\n", file.display()))
}

/// What `--explain` adds to an admitted contract.
struct Explanation {
    /// How far each number can go, the others as they are.
    growth: punctual_analysis::Sensitivity,
    /// What its reservations would get in a timetable, and what that costs.
    timetable: Vec<timetable::Row>,
}

/// This host with the kernel's limits on reservations, and with switches that cost nothing until a
/// measured profile says what they cost.
pub(crate) fn this_host() -> HostProfile {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let deadline_limits = punctual_linux::host::deadline_limits();
    let reservable_ppm = deadline_limits.reservable_ppm();
    let ideal = HostProfile::ideal(u16::try_from(cpus).unwrap_or(u16::MAX));
    HostProfile { reservable_ppm, deadline_limits, ..ideal }
}
