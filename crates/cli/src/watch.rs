//! `punctual watch`: shows what is granted and watched, live in a terminal.
//!
//! ```text
//! rows      the state of the host (punctual::watch)  ──▶  picture
//! picture   plain data                                    │
//! state     the user's choices: (state, key) -> state     │
//! draw      picture + state  ──▶  a screen  ◀─────────────┘
//! live      the loop;   screen: takes and restores the terminal
//! ```

mod draw;
mod live;
mod look;
mod picture;
mod rows;
mod screen;
mod state;
#[cfg(test)]
mod tests;
mod words;

use std::ffi::OsString;
use std::path::PathBuf;

use punctual::program::Target;
use punctual::watch::{Scope, Watcher};
use punctual_client::SOCKET;
use punctual_frontend::exit::{Exit, Outcome};
use punctual_frontend::options::time;
use punctual_frontend::output;
use punctual_linux::clock;
use punctual_model::Duration;
use punctual_trace::Promise;

use self::live::LOOK;
use self::look::Look;
use self::state::State;

const HELP: &str = "\
Examples:
  sudo punctual watch
      everything that the broker has granted, its use, and why jobs were late
  sudo punctual watch --deadline 5ms --work 2ms -- ./player song.wav
      also the threads of a program, whose output is discarded
  punctual watch --once | less
      one frame as text

Keys: arrows or j k move, Enter opens a row, Esc goes back, s sorts by the next column, r reverses \
the order, p freezes the picture, ? explains, q quits.

Users see their own grants, and root sees all. Jobs, latencies and causes need CAP_BPF and \
CAP_PERFMON; without them the view says so and shows the rest. NO_COLOR is respected.

Exit codes: 0 the view was ended, 2 bad usage or no terminal, 3 no broker answers and nothing else \
is watched, or this host cannot.";

/// Shows what is granted and watched: use, slack, late jobs and their causes, live in a terminal
#[derive(clap::Args)]
#[command(after_help = HELP, override_usage = "\
punctual watch [OPTIONS]
       punctual watch [OPTIONS] --pid <PID>
       punctual watch [OPTIONS] -- <COMMAND>...")]
pub(crate) struct Args {
    /// The broker's socket
    #[arg(long, alias = "socket", value_name = "PATH", default_value = SOCKET)]
    broker: PathBuf,
    /// Watch this running process, with the processes it starts
    #[arg(long, conflicts_with = "command")]
    pid: Option<u32>,
    /// Jobs of watched threads must be complete this long after their release
    #[arg(long, value_name = "TIME", value_parser = time)]
    deadline: Option<Duration>,
    /// Jobs execute for at most this long; excess is their own fault [default: the deadline]
    #[arg(long, value_name = "TIME", value_parser = time, requires = "deadline")]
    work: Option<Duration>,
    /// Watch for at most this long [default: until q; with --once 1.5s]
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    length: Option<Duration>,
    /// Do not use colours, as with NO_COLOR
    #[arg(long)]
    no_color: bool,
    /// Print one frame as text and exit
    #[arg(long)]
    once: bool,
    /// The columns and rows of that frame
    #[arg(long, value_name = "COLUMNSxROWS", default_value = "80x24", value_parser = size, requires = "once")]
    size: (u16, u16),
    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Long enough for one window of use.
const ONCE: Duration = Duration::from_millis(1_500);

pub(crate) fn main(args: &Args) -> Outcome {
    let program = (!args.command.is_empty()).then(|| Target::Program(args.command.clone()));
    let wcet = args.work.map(Duration::as_full_service);
    let promise = Promise { period: None, relative_deadline: args.deadline, wcet };
    let target = args.pid.map(Target::Process).or(program);
    let watcher = Watcher::start(Scope { socket: args.broker.clone(), target, promise })?;
    let look = Look::new(args.no_color);
    if args.once {
        return print_one(watcher, args.length.unwrap_or(ONCE), args.size);
    }
    live::watch(watcher, args.length.map(|length| clock::now() + length), look)
}

fn print_one(mut watcher: Watcher, length: Duration, size: (u16, u16)) -> Outcome {
    let until = clock::now() + length;
    let mut state = watcher.state();
    while clock::now() < until {
        watcher.collect(until.min(clock::now() + LOOK), Watcher::has_ended);
        // For a program that has ended, the last picture shows the time when it ran.
        if watcher.has_ended() {
            break;
        }
        state = watcher.state();
    }
    drop(watcher);
    let frame = draw::frame(&rows::picture(&state), &State::default(), Look::new(true), size);
    output::print(&draw::text(&frame))?;
    Ok(Exit::Kept)
}

/// Parses a size such as `80x24`.
fn size(text: &str) -> Result<(u16, u16), String> {
    let sizes = text.split_once('x').and_then(|(columns, rows)| {
        let in_range =
            |text: &str| text.parse::<u16>().ok().filter(|size| (1..=1000).contains(size));
        Some((in_range(columns)?, in_range(rows)?))
    });
    sizes.ok_or_else(|| "it is columns and rows, each from 1 to 1000, such as 80x24".into())
}
