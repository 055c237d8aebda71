//! `punctual verify`: runs what a contract declares, and reports for each promise whether it was
//! kept.
//!
//! [`punctual::verify`] does the work. This module parses the options and renders the result in two
//! of its three forms ([`text`], [`junit`]; the third is the result's own JSON).

mod junit;
mod text;

use std::path::PathBuf;

use punctual::contract::Declared;
use punctual::verify::{Options, verify};
use punctual_client::SOCKET;
use punctual_model::Duration;

use crate::contract_file;
use crate::exit::{Exit, Failure, Outcome};
use crate::host_profile::ProfileArgs;
use crate::output;
use crate::trace_file::TraceArgs;
use punctual_frontend::options::time;

const HELP: &str = "\
Examples:
  punctual verify studio.toml --for 60s
  punctual verify studio.toml --for 60s --junit verify.xml
      for a CI server: a test case for each promise; those that cannot be judged are skipped
  punctual verify studio.toml --for 10s --json --trace verify.ptrace > verify.json
  punctual verify studio.toml --only-programs
      only the commands of the contract

Commands run under their reservations, as punctual run starts them. Tasks, upcalls and streams run \
as upcalls whose handlers use all of their declared time. Channels without a client carry the \
largest messages as often as declared to an emulated link. The promises are that each job of a \
command that needs no more than the budget completes within one period of its reservation after \
its release, each job of a task or upcall by its deadline, and each message within its delay \
bound. The causes of late jobs come from the kernel (punctual why). Each verdict names its \
evidence.

It needs CAP_BPF and CAP_PERFMON, and the privileges of punctual run: run it as root.

Exit codes: 0 no promise was broken, 1 one was or the contract is refused, 2 bad usage or bad \
contract, 3 this host cannot.";

/// Runs a contract and reports for each promise whether it was kept
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The contract, a TOML file
    contract: PathBuf,
    /// Run for this long, or until all programs have ended if nothing else runs
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = time)]
    length: Duration,
    /// Run only the commands of the contract, with no substitutes for missing code
    #[arg(long)]
    only_programs: bool,
    /// The socket of the broker, which grants channels, and reservations where we have no privilege
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    broker: PathBuf,
    /// Also write the verdicts as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Print the verdicts as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    profile: ProfileArgs,
}

pub(crate) fn main(args: &Args) -> Outcome {
    let Declared { contract, text, .. } = contract_file::read(&args.contract)?;
    let host = args.profile.choose()?.host;
    // Opened before a run of minutes.
    let junit = args.junit.as_deref().map(|path| output::file(path, true)).transpose()?;
    let run_by = std::env::current_exe().map_err(|why| {
        Failure::cannot_here(format!("punctual run cannot be started for the commands: {why}"))
    })?;
    let options = Options {
        length: args.length,
        only_programs: args.only_programs,
        broker: args.broker.clone(),
        run_by: Some(run_by),
    };
    let trace = || args.trace.of_live_run(&text);
    let report = verify(&args.contract, &contract, &host, &options, trace)?;
    // Written before anything is printed, so that a closed terminal cannot lose it.
    if let Some(junit) = junit {
        junit::write(junit, &report)?;
    }
    if args.json {
        output::json(&report)?;
    } else {
        output::print(&text::of(&report))?;
    }
    Ok(if report.is_broken() { Exit::Refused } else { Exit::Kept })
}
