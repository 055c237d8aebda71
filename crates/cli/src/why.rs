//! `punctual why`: watches a program, and explains why each late job was late.

mod text;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use punctual::program::Target;
use punctual::trace::Recorded;
use punctual::why::{
    self, EndRecord, Judging, LateRecord, Options, ReleaseRecord, late_at_end, releases_at_end,
};
use punctual_frontend::exit::{Exit, Failure, Outcome};
use punctual_frontend::options::time;
use punctual_frontend::output;
use punctual_frontend::trace_file::TraceArgs;
use punctual_linux::clock;
use punctual_model::Duration;
use punctual_trace::check::Verdict;
use serde::Serialize;

const HELP: &str = "\
Examples:
  punctual why --deadline 5ms -- ./player song.wav
      each job of each thread must be complete 5 ms after its release
  punctual why --deadline 5ms --work 2ms --for 10s --pid 4711
      a running process, for ten seconds; a job that executes for more than 2 ms is itself at fault
  punctual why --deadline 5ms --period 20ms --thread mixer -- ./player
      only this thread, which is to have a job every 20 ms
  punctual why --deadline 10ms -- punctual run --reserve 2ms/10ms -- ./player
      the same for a program under a reservation
  punctual why --deadline 5ms --json --for 60s -- ./player > late.jsonl
      a line of JSON for each late job
  punctual why --deadline 5ms --trace late.ptrace -- ./player
      also writes a trace file, with the causes (docs/trace.md)
  punctual why late.ptrace
      judges a trace file: each promise kept, broken or not judgeable, and why jobs were late

Which wake-ups of a thread release its jobs is inferred from their regularity, and told before \
anything is judged. A job is released when the timer that woke the thread was due, or, if no timer \
did, when it was woken; it ends when the thread waits there again. A release that never came, \
because the thread went on, is a late job. A thread without a period is not judged, unless \
--thread names it. The kernel's scheduler, interrupts, softirqs, timers, page faults, system calls, \
quotas, freezers and stopping signals (BPF) show what happened in between. The shares of the causes \
add up to the tardiness: delays that the deadline left room for are not counted. Where the kernel's \
records have holes a job is not judged; more than one in 100 of these, and the promise is not \
judgeable.

It needs CAP_BPF and CAP_PERFMON: run it as root.

Exit codes: 0 no job was late, 1 one was, 2 bad usage, 3 this host cannot, 4 not judgeable, \
because something is missing or no thread had a job.";

/// Watches a program, or reads a trace, and explains why jobs were late
#[derive(clap::Args)]
#[command(after_help = HELP, override_usage = "\
punctual why --deadline <TIME> [OPTIONS] -- <COMMAND>...
       punctual why [--worst <N>] [--json] <TRACE>
       punctual why --deadline <TIME> [OPTIONS] --pid <PID>")]
pub(crate) struct Args {
    /// Judge this trace file instead of watching a program
    #[arg(value_name = "TRACE", conflicts_with_all = ["deadline", "work", "period", "thread", "length", "pid", "command", "path"])]
    file: Option<PathBuf>,
    /// Jobs must be complete this long after their release
    #[arg(long, value_name = "TIME", value_parser = time, required_unless_present = "file")]
    deadline: Option<Duration>,
    /// Jobs execute for at most this long; excess is their own fault [default: the deadline]
    #[arg(long, value_name = "TIME", value_parser = time)]
    work: Option<Duration>,
    /// The period of the jobs [default: inferred for each thread]
    #[arg(long, value_name = "TIME", value_parser = time)]
    period: Option<Duration>,
    /// Judge only threads of this name or number, even without a period
    #[arg(long, value_name = "NAME|TID")]
    thread: Vec<String>,
    /// Watch for at most this long [default: until the program ends]
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    length: Option<Duration>,
    /// Watch this running process, with the processes it starts
    #[arg(long, conflicts_with = "command")]
    pid: Option<u32>,
    /// The number of late jobs to describe one by one, the latest first
    #[arg(long, value_name = "N", default_value_t = 5)]
    worst: usize,
    /// Print a line of JSON for each late job as it is found, and a summary at the end
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    trace: TraceArgs,
    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn main(args: &Args) -> Outcome {
    let relative_deadline = match (&args.file, args.deadline) {
        (Some(path), _) => return of_a_trace(args, path),
        (None, Some(deadline)) => deadline,
        (None, None) => {
            return Err(Failure::bad_input("no deadline; write --deadline TIME, or a trace file"));
        }
    };
    let target = target(args.pid, &args.command)?;
    let mut recorded = Recorded::new(args.trace.of_live_run("")?);
    let judging = Judging { period: args.period, threads: args.thread.clone(), event_loops: false };
    let options = Options {
        judging,
        relative_deadline,
        work: args.work.map(Duration::as_full_service),
        length: args.length,
        keeps_seen: recorded.is_on(),
    };
    let mut report = text::Report::new(args.worst, clock::now());
    let mut ended = why::watch(&target, options, |session, seen, late| {
        if args.json {
            let releases = session.releases().iter();
            let releases = releases
                .map(|(number, release)| ReleaseRecord::of(session.subject(*number), release));
            let late = late.iter().map(|one| LateRecord::in_session(session, one));
            output::print(&(lines(releases)? + &lines(late)?))?;
        }
        recorded.more(seen, late)?;
        report.more(late);
        Ok(())
    })?;
    recorded.more(std::mem::take(&mut ended.seen), &ended.verdicts)?;
    recorded.end()?;
    if args.json {
        let (releases, late) = (lines(releases_at_end(&ended))?, lines(late_at_end(&ended))?);
        output::print(&(releases + &late + &lines([EndRecord::of(&ended)])?))?;
    } else {
        report.more(&ended.verdicts);
        output::print(&report.text(&ended))?;
    }
    Ok(exit(why::verdict(&ended)))
}

/// Returns the target that the arguments select.
pub(crate) fn target(pid: Option<u32>, command: &[OsString]) -> Result<Target, Failure> {
    match (pid, command) {
        (Some(pid), _) => Ok(Target::Process(pid)),
        (None, []) => {
            Err(Failure::bad_input("nothing to watch; write a program behind \"--\", or --pid PID"))
        }
        (None, words) => Ok(Target::Program(words.to_vec())),
    }
}

fn of_a_trace(args: &Args, path: &Path) -> Outcome {
    let of = why::of_trace(path)?;
    output::print(&if args.json {
        lines(of.late_records())? + &lines([of.end_record()])?
    } else {
        text::of_trace(args.worst, &of)
    })?;
    Ok(exit(of.verdict()))
}

/// Returns a line of JSON for each record.
fn lines(records: impl IntoIterator<Item = impl Serialize>) -> Result<String, Failure> {
    records.into_iter().map(|record| Ok(output::json_line(&record)? + "\n")).collect()
}

/// Returns the exit code of a verdict.
fn exit(verdict: Verdict) -> Exit {
    match verdict {
        Verdict::Kept => Exit::Kept,
        Verdict::Broken => Exit::Refused,
        Verdict::NotJudgeable(_) => Exit::NotJudgeable,
    }
}
