//! `punctual run`: runs unmodified programs under CPU reservations, given by options or by a
//! contract.
//!
//! [`punctual::run`] does the work. This module parses the options; [`notices`] prints messages
//! while programs run, and [`text`] the results at the end.

mod notices;
mod text;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use punctual::contract::Declared;
use punctual::run::{
    Compact, Error, NotStarted, Notice, Outcome as Ended, Prepared, Program, Ran, Reserve, Settings,
};
use punctual_client::SOCKET;
use punctual_frontend::exit::{Exit, Failure, Outcome};
use punctual_frontend::output;
use punctual_frontend::trace_file::TraceArgs;
use punctual_model::command::Backend;
use punctual_model::reservation::{BudgetRange, Enforcement, Reservation};
use punctual_model::units::Bytes;

use self::notices::{Manner, say};
use crate::inputs::{ProfileArgs, read_contract};

/// The shells' exit codes for commands that cannot be executed (POSIX, Shell Command Language,
/// 2.8.2).
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

const HELP: &str = "\
Examples:
  punctual run --reserve 2ms/8ms -- aplay song.wav
      a player that runs whenever it wakes, for up to 2 ms in every 8 ms, whatever else runs
  punctual run --reserve 2ms/8ms --backend timetable -- ./stream
      2 ms in every window of 8 ms, at times that a timetable sets
  punctual run --reserve 2ms/8ms --hard -- ./hog
      the same, but no more than that, with all its threads and processes
  punctual run --reserve 2ms/8ms --adapt 1ms..4ms -- ./decoder
      the same with a budget that follows what the program uses, from 1 ms to 4 ms
  punctual run --reserve 2ms/8ms --memory 64MiB -- ./decoder
      the same with 64 MiB of memory that the kernel takes for nothing else (docs/run.md)
  punctual run --channel 2mbit/s,delay=5ms,dest=192.0.2.7:4000 -- ./send
      a program whose datagrams to this address leave within 5 ms of their turn (docs/channels.md)
  punctual run --reserve 2ms/8ms --awake -- aplay song.wav
      for a virtual machine whose idle CPUs wake up late (punctual doctor measures that)
  punctual run commands.toml
      admits the contract, then starts each [[command]] of it under its reservation
  punctual run --dry-run commands.toml
      admits it and shows what would be started, how, and why; also of one program
  punctual run --trace run.ptrace commands.toml
      records every slot that was given, for punctual why, report and export (docs/trace.md)

A server and a timetable control the whole program, with all its threads and processes; the kernel \
(SCHED_DEADLINE) controls only its first thread. Without privilege, punctual asks the broker for a \
server, or else for SCHED_DEADLINE (punctual serve, docs/broker.md). Standard input, output and error are the \
program's own. SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP and SIGCONT \
are passed on. The program is killed if punctual is. The reservation ends with the program's first \
process; processes that it leaves behind continue as ordinary ones.

Exit codes: the program's own, 128 + the signal if one killed it, 126 if it cannot be executed, \
127 if it is not found. For several programs: 0 if all ended with 0, else the first other code in \
the order of the contract. Before anything starts: 1 refused, 2 bad usage or bad contract, 3 this \
host cannot.";

/// Runs programs under CPU reservations, and reports at the end what they used.
#[derive(clap::Args)]
#[command(after_help = HELP, override_usage = "\
punctual run --reserve <BUDGET/PERIOD> [OPTIONS] -- <COMMAND>...
       punctual run --channel <RATE,delay=TIME> [OPTIONS] -- <COMMAND>...
       punctual run [OPTIONS] <CONTRACT>")]
pub(crate) struct Args {
    /// The contract whose programs are started, a TOML file; "-" reads standard input.
    contract: Option<PathBuf>,
    /// The processor time and the period in which the program gets it, such as 2ms/8ms.
    #[arg(long, value_name = "BUDGET/PERIOD")]
    reserve: Option<Reservation>,
    /// Have the budget follow what the program uses, within this range.
    #[arg(long, value_name = "LEAST..MOST", requires = "reserve")]
    adapt: Option<BudgetRange>,
    /// Have the program keep so much memory, with all processes that it starts: the kernel takes none of
    /// it for others. At most half of the host's memory is promised.
    #[arg(long, value_name = "SIZE", requires = "reserve")]
    memory: Option<Bytes>,
    /// Let the program run as an ordinary one when its budget is used up [default with a server or a
    /// timetable].
    #[arg(long, conflicts_with = "hard", requires = "reserve")]
    soft: bool,
    /// Stop the program when its budget is used up, until the next period.
    #[arg(long, requires = "reserve")]
    hard: bool,
    /// The mechanism that enforces the reservation: a timetable or a server, for the whole program,
    /// or the kernel's SCHED_DEADLINE, for its first thread.
    #[arg(long, value_enum, default_value_t, requires = "reserve")]
    backend: Wanted,
    /// The CPU on which the program runs.
    #[arg(long, value_name = "N", requires = "reserve")]
    cpu: Option<usize>,
    /// Give the program's datagrams a channel to dest, or else to the address it first sends to.
    /// Also max=BYTES, min=BYTES, burst=N or credits=high|medium|low, too_early=wait|lose,
    /// dest=HOST:PORT.
    #[arg(long, value_name = "RATE,delay=TIME", conflicts_with_all = ["contract", "no_broker"])]
    channel: Option<Compact>,
    /// Keep CPUs from halting while the programs run, with a thread under SCHED_IDLE that spins on
    /// each CPU of a reservation, or on all CPUs where those are not known. This uses all idle time
    /// of these CPUs.
    #[arg(long)]
    awake: bool,
    /// The socket of the broker, which grants channels, and reservations where we have no
    /// privilege.
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    broker: PathBuf,
    /// Do not use a broker: reserve with our own privilege or fail.
    #[arg(long, conflicts_with = "broker")]
    no_broker: bool,
    /// Start only these commands of the contract.
    #[arg(long, value_name = "NAME", num_args = 1.., value_delimiter = ',', requires = "contract")]
    only: Vec<String>,
    /// Admit it and show what would be started, how and why, without starting it.
    #[arg(long)]
    dry_run: bool,
    /// Print the use as one line of JSON on standard error; with --dry-run, print the plan on
    /// standard output.
    #[arg(long)]
    json: bool,
    /// Print neither the reason for the choice of back end nor what was used.
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

/// The requested mechanism for a reservation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Wanted {
    /// A server; a timetable where no server can run; SCHED_DEADLINE where neither can and no
    /// option requires one.
    #[default]
    Auto,
    /// SCHED_DEADLINE.
    Kernel,
    /// A timetable.
    Timetable,
    /// A deferrable server: it runs whenever it wakes, within its budget.
    Server,
}

impl Args {
    fn settings(&self) -> Settings {
        Settings {
            broker: (!self.no_broker).then(|| self.broker.clone()),
            awake: self.awake,
            event_room: self.trace.event_room(),
            passes_signals_on: true,
        }
    }

    fn manner(&self) -> Manner {
        match (self.json, self.quiet) {
            (true, _) => Manner::Json,
            (_, true) => Manner::Quiet,
            _ => Manner::Text,
        }
    }

    fn reserve(&self, reservation: Reservation) -> Reserve {
        let enforcement = match (self.soft, self.hard) {
            (true, _) => Some(Enforcement::Soft),
            (_, true) => Some(Enforcement::Hard),
            _ => None,
        };
        let backend = match self.backend {
            Wanted::Auto => None,
            Wanted::Kernel => Some(Backend::Kernel),
            Wanted::Timetable => Some(Backend::Timetable),
            Wanted::Server => Some(Backend::Server),
        };
        let (cpu, adapt, memory) = (self.cpu, self.adapt, self.memory);
        Reserve { reservation, enforcement, backend, cpu, adapt, memory }
    }
}

pub(crate) fn main(args: &Args) -> Outcome {
    match (args.reserve, &args.contract, args.command.split_first()) {
        (Some(reservation), None, Some((program, arguments))) => {
            let reserve = Some(args.reserve(reservation));
            one(args, Program { reserve, ..Program::new(program, arguments) })
        }
        (None, None, Some((program, arguments))) if args.channel.is_some() => {
            one(args, Program::new(program, arguments))
        }
        (None, Some(file), None) => contract(args, file),
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

fn one(args: &Args, program: Program) -> Outcome {
    let program = Program { channel: args.channel.clone(), ..program };
    let name = program.program.to_string_lossy().into_owned();
    let tell = &mut |notice: &Notice<'_>| notices::print(notice, args.manner());
    let prepared = match Prepared::program(program, args.settings(), tell) {
        Ok(prepared) => prepared,
        Err(error) => return not_run(error),
    };
    if args.dry_run {
        return only_planned(args, &prepared);
    }
    let ended = match prepared.run(args.trace.of_live_run("")?, tell) {
        Ok(ended) => ended,
        Err(error) => return not_run(error),
    };
    let Some(alone) = ended.alone() else { return Ok(Exit::Kept) };
    match args.manner() {
        Manner::Json => {
            say(&output::json_line(&alone)?);
        }
        Manner::Text => say(&format!("punctual: {}", text::sentence(&name, &alone.ran.used))),
        Manner::Quiet => say_broken(alone.ran),
    }
    Ok(Exit::OfProgram(ended.code()))
}

fn contract(args: &Args, file: &Path) -> Outcome {
    let declared = read_contract(file)?;
    let contract = &declared.contract;
    let host = args.profile.choose()?.host;
    let tell = &mut |notice: &Notice<'_>| notices::print(notice, args.manner());
    let prepared = match Prepared::contract(contract, &host, &args.only, args.settings(), tell) {
        Ok(prepared) => prepared,
        Err(error) => return not_prepared(args, file, &declared, error),
    };
    if args.dry_run {
        return only_planned(args, &prepared);
    }
    let ended = match prepared.run(args.trace.of_live_run(&declared.text)?, tell) {
        Ok(ended) => ended,
        Err(error) => return not_run(error),
    };
    report(args, &ended)?;
    Ok(Exit::OfProgram(ended.code()))
}

fn only_planned(args: &Args, prepared: &Prepared) -> Outcome {
    let plan = match prepared.plan() {
        Ok(plan) => plan,
        Err(error) => return not_run(error),
    };
    if args.json {
        output::json(&plan)?;
    } else {
        output::print(&(text::plan(&plan) + "\n"))?;
    }
    Ok(Exit::Kept)
}

fn report(args: &Args, ended: &Ended) -> Result<(), Failure> {
    match args.manner() {
        Manner::Json => {
            say(&output::json_line(ended)?);
            return Ok(());
        }
        Manner::Text => say(&text::table(ended)),
        Manner::Quiet => {}
    }
    ended.commands.iter().for_each(say_broken);
    Ok(())
}

/// Reports a broken promise, if there is one.
fn say_broken(ran: &Ran) {
    if let Some(broken) = ran.used.reserved.as_ref().and_then(text::broken) {
        let name = ran.name.as_ref().map_or(String::new(), |name| format!("{name}: "));
        say(&format!("punctual: {name}{broken}"));
    }
}

/// Reports why the programs of a contract could not be prepared.
fn not_prepared(args: &Args, file: &Path, declared: &Declared, error: Error) -> Outcome {
    let name = file.display();
    match error {
        Error::NoCommand if declared.is_rt_app() => Err(Failure::bad_input(format!(
            "{name}: a workload of rt-app, which names threads and no program to start; run it with rt-app, or \
             only admit it: punctual admit {name} (docs/rt-app.md)"
        ))),
        Error::NoCommand => Err(Failure::bad_input(format!(
            "{name}: names no program to start; add a [[command]] (docs/contract.md), or only admit \
             it: punctual admit {name}"
        ))),
        Error::UnknownCommand { .. } => Err(Failure::bad_input(format!("{name}: {error}"))),
        Error::NotAdmitted(refused) => {
            say(&if args.json {
                output::json_line(&refused)?
            } else {
                format!("{refused}\nthe numbers: punctual admit {name}")
            });
            Ok(Exit::Refused)
        }
        other => not_run(other),
    }
}

/// Reports why programs were not run. A program that cannot be executed gives the shells' exit
/// codes.
fn not_run(error: Error) -> Outcome {
    let Error::NotStarted { why: NotStarted::Program { error: why, .. }, .. } = &error else {
        return Err(error.into());
    };
    say(&format!("punctual: {error}"));
    let is_not_found = matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
    Ok(Exit::OfProgram(if is_not_found { NOT_FOUND } else { NOT_EXECUTABLE }))
}
