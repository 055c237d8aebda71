//! `punctual modem`: soft modems behind ttys.

mod pty;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_linux::clock;
use punctual_model::Duration;
use punctual_softmodem::exchange::{BLOCK, Exchange, Medium};
use punctual_softmodem::{SAMPLE_RATE, impair};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use pty::{Pty, Terminal};

const HELP: &str = "\
Examples: two modems that call each other, on a good line and on a bad one; with promised CPU time
  punctual modem --pair /tmp/modem-a /tmp/modem-b
  punctual modem --pair a b --snr-db 22 --echo-db 20 --ppm 50 --gaps 0.2
  sudo punctual run --reserve 2ms/20ms -- punctual modem --pair /tmp/modem-a /tmp/modem-b

Then, in two terminals: minicom -D /tmp/modem-a, and there ATDT1; minicom -D /tmp/modem-b, and there
ATA when it rings (or ATS0=1 before). Any number reaches the other modem. docs/modem.md has all
commands.

Exit codes: 0 ended by a signal or after --seconds, 2 bad usage, 3 this host cannot.";

/// How long a block of samples lasts.
const PERIOD: Duration = Duration::from_nanos(BLOCK as u64 * 1_000_000_000 / SAMPLE_RATE as u64);

/// So far behind, the time line begins anew instead of being caught up with. Nothing is lost: both
/// modems and the line between them stood still together.
const HOPELESS: Duration = Duration::from_millis(500);

/// Soft modems that programs use through a tty, as they would a modem of old
///
/// Each modem is a pseudo-terminal with AT commands, V.21, V.23, Bell 103 and V.22bis, and V.42
/// error correction. The line between the two is emulated.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Two modems joined by a line: links with these names lead to their ttys
    #[arg(long, num_args = 2, value_names = ["A", "B"], required = true)]
    pair: Vec<PathBuf>,
    /// What the line takes from a signal, in dB
    #[arg(long, value_name = "DB", default_value_t = 10.0)]
    loss_db: f64,
    /// The signal over the noise where it is received, in dB
    #[arg(long, value_name = "DB", default_value_t = 40.0)]
    snr_db: f64,
    /// Each hears itself so many dB weaker, 10 ms later [default: no echo]
    #[arg(long, value_name = "DB")]
    echo_db: Option<f64>,
    /// How much faster B's sample clock runs, in parts per million
    #[arg(long, default_value_t = 0, allow_negative_numbers = true,
          value_parser = clap::value_parser!(i32).range(-500..=500))]
    ppm: i32,
    /// Percent of the samples lost, in gaps of 20 ms
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    gaps: f64,
    /// Draws noise and gaps
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// End by itself after so many seconds
    #[arg(long)]
    seconds: Option<u32>,
}

pub(crate) fn main(args: &Args) -> Outcome {
    let [a, b] = args.pair.as_slice() else {
        return Err(Failure::bad_input("--pair takes two names"));
    };
    let medium = medium(args)?;
    let end = ending()?;
    let mut terminals = [Terminal::new(Pty::open(a)?), Terminal::new(Pty::open(b)?)];
    for (path, terminal) in [a, b].into_iter().zip(&terminals) {
        output::print(&format!("{} is a modem: {}\n", path.display(), terminal.pty().tty()))?;
    }
    let mut exchange = Exchange::new(medium);
    let start = clock::now();
    let until = args.seconds.map(|seconds| start + Duration::from_secs(seconds.into()));
    let mut next = start;
    while !end.load(Ordering::Relaxed) && until.is_none_or(|until| next < until) {
        for (which, terminal) in terminals.iter_mut().enumerate() {
            terminal.serve(next, exchange.station(which)).map_err(Failure::cannot_here)?;
        }
        exchange.step(next);
        next += PERIOD;
        let now = clock::now();
        if now > next + HOPELESS {
            next = now;
        }
        clock::sleep_until(next);
    }
    Ok(Exit::Kept)
}

/// The line that the arguments ask for.
fn medium(args: &Args) -> Result<impl Medium + use<>, Failure> {
    let finite = |name: &str, value: f64, from: f64, to: f64| {
        if (from..=to).contains(&value) {
            return Ok(value);
        }
        Err(Failure::bad_input(format!("--{name} takes {from} to {to}, not {value}")))
    };
    let line = impair::Quality {
        loss_db: finite("loss-db", args.loss_db, 0.0, 40.0)?,
        snr_db: finite("snr-db", args.snr_db, 0.0, 100.0)?,
        echo_db: args.echo_db.map(|db| finite("echo-db", db, 0.0, 100.0)).transpose()?,
        ppm: args.ppm,
        gaps_per_million: (finite("gaps", args.gaps, 0.0, 50.0)? * 10_000.0) as u32,
        seed: args.seed,
    };
    Ok(line.medium())
}

/// Becomes true when somebody wants us to end: the links must go first.
fn ending() -> Result<Arc<AtomicBool>, Failure> {
    let end = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&end)).map_err(|why| {
            Failure::cannot_here(format!("no handler for signal {signal}: {why}"))
        })?;
    }
    Ok(end)
}
