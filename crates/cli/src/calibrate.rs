//! `punctual calibrate`: measures the cost of this host's operations.

mod text;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use punctual::calibrate::{self, Options, ProfileFile, ProfileFileError};
use punctual_frontend::exit::{Exit, Failure, Outcome};
use punctual_frontend::output;
use punctual_model::Duration;
use punctual_model::host::Percentile;
use punctual_model::units::{Bytes, MessageBytes};

const EXAMPLES: &str = "\
Examples:
  punctual calibrate
      everything, in under two minutes; admit, simulate, explore and serve use it from then on
  punctual calibrate --quick --output -
      in about ten seconds, to standard output, without storing it
  punctual calibrate --working-set 1MiB --percentile 99.9
      for tasks that use more memory, and with less risk in each switch
  punctual calibrate --send-to 192.0.2.7:9
      the cost of sending by the interface that leads there: packets really leave

As root it writes the host's profile for all users, /var/lib/punctual/host.toml; otherwise your own,
$XDG_STATE_HOME/punctual/host.toml or ~/.local/state/punctual/host.toml. Without the right to
SCHED_FIFO fewer things can be measured; the profile says which are missing, and why.

The costs of sending and receiving are measured between two private network namespaces (as root,
with ip(8)), else on the loopback. With --send-to, packets leave for that address, as fast as the
processor makes them, for twenty seconds: choose a host and a network that can bear it.

Real-time threads keep a CPU busy for 40 ms at a time, with pauses. Measure on a host that is no
busier than it will be in use: other programs and frequency scaling affect the figures.

Exit codes: 0 measured, 2 bad usage, 3 nothing could be measured, or the profile cannot be written.";

/// Measures the cost of this host's context switches, caches, timers, calls and packets
///
/// The result is a host profile: a TOML file with each figure and its spread, and with the amounts
/// that admission charges for the two switches of each job and for the steps of sending and
/// receiving. docs/calibrate.md explains each figure.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Measure for about ten seconds instead of a hundred: the same figures from fewer samples
    #[arg(long)]
    quick: bool,
    /// The most memory a task touches between two switches; each switch is charged for refilling it
    #[arg(long, value_name = "SIZE", default_value = "64KiB", value_parser = parse_working_set)]
    working_set: u64,
    /// The percentile of switch and refill costs to charge, in percent; 100 charges the maximum
    #[arg(long, value_name = "PERCENT", default_value = "99", value_parser = parse_percentile)]
    percentile: Percentile,
    /// The largest packet, without headers, whose sending and receiving is charged; larger packets
    /// cost more
    #[arg(long, value_name = "SIZE", default_value = "1420B", value_parser = parse_packet)]
    packet: u32,
    /// Send UDP packets to this address and port instead of to a private network: packets leave the
    /// host
    #[arg(long, value_name = "ADDRESS:PORT")]
    send_to: Option<SocketAddr>,
    /// Write the profile to this file instead of its default place; "-" is standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the figures as JSON, with times in nanoseconds
    #[arg(long)]
    json: bool,
}

fn parse_working_set(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(Bytes(bytes)) if Options::WORKING_SETS.contains(&bytes) => Ok(bytes),
        Ok(_) => Err("a working set is measured from 64B to 64MiB".into()),
        Err(why) => Err(format!("the size \"{text}\" {why}")),
    }
}

fn parse_packet(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(MessageBytes(bytes)) if Options::PACKETS.contains(&bytes) => Ok(bytes),
        Ok(_) => Err(format!("a packet has from 1B to {}B", Options::PACKETS.end())),
        Err(why) => Err(format!("the size \"{text}\" {why}")),
    }
}

fn parse_percentile(text: &str) -> Result<Percentile, String> {
    let percent = format!("{}%", text.strip_suffix('%').unwrap_or(text));
    percent.parse().map_err(|why| format!("\"{percent}\" {why}"))
}

pub(crate) fn main(args: &Args) -> Outcome {
    let to_stdout = args.output.as_deref() == Some(Path::new("-"));
    if to_stdout && args.json {
        return Err(Failure::bad_input(
            "--output - and --json both want standard output; write --output FILE for one of them",
        ));
    }
    // Opened now, so that an unwritable path is found before a minute of measuring.
    let file = (!to_stdout).then(|| ProfileFile::open(args.output.as_deref()));
    let file = file.transpose().map_err(not_opened)?;
    let options = Options {
        quick: args.quick,
        working_set: args.working_set,
        packet: args.packet,
        percentile: args.percentile,
        send_to: args.send_to,
    };
    let bar = progress(options.length());
    let before = file.as_ref().and_then(ProfileFile::earlier);
    let measured = calibrate::measure(&options, before, &|what, spent| {
        // Setting a message writes to the terminal, so an equal one is not set.
        if bar.message() != what {
            bar.set_message(what.to_owned());
        }
        bar.set_position(millis(spent));
    });
    bar.finish_and_clear();
    let calibration = measured?;
    let Some(file) = file else {
        output::print(&calibration.to_string())?;
        return Ok(Exit::Kept);
    };
    let written = file.write(calibration)?;
    if args.json {
        output::json(&written)?;
    } else {
        output::print(&text::page(&written))?;
    }
    Ok(Exit::Kept)
}

/// Names the option that chooses another file, where there is none at the default place.
fn not_opened(error: ProfileFileError) -> Failure {
    match error {
        ProfileFileError::NoHome => Failure::bad_input(format!("{error}: --output FILE")),
        ProfileFileError::Folder { .. } => Failure::cannot_here(format!("{error}: --output FILE")),
        ProfileFileError::File(error) => error.into(),
    }
}

/// Returns a progress bar with the remaining time on a terminal; elsewhere a hidden one.
fn progress(length: Duration) -> ProgressBar {
    let bar = ProgressBar::new(millis(length));
    // The template is constant, and the library accepts it.
    if let Ok(style) =
        ProgressStyle::with_template("{msg:24} {wide_bar} {percent:>3} %  {eta} left")
    {
        bar.set_style(style);
    }
    if !bar.is_hidden() {
        anstream::eprintln!("measuring for about {} s …", millis(length) / 1_000);
    }
    bar
}

fn millis(time: Duration) -> u64 {
    time.as_nanos() / 1_000_000
}
