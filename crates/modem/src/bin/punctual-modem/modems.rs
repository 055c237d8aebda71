//! The choice of modems, and the loop that serves them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_frontend::exit::{Exit, Failure, Outcome};
use punctual_frontend::options::time;
use punctual_frontend::trace_file::TraceArgs;
use punctual_linux::clock;
use punctual_model::{Duration, Instant};
use punctual_modem::SAMPLE_RATE;
use punctual_modem::exchange::BLOCK;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::traced::Services;
use crate::{bank, network, pair, recording};

pub(crate) const HELP: &str = "\
Examples: two modems that call each other, on a good line and on a bad one; with promised CPU time
  punctual-modem --pair /tmp/modem-a /tmp/modem-b
  punctual-modem --pair a b --snr-db 22 --echo-db 20 --ppm 50 --gaps 0.2
  sudo punctual run --reserve 2ms/20ms -- punctual-modem --pair /tmp/modem-a /tmp/modem-b
Two hosts: one can be called, the other calls it
  punctual-modem --tty /tmp/modem --listen 0.0.0.0:5004
  punctual-modem --tty /tmp/modem --call other-host:5004
Many modems on one driver, which is admitted as a real-time upcall; ATDT7 reaches /tmp/modems/7
  sudo punctual-modem --bank 32 --dir /tmp/modems --upcall --report 10
What a modem says, as a file
  punctual-modem --tty /tmp/modem --wav-out said.wav
Every service of the lines, and which of them were late
  punctual-modem --pair a b --trace modems.ptrace; punctual why modems.ptrace

Then, in two terminals: minicom -D /tmp/modem-a, and there ATDT1; minicom -D /tmp/modem-b, and there
ATA when it rings (or ATS0=1 before). Any number reaches the other modem. docs/modem.md has all
commands.

Exit codes: 0 ended by a signal or after --for TIME, 1 a bank not admitted, 2 bad usage, 3 this host
cannot.";

/// The length of a block of samples.
pub(crate) const PERIOD: Duration =
    Duration::from_nanos(BLOCK as u64 * 1_000_000_000 / SAMPLE_RATE as u64);

/// The lateness at which the time line restarts instead of catching up.
const HOPELESS: Duration = Duration::from_millis(500);

/// The arguments of all modes except the demo.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["pair", "tty", "bank"]))]
pub(crate) struct Args {
    /// Create two modems joined by a line; links with these names lead to their ttys
    #[arg(long, num_args = 2, value_names = ["A", "B"])]
    pair: Vec<PathBuf>,
    #[command(flatten)]
    line: pair::Line,
    /// Create one modem whose line leads to another host or is a file; a link with this name leads
    /// to its tty
    #[arg(long, value_name = "PATH")]
    tty: Option<PathBuf>,
    #[command(flatten)]
    network: network::Network,
    #[command(flatten)]
    recording: recording::Recording,
    #[command(flatten)]
    bank: bank::Bank,
    /// End after this time
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    length: Option<Duration>,
    #[command(flatten)]
    trace: TraceArgs,
}

pub(crate) fn main(args: &Args) -> Outcome {
    let until = args.length;
    if let Some((lines, dir)) = args.bank.asked_for() {
        return bank::main(lines, dir, &args.bank, until, &args.trace);
    }
    match (args.pair.as_slice(), &args.tty) {
        ([a, b], _) => pair::main([a, b], &args.line, until, &args.trace),
        (_, Some(tty)) if args.recording.is_asked_for() => {
            recording::main(tty, &args.recording, until, &args.trace)
        }
        (_, Some(tty)) => network::main(tty, &args.network, until, &args.trace),
        _ => Err(Failure::bad_input("--pair takes two names, --tty one, --bank a number")),
    }
}

/// Calls `step` every 20 ms, until a signal or for `lasting`; `services` records each call.
///
/// A late process catches up. If it is later than `HOPELESS`, the time in between is skipped.
pub(crate) fn every_block(
    lasting: Option<Duration>,
    mut services: Services,
    mut step: impl FnMut(Instant) -> Result<(), Failure>,
) -> Outcome {
    let end = ending()?;
    let start = clock::now();
    let until = lasting.map(|lasting| start + lasting);
    let mut next = start;
    while !end.load(Ordering::Relaxed) && until.is_none_or(|until| next < until) {
        services.serve(next, || step(next))?;
        next += PERIOD;
        let now = clock::now();
        if now > next + HOPELESS {
            services.skip(next, now);
            next = now;
        }
        clock::sleep_until(next);
    }
    services.end()?;
    Ok(Exit::Kept)
}

/// Returns a flag that becomes true on a signal to end: the links must be removed first.
pub(crate) fn ending() -> Result<Arc<AtomicBool>, Failure> {
    let end = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&end)).map_err(|why| {
            Failure::cannot_here(format!("no handler for signal {signal}: {why}"))
        })?;
    }
    Ok(end)
}
