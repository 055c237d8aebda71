//! `punctual run`: an unmodified program under a CPU reservation.

mod summary;

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus};

use punctual_linux::process::{self, Blocked, Caught, Ended, SpawnError};
use punctual_linux::sched::SchedError;
use punctual_linux::{clock, host};
use punctual_model::reservation::Reservation;

use crate::exit::{Exit, Failure, Outcome};
use summary::Summary;

/// The shells' codes (POSIX, Shell Command Language, 2.8.2).
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;
const KILLED_BY: i32 = 128;

const HELP: &str = "\
Example: a player that gets 2 ms of processor time in every 8 ms, whatever else runs
  punctual run --reserve 2ms/8ms -- aplay song.wav

Only the program's first thread holds the reservation (SCHED_DEADLINE): threads and processes that \
it makes run as ordinary ones. Standard input, output and error are the program's own; SIGHUP, \
SIGINT, SIGQUIT and SIGTERM are passed on to it, and it is killed if punctual is.

Exit codes: the program's own, 128 + the signal if one killed it, 126 if it cannot be executed, \
127 if it is not found; before it starts: 1 no processor bandwidth is left, 2 bad usage or a \
reservation no kernel takes, 3 this host cannot.";

/// Runs a program under a CPU reservation and says at the end what it used of it.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Processor time and how often it comes back, such as 2ms/8ms.
    #[arg(long, value_name = "BUDGET/PERIOD")]
    reserve: Reservation,
    /// Write what was used as one line of JSON on standard error.
    #[arg(long)]
    json: bool,
    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn main(args: &Args) -> Outcome {
    // clap has seen to it that there is at least one word.
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(Failure::bad_input("no program to run; write it after \"--\""));
    };
    // First, so that no signal can come between the start of the program and our waiting for it.
    let signals = Blocked::new().map_err(Failure::cannot_here)?;
    let mut command = Command::new(program);
    command.args(arguments);
    process::die_with_parent(&mut command);
    signals.unblock_on_exec(&mut command);
    let child = match process::spawn_reserved(&mut command, args.reserve) {
        Ok(child) => child,
        Err(SpawnError::Reservation(refused)) => return refuse(args.reserve, refused),
        Err(SpawnError::Program(error)) => return Ok(cannot_execute(program, &error)),
    };
    // The program runs from here: `spawn` returns when it has replaced our child.
    let started = clock::now();
    let ended = wait(&child, &signals)
        .map_err(|error| Failure::cannot_here(format!("cannot wait for the program: {error}")))?;
    let summary = Summary {
        command: &args.command,
        reservation: args.reserve,
        wall: clock::now().saturating_since(started),
        ended,
    };
    let text = if args.json { summary.json() } else { format!("punctual: {}", summary.text()) };
    // The program's code counts even where nobody listens.
    let _ = writeln!(io::stderr(), "{text}");
    Ok(Exit::OfProgram(code_of(ended.status)))
}

/// Waits for the program's end and meanwhile passes signals on.
fn wait(child: &Child, signals: &Blocked) -> io::Result<Ended> {
    loop {
        if let Some(ended) = process::poll(child)? {
            return Ok(ended);
        }
        match signals.wait().map_err(io::Error::other)? {
            // What the terminal sends, it has sent to the program as well.
            Caught::Child | Caught::End { from_terminal: true, .. } => {}
            // Cannot miss: the child is ours until `poll` has reaped it.
            Caught::End { signal, .. } => process::send(child, signal)?,
        }
    }
}

/// The program never ran, because of its reservation.
fn refuse(asked: Reservation, refused: SchedError) -> Outcome {
    match refused {
        SchedError::NoBandwidth { .. } => {
            let _ = writeln!(io::stderr(), "punctual: {refused}; {}", counter_offer(asked));
            Ok(Exit::Refused)
        }
        refused if refused.is_privilege() => Err(Failure::cannot_here(refused)),
        SchedError::CannotFork | SchedError::Failed(_) => Err(Failure::cannot_here(refused)),
        // A limit of the kernel: no host's state would make this reservation acceptable.
        refused => Err(Failure::bad_input(refused)),
    }
}

/// What would fit now.
fn counter_offer(asked: Reservation) -> String {
    let period = asked.period();
    let left = host::bandwidth_left().map_or_else(
        |_| "what is left cannot be measured".to_owned(),
        |left| {
            let percent = left.left_ppm as f64 / 10_000.0;
            format!("left on all CPUs together: {percent:.1} % of a CPU (measured by trying)")
        },
    );
    match host::largest_budget(period) {
        Ok(budget) if budget >= asked.budget() => {
            format!("{left}; it has become free meanwhile: try again")
        }
        Ok(budget) if !budget.is_zero() => {
            format!("{left}; the largest that fits every {period} is --reserve {budget}/{period}")
        }
        _ => format!("{left}; nothing fits every {period} now"),
    }
}

/// As a shell does it.
fn cannot_execute(program: &OsString, error: &io::Error) -> Exit {
    let name = program.to_string_lossy();
    let _ = writeln!(io::stderr(), "punctual: cannot run \"{name}\": {error}");
    let not_found = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
    Exit::OfProgram(if not_found { NOT_FOUND } else { NOT_EXECUTABLE })
}

fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| KILLED_BY + signal));
    // Linux gives 0 to 255 and signals 1 to 64.
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
