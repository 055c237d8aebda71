//! `punctual run`: unmodified programs under CPU reservations, one by hand or those of a contract.
//!
//! Reading order: [`start`] (which back end, and a program in it), [`granted`] (without privilege),
//! [`halting`] (CPUs that do not halt), [`waiting`] (signals, ends), [`usage`] (what was used), then the
//! two forms: [`one`], perhaps with a [`channel`], and [`contract`].

mod channel;
mod contract;
mod granted;
mod halting;
mod not_started;
mod one;
mod places;
mod plan;
mod start;
mod summary;
mod table;
mod traced;
mod usage;
mod waiting;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use punctual_broker::SOCKET;
use punctual_channel::client::compact::Compact;
use punctual_model::command::Backend;
use punctual_model::reservation::{Enforcement, Reservation};

use crate::exit::{Failure, Outcome};
use crate::host_profile::ProfileArgs;
use crate::trace_file::TraceArgs;
use start::Asked;

/// The shells' code for a program that a signal killed (POSIX, Shell Command Language, 2.8.2).
const KILLED_BY: i32 = 128;

const HELP: &str = "\
Examples:
  punctual run --reserve 2ms/8ms -- aplay song.wav
      a player that gets 2 ms of processor time in every 8 ms, whatever else runs
  punctual run --reserve 2ms/8ms --hard -- ./hog
      the same, and no more than that, with all threads and processes that it makes
  punctual run --channel 2mbit/s,delay=5ms,dest=192.0.2.7:4000 -- ./send
      a program whose datagrams to there leave within 5 ms of their turn (docs/channels.md)
  punctual run --reserve 2ms/8ms --awake -- aplay song.wav
      on a virtual machine whose idle CPUs come back late (punctual doctor measures that)
  punctual run commands.toml
      admits the contract, then starts every [[command]] of it under its reservation
  punctual run --dry-run commands.toml
      admits it and shows what would be started, how, and why so
  punctual run --trace run.ptrace commands.toml
      every slot that was given, for punctual why, report and export (docs/trace.md)

By a timetable the whole program is held, with all threads and processes that it makes; by the \
kernel (SCHED_DEADLINE) only its first thread. Without privilege the broker is asked for that (punctual \
serve, docs/broker.md). Standard input, output and error are the program's \
own. SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP and SIGCONT are passed on. \
The program is killed if punctual is. The reservation ends with the program's first process; others \
that it leaves behind go on as ordinary ones.

Exit codes: the program's own, 128 + the signal if one killed it, 126 if it cannot be executed, \
127 if it is not found. Of several programs: 0 if all ended with 0, else the first other code in the \
order of the contract. Before anything starts: 1 refused, 2 bad usage or bad contract, 3 this host \
cannot.";

/// Runs programs under CPU reservations and says at the end what they used of them.
#[derive(clap::Args)]
#[command(after_help = HELP, override_usage = "\
punctual run --reserve <BUDGET/PERIOD> [OPTIONS] -- <COMMAND>...
       punctual run --channel <RATE,delay=TIME> [OPTIONS] -- <COMMAND>...
       punctual run [OPTIONS] <CONTRACT>")]
pub(crate) struct Args {
    /// The contract whose programs are started, a TOML file; "-" reads standard input.
    contract: Option<PathBuf>,
    /// Processor time and how often it comes back, such as 2ms/8ms.
    #[arg(long, value_name = "BUDGET/PERIOD")]
    reserve: Option<Reservation>,
    /// Outside its budget the program gets what an ordinary one gets [default with a timetable].
    #[arg(long, conflicts_with = "hard", requires = "reserve")]
    soft: bool,
    /// The budget is all that the program gets.
    #[arg(long, requires = "reserve")]
    hard: bool,
    /// What executes the reservation: a timetable, for the whole program, or the kernel's
    /// SCHED_DEADLINE, for its first thread.
    #[arg(long, value_enum, default_value_t, requires = "reserve")]
    backend: Wanted,
    /// The one CPU the program runs on.
    #[arg(long, value_name = "N", requires = "reserve")]
    cpu: Option<usize>,
    /// A channel for the program's datagrams to dest, or else to where it sends first. Also max=BYTES,
    /// min=BYTES, burst=N or credits=high|medium|low, too_early=wait|lose, dest=HOST:PORT.
    #[arg(long, value_name = "RATE,delay=TIME", conflicts_with_all = ["contract", "no_broker"])]
    channel: Option<Compact>,
    /// Keep the CPUs from halting while the programs run: a thread under SCHED_IDLE spins on each that a
    /// reservation is on, or on all where that is not known. It costs their whole time.
    #[arg(long)]
    awake: bool,
    /// Where the broker listens that is asked for channels, and where we have no privilege.
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    broker: PathBuf,
    /// Ask no broker: by our own right or not at all.
    #[arg(long, conflicts_with = "broker")]
    no_broker: bool,
    /// Start only these commands of the contract.
    #[arg(long, value_name = "NAME", num_args = 1.., value_delimiter = ',', requires = "contract")]
    only: Vec<String>,
    /// Admit the contract and show what would be started.
    #[arg(long, requires = "contract")]
    dry_run: bool,
    /// Write what was used as one line of JSON on standard error; with --dry-run, the plan on standard
    /// output.
    #[arg(long)]
    json: bool,
    /// Say neither why this back end nor what was used.
    #[arg(long, conflicts_with = "json")]
    quiet: bool,
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    profile: ProfileArgs,
    /// The program and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// How things are said while programs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Text,
    Json,
    /// Only what must not pass in silence.
    Quiet,
}

/// Who is to execute a reservation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Wanted {
    /// A timetable; SCHED_DEADLINE where none can be followed and nothing asks for one.
    #[default]
    Auto,
    /// SCHED_DEADLINE.
    Kernel,
    /// A timetable.
    Timetable,
}

impl Args {
    /// Where to ask without privilege; none: nowhere.
    fn broker(&self) -> Option<&Path> {
        (!self.no_broker).then_some(&*self.broker)
    }

    fn manner(&self) -> Manner {
        match (self.json, self.quiet) {
            (true, _) => Manner::Json,
            (_, true) => Manner::Quiet,
            _ => Manner::Text,
        }
    }

    fn asked(&self, reservation: Reservation) -> Asked {
        let enforcement = match (self.soft, self.hard) {
            (true, _) => Some(Enforcement::Soft),
            (_, true) => Some(Enforcement::Hard),
            _ => None,
        };
        let backend = match self.backend {
            Wanted::Auto => None,
            Wanted::Kernel => Some(Backend::Kernel),
            Wanted::Timetable => Some(Backend::Timetable),
        };
        Asked { reservation, enforcement, backend, cpu: self.cpu }
    }
}

pub(crate) fn main(args: &Args) -> Outcome {
    match (args.reserve, &args.contract, args.command.split_first()) {
        (Some(reservation), None, Some((program, arguments))) => {
            one::main(args, Some(args.asked(reservation)), program, arguments)
        }
        (None, None, Some((program, arguments))) if args.channel.is_some() => {
            one::main(args, None, program, arguments)
        }
        (None, Some(file), None) => contract::main(args, file),
        (Some(_), Some(word), None) => Err(Failure::bad_input(format!(
            "the program goes behind \"--\": punctual run --reserve 2ms/8ms -- {}",
            word.display()
        ))),
        (Some(_), None, None) => {
            Err(Failure::bad_input("no program to run; write it behind \"--\""))
        }
        (None, None, None) if args.channel.is_some() => {
            Err(Failure::bad_input("no program to run; write it behind \"--\""))
        }
        (None, None, Some((program, _))) => Err(Failure::bad_input(format!(
            "nothing is reserved; say how much: punctual run --reserve 2ms/8ms -- {}",
            program.to_string_lossy()
        ))),
        (None, None, None) => Err(Failure::bad_input(
            "nothing to run; write punctual run CONTRACT, or punctual run --reserve 2ms/8ms -- PROGRAM",
        )),
        (_, Some(file), Some(_)) => Err(Failure::bad_input(format!(
            "{}: a contract names its own programs ([[command]]); write either it or a program behind \
             \"--\"",
            file.display()
        ))),
    }
}

/// To standard error. The programs' own fate counts even where nobody listens.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// As a shell gives it.
fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| KILLED_BY + signal));
    // Linux gives 0 to 255 and signals 1 to 64.
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
