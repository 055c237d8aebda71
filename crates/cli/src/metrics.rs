//! `punctual metrics`: exports for Prometheus what a broker has granted and refused, and how late
//! contracted work was. `punctual serve --metrics` starts it as a process beside the broker.
//!
//! It is a separate process, so that the program that untrusted clients connect to has none of the
//! broker's privileges, and a slow or hostile client takes none of the broker's time.

use std::io::{self, stdin};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;

use punctual::Message;
use punctual::metrics::{Address, Format, Source, serve};
use punctual::watch::Jobs;
use punctual_broker::kernel::privileges::{self, Account};
use punctual_client::{ClientError, SOCKET};
use punctual_frontend::exit::{Exit, Failure, Outcome};
use punctual_frontend::hint::told;
use punctual_frontend::output;
use punctual_linux::process::die_with_parent;
use rustix::thread::CapabilitySet;

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
    let failed = |why: io::Error| Failure::cannot_here(format!("metrics: {why}"));
    let listener = match &args.listen {
        _ if args.of_parent => stdin().as_fd().try_clone_to_owned().map_err(failed)?,
        None => return print_one(args),
        Some(address) => address.listen().map_err(Failure::cannot_here)?,
    };
    // Watching jobs needs these. Beside a broker, the account is the broker's.
    let needed = CapabilitySet::BPF | CapabilitySet::PERFMON;
    let account = if args.of_parent { Account::choose() } else { Ok(None) };
    account
        .and_then(|account| privileges::keep_only(needed, account))
        .map_err(|why| failed(io::Error::other(why)))?;
    let jobs = Jobs::start();
    let parent = rustix::process::getppid().filter(|_| args.of_parent);
    let parent = parent.and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok());
    let source = Arc::new(Source::new(args.broker.clone(), parent, report));
    match jobs.state().counts {
        Ok(_) => {
            source.watch(jobs).map_err(|why| Failure::cannot_here(format!("no thread: {why}")))?
        }
        Err(why) => anstream::eprintln!("punctual metrics: jobs are not watched: {why}"),
    }
    match serve(listener, move |format| source.page(format)).map_err(failed)? {}
}

fn print_one(args: &Args) -> Outcome {
    // Called for its error message if no broker answers.
    punctual_client::Broker::connect_to(&args.broker)?;
    let source = Source::new(args.broker.clone(), None, report);
    output::print(&source.page(Format::Text))?;
    Ok(Exit::Kept)
}

/// Reports once that the broker no longer answers, not at every scrape.
fn report(why: &ClientError) {
    anstream::eprintln!("punctual metrics: {}", told(&Message::from(why)));
}

/// Listens at `address` and starts the process for the broker at `socket`. It dies with this one.
pub(crate) fn start(address: &Address, socket: &Path) -> Result<Child, Failure> {
    let listener = address.listen().map_err(Failure::cannot_here)?;
    let failed = |why: io::Error| Failure::cannot_here(format!("the metrics process: {why}"));
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(["metrics", "--of-parent", "--broker"]).arg(socket).stdin(Stdio::from(listener));
    die_with_parent(&mut command);
    command.spawn().map_err(failed)
}

/// Logs an error if the process ends; the broker continues without it. Call this after the broker
/// has given up its privileges, because the waiting thread inherits those of its creator.
pub(crate) fn log_its_end(mut child: Child) {
    let waits = thread::Builder::new().name("metrics-end".into()).spawn(move || {
        let how = child.wait().map_or_else(|why| why.to_string(), |status| status.to_string());
        tracing::error!(how, "the metrics process has ended; the broker continues without it");
    });
    if let Err(why) = waits {
        tracing::warn!(%why, "the end of the metrics process will not be logged");
    }
}
