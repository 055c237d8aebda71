//! `punctual watch`: shows what is granted and watched, live in a terminal.
//!
//! ```text
//! gather    the broker's answers and the kernel's records  ──▶  picture
//! picture   plain data                                          │
//! state     the user's choices: (state, key) -> state           │
//! draw      picture + state  ──▶  a screen  ◀───────────────────┘
//! live      the loop;   once: one frame;   screen: takes and restores the terminal
//! ```

mod draw;
pub(crate) mod gather;
mod live;
mod look;
pub(crate) mod observed;
mod once;
mod picture;
mod program;
mod screen;
mod state;
#[cfg(test)]
mod tests;
mod words;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use punctual_client::Broker;
use punctual_client::SOCKET;
use punctual_linux::clock;
use punctual_model::Duration;
use punctual_trace::Promise;

use self::gather::{Gatherer, Scope};
use self::look::Look;
use self::program::Program;
use self::state::State;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use punctual_frontend::options::time;

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
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    socket: PathBuf,
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

/// The period at which the kernel's records are collected and the state is updated.
const TURN: Duration = Duration::from_millis(50);
const LOOK: Duration = Duration::from_millis(500);

/// Long enough for one window of use.
const ONCE: Duration = Duration::from_millis(1_500);

pub(crate) fn main(args: &Args) -> Outcome {
    let program = match (args.pid, args.command.split_first()) {
        (Some(pid), _) if !Path::new(&format!("/proc/{pid}/task")).exists() => {
            return Err(Failure::bad_input(format!("there is no process {pid}")));
        }
        (None, Some((program, arguments))) => Some(Program::start(program, arguments)?),
        _ => None,
    };
    let root = args.pid.or(program.as_ref().map(Program::id));
    if root.is_none() {
        // Without a process to watch and without a broker there is nothing to show.
        Broker::connect_to(&args.socket).map_err(Failure::cannot_here)?;
    }
    let wcet = args.work.map(Duration::as_full_service);
    let promise = Promise { period: None, relative_deadline: args.deadline, wcet };
    let asked = Scope { socket: args.socket.clone(), root, promise };
    let look = Look::new(args.no_color);
    if args.once {
        return print_one(asked, program, args.length.unwrap_or(ONCE), args.size);
    }
    let until = args.length.map(|length| clock::now() + length);
    // The program must end after the view, not before it.
    let shown = live::watch(asked, until, look);
    drop(program);
    shown
}

fn print_one(
    asked: Scope,
    mut program: Option<Program>,
    length: Duration,
    size: (u16, u16),
) -> Outcome {
    let mut gatherer = Gatherer::start(asked);
    let mut picture = gatherer.look();
    let until = clock::now() + length;
    let mut next_look = clock::now() + LOOK;
    loop {
        clock::sleep(TURN.min(length));
        gatherer.turn();
        let now = clock::now();
        // For a program that has ended, the last picture shows the time when it ran.
        let has_ended = program.as_mut().is_some_and(|program| program.has_ended().is_some());
        let is_over = now >= until;
        if !has_ended && (is_over || now >= next_look) {
            picture = gatherer.look();
            next_look = now + LOOK;
        }
        if is_over || has_ended {
            break;
        }
    }
    drop(program);
    let frame = once::frame(&picture, &State::default(), Look::new(true), size);
    output::print(&once::text(&frame))?;
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
