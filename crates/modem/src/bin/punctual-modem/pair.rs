//! Two modems on this host and the line between them.

use std::path::Path;

use punctual_frontend::exit::{Failure, Outcome};
use punctual_frontend::output;
use punctual_frontend::trace_file::TraceArgs;
use punctual_model::Duration;
use punctual_modem::exchange::{Exchange, Medium};
use punctual_modem::impair;

use crate::modems::every_block;
use crate::pty::{Pty, Terminal};
use crate::traced::Services;

/// The impairments of the line of a pair.
#[derive(clap::Args)]
pub(crate) struct Line {
    /// Attenuation of the line, in dB
    #[arg(long, value_name = "DB", default_value_t = 10.0, conflicts_with = "tty")]
    loss_db: f64,
    /// Ratio of signal to noise at the receiver, in dB
    #[arg(long, value_name = "DB", default_value_t = 40.0, conflicts_with = "tty")]
    snr_db: f64,
    /// Echo: each modem receives its own signal this many dB weaker, 10 ms later [default: no echo]
    #[arg(long, value_name = "DB", conflicts_with = "tty")]
    echo_db: Option<f64>,
    /// Deviation of B's sample clock, in parts per million; positive is fast
    #[arg(long, default_value_t = 0, allow_negative_numbers = true, conflicts_with = "tty",
          value_parser = clap::value_parser!(i32).range(-500..=500))]
    ppm: i32,
    /// Percentage of samples lost, in gaps of 20 ms
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, conflicts_with = "tty")]
    gaps: f64,
    /// Seed of noise and gaps
    #[arg(long, default_value_t = 1, conflicts_with = "tty")]
    seed: u64,
}

impl Line {
    fn medium(&self) -> Result<impl Medium + use<>, Failure> {
        let finite = |name: &str, value: f64, from: f64, to: f64| {
            if (from..=to).contains(&value) {
                return Ok(value);
            }
            Err(Failure::bad_input(format!("--{name} takes {from} to {to}, not {value}")))
        };
        let line = impair::Quality {
            loss_db: finite("loss-db", self.loss_db, 0.0, 40.0)?,
            snr_db: finite("snr-db", self.snr_db, 0.0, 100.0)?,
            echo_db: self.echo_db.map(|db| finite("echo-db", db, 0.0, 100.0)).transpose()?,
            ppm: self.ppm,
            gaps_per_million: (finite("gaps", self.gaps, 0.0, 50.0)? * 10_000.0) as u32,
            seed: self.seed,
        };
        Ok(line.medium())
    }
}

/// Runs both modems and the line. If the process is late no sample is lost: all three stood still
/// together.
pub(crate) fn main(
    links: [&Path; 2],
    line: &Line,
    lasting: Option<Duration>,
    trace: &TraceArgs,
) -> Outcome {
    let mut exchange = Exchange::new(line.medium()?);
    let services = Services::traced(trace, "pair of modems")?;
    let [a, b] = links;
    let mut terminals = [Terminal::new(Pty::open(a)?), Terminal::new(Pty::open(b)?)];
    for (link, terminal) in links.into_iter().zip(&terminals) {
        output::print(&format!("{} is a modem: {}\n", link.display(), terminal.pty().tty()))?;
    }
    every_block(lasting, services, |now| {
        for (which, terminal) in terminals.iter_mut().enumerate() {
            terminal.serve(now, exchange.station(which)).map_err(Failure::cannot_here)?;
        }
        exchange.step(now);
        Ok(())
    })
}
