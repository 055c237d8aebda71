//! `punctual serve`: runs the broker, which gives ordinary users guarantees.

use std::path::PathBuf;
use std::process::Command;

use punctual::metrics::Address;
use punctual::trace::{RecordError, Recorder};
use punctual_broker::config::Config;
use punctual_broker::ledger::LedgerError;
use punctual_broker::log;
use punctual_broker::parts::Part;
use punctual_broker::server::{ChannelTrace, Measured, Options, ServeError, Server};
use punctual_broker::{CONFIG, STATE};
use punctual_client::SOCKET;
use punctual_frontend::exit::{Exit, Failure, Outcome};
use punctual_frontend::output;
use punctual_frontend::trace_file::TraceArgs;
use punctual_model::Instant;
use punctual_trace::{Event, Subject};

use crate::inputs::ProfileArgs;
use crate::metrics;

const HELP: &str = "\
Examples: as a service; in a terminal, for a trial; a check of a configuration
  systemctl enable --now punctual-broker.socket
  sudo punctual serve --socket /run/punctual-try/broker.sock --state /run/punctual-try/state
  punctual serve --check --config broker.toml

Needs CAP_SYS_NICE, and CAP_SYS_RESOURCE for the level-order protocol of upcalls; it drops all \
other privileges at the start. SIGHUP reloads the configuration; an invalid one changes nothing. \
SIGTERM ends the broker. Its grants stay in force for its successor, which takes back those of \
clients that do not connect to it within the grace period.

The costs of a switch and a packet come from the configuration, else from the host profile, read \
at the start. If they were not measured, 5us and 40us are charged, even with --host-profile ideal, \
because the broker makes promises to others.

--trace records when each message of a channel arrived, began and was handed over.

--metrics starts a separate process that keeps CAP_BPF and CAP_PERFMON to watch the jobs of \
grants; docs/metrics.md lists its metrics.

Logs go to standard error; RUST_LOG=debug logs more.

Exit codes: 0 ended by a signal, 2 bad usage or bad configuration, 3 this host cannot.";

/// Runs the broker, which grants ordinary users what fits beside everything granted on this host.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The limits for each user [default: /etc/punctual/broker.toml, if it exists].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The socket for clients, unless the service manager passes one.
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    socket: PathBuf,
    /// The folder of the ledger. It should be in memory: nothing in it outlives a boot.
    #[arg(long, value_name = "FOLDER", default_value = STATE)]
    state: PathBuf,
    /// Serve metrics at this loopback address and port, or at the path of a Unix socket.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<Address>,
    #[command(flatten)]
    profile: ProfileArgs,
    #[command(flatten)]
    trace: TraceArgs,
    /// Write logs as lines of JSON.
    #[arg(long)]
    json: bool,
    /// Only check the configuration.
    #[arg(long)]
    check: bool,
    /// Run as this part of a broker, which started us.
    #[arg(long, hide = true, value_parser = part_of_name)]
    part: Option<Part>,
}

fn part_of_name(name: &str) -> Result<Part, String> {
    Part::of_name(name).ok_or_else(|| "no part of a broker has this name".into())
}

/// Returns the command that runs this program again as a part of the broker, with the same logs.
fn again(part: Part) -> Command {
    // Runs this version, even if the file has been replaced by a later one.
    let mut command = Command::new("/proc/self/exe");
    command.args(["serve", "--part", part.name()]);
    if std::env::args_os().any(|argument| argument == "--json") {
        command.arg("--json");
    }
    command
}

pub(crate) fn main(args: &Args) -> Outcome {
    let config = args.config.clone().unwrap_or_else(|| CONFIG.into());
    if args.check {
        let bytes = std::fs::read(&config)
            .map_err(|why| Failure::bad_input(format!("{}: {why}", config.display())))?;
        let _valid =
            Config::parse(&config.display().to_string(), &bytes).map_err(Failure::bad_input)?;
        output::print(&format!("{}: right\n", config.display()))?;
        return Ok(Exit::Kept);
    }
    log::start(args.json);
    if let Some(part) = args.part {
        return part.run().map(|()| Exit::Kept).map_err(Failure::cannot_here);
    }
    let chosen = args.profile.choose()?;
    let measured = Measured {
        slot_allowance: Some(chosen.host.slot_allowance).filter(|late| !late.is_zero()),
        context_switch: chosen.charge.map(|charge| charge.context_switch()),
        wake_up: Some(chosen.host.wake_up).filter(|late| !late.is_zero()),
        per_packet: chosen.host.send_costs.map(|costs| costs.per_packet()),
        per_packet_received: chosen.host.receive_costs.map(|costs| costs.per_packet()),
        source: chosen.stamp.line(),
    };
    if measured.context_switch.is_none() {
        tracing::info!("the cost of a switch is assumed: punctual calibrate measures it");
    }
    let options = Options {
        config,
        config_must_exist: args.config.is_some(),
        socket: args.socket.clone(),
        state: args.state.clone(),
        measured: Some(measured),
        part: again,
    };
    // Done before the broker gives up the privileges that watching jobs needs.
    let process = args.metrics.as_ref().map(|at| metrics::start(at, &args.socket)).transpose()?;
    let trace = args.trace.of_live_run("")?.map(|to| Box::new(Traced(Some(to))) as Box<_>);
    let served = Server::open_traced(options, trace).and_then(|server| {
        if let Some(process) = process {
            metrics::log_its_end(process);
        }
        server.run()
    });
    match served {
        Ok(()) => Ok(Exit::Kept),
        Err(why @ (ServeError::Config(_) | ServeError::File { .. })) => {
            Err(Failure::bad_input(why))
        }
        Err(why @ ServeError::Ledger(LedgerError::Unsafe { .. })) => {
            Err(Failure::cannot_here(format!("{why} with --state")))
        }
        Err(why) => Err(Failure::cannot_here(why)),
    }
}

/// Records the broker's channel events in a file, until a write fails.
#[derive(Debug)]
struct Traced(Option<Recorder>);

impl Traced {
    fn write(&mut self, what: impl FnOnce(&mut Recorder) -> Result<(), RecordError>) {
        let Some(to) = &mut self.0 else { return };
        if let Err(why) = what(to) {
            tracing::error!(%why, "the trace ends here");
            self.0 = None;
        }
    }
}

impl ChannelTrace for Traced {
    fn subject(&mut self, number: u32, subject: &Subject) {
        self.write(|to| to.subject(number, subject));
    }

    fn events(&mut self, events: &[Event]) {
        self.write(|to| to.events(events));
    }

    fn lost(&mut self, at: Instant, events: u64) {
        self.write(|to| to.lost(at, events));
    }

    fn end(&mut self, at: Instant) {
        if let Some(to) = self.0.take()
            && let Err(why) = to.end(at)
        {
            tracing::error!(%why, "the trace has no end");
        }
    }
}
