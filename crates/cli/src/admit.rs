//! `punctual admit`: tests whether a contract fits on this host.

mod text;

use std::path::{Path, PathBuf};

use punctual::admission::Answer;
use punctual_analysis::{Refusal, Resource};
use punctual_frontend::exit::{Exit, Outcome};
use punctual_frontend::output;
use punctual_model::Contract;

use crate::inputs::{ProfileArgs, read_contract};

const EXAMPLES: &str = "\
Examples:
  punctual admit video.toml
      every task with its proven response time, or what does not fit and what would
  punctual admit --explain video.toml
      also the derivation of streams, and how far each number could grow
  generate-contract | punctual admit --json -
      the same as JSON, with the contract from standard input
  punctual admit --host-profile ideal video.toml
      assumes free switches, whatever punctual calibrate measured here

Exit codes: 0 admitted, 1 refused, 2 bad usage or bad contract.";

/// Tests whether a contract fits on this host; if not, shows by how much, and what would fit.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The contract, a TOML file or rt-app's JSON (.json); "-" reads standard input.
    contract: PathBuf,

    /// Show how streams were derived, and how far each number of an admitted contract could grow.
    #[arg(long)]
    explain: bool,

    /// Show all tasks and channels instead of only the 20 with the least slack.
    #[arg(long)]
    all: bool,

    /// Print the answer as JSON, with times in nanoseconds.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    profile: ProfileArgs,
}

pub(crate) fn main(args: &Args) -> Outcome {
    let declared = read_contract(&args.contract)?;
    let answer = Answer::new(declared, args.profile.choose()?, args.explain);
    if args.json {
        output::json(&answer)?;
    } else {
        let hint = answer.outcome.as_ref().err();
        let hint = hint.and_then(|refusal| hint_of(args, &answer.contract, refusal));
        output::print(&(text::page(&answer, args.all) + &hint.unwrap_or_default()))?;
    }
    Ok(if answer.outcome.is_ok() { Exit::Kept } else { Exit::Refused })
}

/// Returns the command that measures costs, if they are what is missing, or the one that shows a
/// refused task being late, if the test is exact (so that a late schedule exists) and the contract
/// can be read again.
fn hint_of(args: &Args, contract: &Contract, refusal: &Refusal) -> Option<String> {
    if refusal.resource == Resource::Costs {
        return Some("measure them: punctual calibrate\n".into());
    }
    let tasks_alone = contract.cpus == 1
        && contract.reservations.is_empty()
        && contract.channels.is_empty()
        && contract.streams.is_empty();
    let exact = matches!(refusal.test, "response-time" | "processor-demand" | "fifo-response-time");
    // Holds within the step limit of the analysis: without a shortfall, perhaps nothing is late.
    let late = refusal.shortfall.is_some() || refusal.why.contains("no finite response time");
    let file = &args.contract;
    (tasks_alone && exact && late && file != Path::new("-"))
        .then(|| format!("see it happen: punctual simulate --witness {}\n", file.display()))
}
