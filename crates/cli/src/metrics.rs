//! `punctual metrics`: exports for Prometheus what a broker has granted and refused, and how late
//! contracted work was. `punctual serve --metrics` starts it as a process beside the broker.
//!
//! - `address`, `http`, `request`: the listener and its protocol.
//! - `format`: the two output formats.
//! - `source`: the source of the numbers.
//! - `page`: the numbers as text.
//! - `child`: starts the process beside a broker.

pub(crate) mod address;
pub(crate) mod child;
mod format;
mod http;
mod page;
mod request;
mod source;

use std::io::stdin;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::Arc;

use punctual::watch::Jobs;
use punctual_broker::kernel::privileges::{self, Account};
use punctual_client::SOCKET;
use rustix::thread::CapabilitySet;

use self::address::Address;
use self::source::Source;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

const HELP: &str = "\
Examples:
  punctual metrics > /var/lib/node_exporter/punctual.prom
      one page, for the text collector of the node exporter
  sudo punctual metrics --listen 127.0.0.1:9464
      answers GET /metrics until it is ended
  sudo punctual serve --metrics 127.0.0.1:9464
      the same, started with the broker

While it listens it watches the threads of all grants, if it has CAP_BPF and CAP_PERFMON: jobs, \
deadline misses by cause, wake-up latencies. Otherwise punctual_observer_up is 0 and those metrics \
are absent. docs/metrics.md explains each metric.

Users see their own grants; root and the broker's user see all.

Exit codes: 0 a page was printed, 2 bad usage, 3 no broker answers, or the address cannot be used.";

/// Exports a broker's numbers to Prometheus: prints one page, or serves pages on an address
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The broker's socket
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    broker: PathBuf,
    /// Serve pages at this loopback address and port, or at the path of a Unix socket
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<Address>,
    /// The broker is the parent process, and standard input is the listening socket
    #[arg(long, hide = true, conflicts_with = "listen")]
    of_parent: bool,
}

pub(crate) fn main(args: &Args) -> Outcome {
    let failed = |why: std::io::Error| Failure::cannot_here(format!("metrics: {why}"));
    let listener = match &args.listen {
        _ if args.of_parent => stdin().as_fd().try_clone_to_owned().map_err(failed)?,
        None => return print_one(args),
        Some(address) => address.listen().map_err(|why| {
            Failure::cannot_here(format!("{address}: cannot listen: {why}; choose another address"))
        })?,
    };
    // Watching jobs needs these. Beside a broker, the account is the broker's.
    let needed = CapabilitySet::BPF | CapabilitySet::PERFMON;
    let account = if args.of_parent { Account::choose() } else { Ok(None) };
    account
        .and_then(|account| privileges::keep_only(needed, account))
        .map_err(|why| failed(std::io::Error::other(why)))?;
    let jobs = Jobs::start();
    let parent = rustix::process::getppid().filter(|_| args.of_parent);
    let parent = parent.and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok());
    let source = Arc::new(Source::new(args.broker.clone(), parent));
    match jobs.state().counts {
        Ok(_) => source.watch(jobs)?,
        Err(why) => anstream::eprintln!("punctual metrics: jobs are not watched: {why}"),
    }
    let page = move |format: format::Format| format.of(&source.page().text());
    match http::serve(listener, Arc::new(page)).map_err(failed)? {}
}

fn print_one(args: &Args) -> Outcome {
    // Called for its error message if no broker answers.
    punctual_client::Broker::connect_to(&args.broker).map_err(Failure::cannot_here)?;
    let page = Source::new(args.broker.clone(), None).page();
    output::print(&format::Format::Text.of(&page.text()))?;
    Ok(Exit::Kept)
}
