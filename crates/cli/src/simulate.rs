//! `punctual simulate`: runs a contract under its own policy, in virtual time.

mod options;
mod text;
mod traces;

use std::path::Path;

use punctual::contract::{Declared, Noted};
use punctual::host::Chosen;
use punctual::simulate::{Report, Simulation, search};
use punctual_frontend::exit::{Exit, Failure, Outcome};
use punctual_frontend::output;
use punctual_model::{Contract, Instant};

use traces::Traces;

use crate::inputs::read_contract;

pub(crate) use options::Args;

pub(crate) fn main(args: &Args) -> Outcome {
    let declared = read_contract(&args.contract)?;
    let chosen = args.profile.choose()?;
    let answer = if args.witness { witness } else { simulate };
    answer(args, &declared, &chosen).map_err(|failure| match &failure {
        Failure::Refused(why) => {
            let text = format!("{}: {why}", punctual::contract::name_of(&args.contract));
            failure.reworded(text)
        }
        _ => failure,
    })
}

fn simulate(args: &Args, declared: &Declared, chosen: &Chosen) -> Outcome {
    let Declared { contract, notes, text } = declared;
    let simulation = Simulation::new(contract, chosen, args.options())?;
    let mut traces = Traces::of(args, text)?;
    let report = simulation.run(&mut traces)?;
    traces.finish(Instant::ZERO + args.length, simulation.host(), &report.host_profile)?;
    if args.json {
        output::json(&Noted { result: &report, notes })?;
    } else {
        output::print(&text::page(&report, hint(args, contract, &report).as_deref()))?;
    }
    Ok(if report.is_kept() { Exit::Kept } else { Exit::Refused })
}

fn witness(args: &Args, declared: &Declared, chosen: &Chosen) -> Outcome {
    let Declared { contract, notes, text } = declared;
    let mut traces = Traces::of(args, text)?;
    let found = search(contract, chosen, &mut traces)?;
    traces.finish(Instant::ZERO, &found.host, &found.host_profile)?;
    if args.json {
        output::json(&Noted { result: &found, notes })?;
    } else {
        output::print(&text::witness(&found, contract))?;
    }
    Ok(if found.witness.is_some() { Exit::Refused } else { Exit::Kept })
}

/// Suggests a search for a late schedule if the contract is refused but no job was late, since then
/// the run does not show the reason.
fn hint(args: &Args, contract: &Contract, report: &Report) -> Option<String> {
    let searchable = contract.channels.is_empty() && contract.receiving.is_empty();
    let searchable = searchable && contract.streams.is_empty() && contract.cpus == 1;
    if report.admitted || report.broken() > 0 || !searchable || contract.tasks.is_empty() {
        return None;
    }
    let again = if args.contract == Path::new("-") {
        "--witness".to_owned()
    } else {
        format!("punctual simulate --witness {}", args.contract.display())
    };
    Some(format!("refused, and no job was late here; search a schedule with one: {again}"))
}
