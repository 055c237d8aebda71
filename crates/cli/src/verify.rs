//! `punctual verify`: runs what a contract declares, and says of each promise whether it was kept.
//!
//! Reading order: [`promises`] (what is to be judged), [`programs`] (the commands, by `punctual run`),
//! [`synthetic`] (upcalls that nobody wrote), then the three ways to tell it.

mod json;
mod junit;
mod programs;
mod promises;
mod synthetic;
mod text;

use std::path::PathBuf;

use punctual_linux::clock;
use punctual_linux::process::{Blocked, Caught};
use punctual_model::Duration;
use punctual_observe::Session;

use crate::exit::{Exit, Failure, Outcome};
use crate::host_profile::ProfileArgs;
use crate::options::time;
use crate::{contract_file, output};
use programs::{Owners, Programs};
use promises::{Promises, Report};
use synthetic::Synthetic;

const HELP: &str = "\
Examples:
  punctual verify studio.toml --for 60s
  punctual verify studio.toml --for 60s --junit verify.xml
      for a CI server: a test case for each promise, those that cannot be judged are skipped
  punctual verify studio.toml --for 10s --json > verify.json

Commands run under their reservations, as punctual run starts them. Upcalls run with a handler that uses \
all of its declared time. Promised is that each job of a command that needs no more than the budget is \
complete one period of its reservation after its release, and each job of an upcall one period after its. \
Late jobs have their causes from the kernel (punctual why).

It takes CAP_BPF and CAP_PERFMON, and what punctual run takes: run it as root.

Exit codes: 0 no promise was broken, 1 one was or the contract is refused, 2 bad usage or bad contract, \
3 this host cannot.";

/// Runs a contract and says of each promise whether it was kept
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The contract, a TOML file
    contract: PathBuf,
    /// Run for so long; less if all programs end before
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = time)]
    length: Duration,
    /// Also write the verdicts as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// The verdicts as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    profile: ProfileArgs,
}

/// So often the kernel's records are taken.
const TURN: Duration = Duration::from_millis(50);

pub(crate) fn main(args: &Args) -> Outcome {
    let contract = contract_file::read(&args.contract)?;
    let host = args.profile.choose()?.host;
    // Opened before minutes of a run.
    let junit = args.junit.as_deref().map(junit::File::beside).transpose()?;
    if let Err(refusal) = punctual_analysis::admit(&contract, &host) {
        let report = Report::refused(&args.contract, &refusal.to_string());
        tell(args, junit, &report)?;
        return Ok(Exit::Refused);
    }
    let signals = Blocked::new().map_err(Failure::cannot_here)?;
    let plan = programs::plan(&args.contract, &contract, &signals)?;
    let owners = Owners::new(&contract, plan);
    let mut session = Session::promising(owners.asked()).map_err(Failure::cannot_here)?;
    if let Ok(this) = std::env::current_exe() {
        session.enforced_by(this);
    }
    let mut synthetic = Synthetic::start(&contract, host, &mut session)?;
    let mut programs = Programs::start(&args.contract, &contract, &signals)?;
    if let Some(programs) = &programs {
        owners.started(programs.id());
        session.follow(programs.id());
    }
    let mut report = Report::new(&args.contract, Promises::of(&contract));
    let begun = clock::now();
    loop {
        let caught = signals.wait_until(clock::now() + TURN).map_err(Failure::cannot_here)?;
        if let Some(synthetic) = &mut synthetic {
            synthetic.tell(&mut session);
        }
        for verdict in session.turn() {
            report.late(&verdict);
        }
        let asked = matches!(caught, Some(Caught::Sent { .. } | Caught::Stop { .. }));
        let over = clock::now().saturating_since(begun) >= args.length;
        let programs_ended =
            programs.as_mut().map_or(Ok(synthetic.is_none()), Programs::have_ended)?;
        if asked || over || (programs_ended && synthetic.is_none()) {
            break;
        }
    }
    report.ran(clock::now().saturating_since(begun));
    if let Some(synthetic) = synthetic {
        synthetic.stop(&mut session)?;
    }
    let ended = session.end();
    if let Some(programs) = programs {
        report.programs_ended(programs.end()?);
    }
    report.judge(&contract, ended, &owners);
    tell(args, junit, &report)?;
    Ok(if report.is_broken() { Exit::Refused } else { Exit::Kept })
}

fn tell(args: &Args, junit: Option<junit::File>, report: &Report) -> Result<(), Failure> {
    // Before anything is printed: a closed terminal must not lose it.
    if let Some(junit) = junit {
        junit.write(report)?;
    }
    if args.json { output::print(&json::of(report)) } else { output::print(&text::of(report)) }
}
