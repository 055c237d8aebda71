//! `punctual why`: watches a program, and says of each late job what made it late.

mod json;
pub(crate) mod of_trace;
pub(crate) mod recorded;
pub(crate) mod text;
pub(crate) mod watched;

use std::ffi::OsString;
use std::path::PathBuf;

use punctual_linux::clock;
use punctual_linux::process::{Blocked, Caught};
use punctual_model::Duration;
use punctual_observe::Session;
use punctual_trace::check::{Verdict, Why};

use crate::exit::{Exit, Failure, Outcome};
use crate::options::time;
use crate::output;
use crate::trace_file::TraceArgs;
use recorded::Recorded;
use watched::Program;

const HELP: &str = "\
Examples:
  punctual why --deadline 5ms -- ./player song.wav
      each job of each of its threads is to be complete 5 ms after its release
  punctual why --deadline 5ms --work 2ms --for 10s --pid 4711
      a process that runs, for ten seconds; a job that works longer than 2 ms is late by its own fault
  punctual why --deadline 10ms -- punctual run --reserve 2ms/10ms -- ./player
      the same of a program under a reservation
  punctual why --deadline 5ms --json --for 60s -- ./player > late.jsonl
      a line of JSON for each late job
  punctual why --deadline 5ms --trace late.ptrace -- ./player
      the same into a trace file too, with the causes (docs/trace.md)
  punctual why late.ptrace
      what a trace file says: each promise kept, broken or not judgeable, and why jobs were late

A job is from one wake-up of a thread to its next wait for one: released when the timer that woke it \
was due, or, where no timer wakes the thread, when somebody or something did. What happened between is \
taken from the kernel's scheduler, interrupts, softirqs, timers and page faults (BPF). The shares of the \
causes add up to the tardiness: what the deadline left room for made nothing late.

It takes CAP_BPF and CAP_PERFMON: run it as root.

Exit codes: 0 no job was late, 1 one was, 2 bad usage, 3 this host cannot, 4 whether one was cannot be \
judged: something is missing.";

/// Watches a program, or reads a trace, and says why jobs were late
#[derive(clap::Args)]
#[command(after_help = HELP, override_usage = "\
punctual why --deadline <TIME> [OPTIONS] -- <COMMAND>...
       punctual why [--worst <N>] [--json] <TRACE>
       punctual why --deadline <TIME> [OPTIONS] --pid <PID>")]
pub(crate) struct Args {
    /// A trace file, instead of a program: what it says is judged
    #[arg(value_name = "TRACE", conflicts_with_all = ["deadline", "work", "length", "pid", "command", "path"])]
    file: Option<PathBuf>,
    /// A job is to be complete so long after its release
    #[arg(long, value_name = "TIME", value_parser = time, required_unless_present = "file")]
    deadline: Option<Duration>,
    /// A job works no longer than this; more is its own fault [default: its deadline]
    #[arg(long, value_name = "TIME", value_parser = time)]
    work: Option<Duration>,
    /// So long at most [default: until the program ends]
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    length: Option<Duration>,
    /// A process that runs, with what it starts
    #[arg(long, conflicts_with = "command")]
    pid: Option<u32>,
    /// So many late jobs are told one by one, the latest first
    #[arg(long, value_name = "N", default_value_t = 5)]
    worst: usize,
    /// A line of JSON for each late job as it is found, and one for all at the end
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    trace: TraceArgs,
    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The commands of ours that enforce budgets; all others are work, as any program.
pub(crate) const ENFORCERS: &[&str] = &["run", "serve"];

/// So often the kernel's records are taken.
const TURN: Duration = Duration::from_millis(50);

pub(crate) fn main(args: &Args) -> Outcome {
    let deadline = match (&args.file, args.deadline) {
        (Some(path), _) => return of_trace::main(args, path),
        (None, Some(deadline)) => deadline,
        (None, None) => {
            return Err(Failure::bad_input("no deadline; write --deadline TIME, or a trace file"));
        }
    };
    let mut recorded = Recorded::new(args.trace.of_live_run("")?);
    let signals = Blocked::new().map_err(Failure::cannot_here)?;
    let work = args.work.map(Duration::as_full_service);
    let mut session = Session::start(deadline, work).map_err(Failure::cannot_here)?;
    if recorded.is_on() {
        session.keep_seen();
    }
    if let Ok(this) = std::env::current_exe() {
        session.enforced_by(this, ENFORCERS);
    }
    // Before the program's first job.
    let begun = clock::now();
    let mut program = match (args.pid, args.command.split_first()) {
        (Some(pid), _) if !watched::is_there(pid) => {
            return Err(Failure::bad_input(format!("there is no process {pid}")));
        }
        (Some(pid), _) => {
            session.follow(pid);
            None
        }
        (None, Some((program, arguments))) => {
            let program = Program::start(program, arguments, &signals)?;
            session.follow(program.id());
            Some(program)
        }
        (None, None) => {
            return Err(Failure::bad_input(
                "nothing to watch; write a program behind \"--\", or --pid PID",
            ));
        }
    };
    let mut report = text::Report::new(args.worst, begun);
    let until = args.length.map(|length| clock::now() + length);
    loop {
        let caught = signals.wait_until(clock::now() + TURN).map_err(Failure::cannot_here)?;
        let late = session.turn();
        if args.json {
            output::print(&json::late(&session, &late))?;
        }
        recorded.more(session.take_seen(), &late)?;
        report.more(&late);
        let is_asked = matches!(caught, Some(Caught::Sent { .. } | Caught::Stop { .. }));
        let is_over = until.is_some_and(|until| clock::now() >= until);
        let has_ended = program.as_mut().map_or(Ok(false), Program::has_ended)?;
        if is_asked || is_over || has_ended || !session.is_alive() {
            break;
        }
    }
    let mut ended = session.end();
    recorded.more(std::mem::take(&mut ended.seen), &ended.verdicts)?;
    recorded.end()?;
    if let Some(program) = program {
        program.end()?;
    }
    if args.json {
        output::print(&json::end(&ended))?;
    } else {
        report.more(&ended.verdicts);
        output::print(&report.text(&ended))?;
    }
    Ok(exit(ended.subjects.iter().map(|(_, judged)| judged.verdict)))
}

/// Returns 1 for a broken promise, else 4 for one that cannot be judged. Who was promised nothing, or
/// released no job, breaks no promise.
fn exit(verdicts: impl Iterator<Item = Verdict>) -> Exit {
    verdicts.fold(Exit::Kept, |so_far, verdict| match (so_far, verdict) {
        (_, Verdict::Broken) => Exit::Refused,
        (so_far, Verdict::Kept | Verdict::NotJudgeable(Why::NoPromise | Why::NoJob)) => so_far,
        (Exit::Kept, Verdict::NotJudgeable(_)) => Exit::NotJudgeable,
        (so_far, Verdict::NotJudgeable(_)) => so_far,
    })
}
