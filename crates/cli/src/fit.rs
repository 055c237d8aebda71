//! `punctual fit`: watches a program, finds what each thread needs, proposes a reservation, and tries it.
//!
//! Reading order: [`finding`] (what was found of a thread), [`trial`] (the same program under what was
//! proposed), then the three ways to tell it.

mod finding;
mod json;
mod snippet;
mod text;
mod trial;
mod watching;

use std::ffi::OsString;

use punctual_linux::process::Blocked;
use punctual_model::Duration;
use punctual_observe::Fitting;
use punctual_trace::fit::Margin;

use crate::exit::{Exit, Failure, Outcome};
use crate::host_profile::ProfileArgs;
use crate::options::time;
use crate::output;
use crate::why::watched::{self, Program};
use finding::Finding;
use trial::Trial;

const HELP: &str = "\
Examples:
  punctual fit -- ./player song.wav
      watches for ten seconds, proposes, and tries it for ten seconds more
  punctual fit --for 30s --no-try --pid 4711
      a process that runs; nothing is changed in it
  punctual fit --deadline 5ms --margin 50 -- ./controller
      jobs are to be complete 5 ms after their release; half as much again as was seen
  punctual fit --toml -- ./player song.wav > player.toml
      the contract for punctual admit, run and verify

The period is that of the timers which wake a thread, else of its wake-ups. The budget is what 99 % of \
the periods needed, two switches, and a margin. In the trial the threads that are periodic run under \
SCHED_DEADLINE; the program is ended when it is over.

It takes CAP_BPF and CAP_PERFMON, for the trial CAP_SYS_NICE: run it as root.

Exit codes: 0 found, and kept in the trial where there was one, 1 not periodic or not kept, 2 bad usage, \
3 this host cannot.";

/// Finds which reservation a program needs: what budget, what period
#[derive(clap::Args)]
#[command(after_help = HELP, override_usage = "\
punctual fit [OPTIONS] -- <COMMAND>...
       punctual fit [OPTIONS] --pid <PID>")]
pub(crate) struct Args {
    /// A process that runs, with what it starts; it is only watched
    #[arg(long, conflicts_with = "command")]
    pid: Option<u32>,
    /// Watch for so long, and try for so long
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = time)]
    length: Duration,
    /// So long after its start a program is not watched: what it does then it does once
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
    settle: Duration,
    /// Jobs are to be complete so long after their release [default: the period]
    #[arg(long, value_name = "TIME", value_parser = time)]
    deadline: Option<Duration>,
    /// The budget covers so many percent of the periods that were seen
    #[arg(long, value_name = "PERCENT", default_value_t = 99.0, value_parser = percent)]
    quantile: f64,
    /// And so much more, in percent, at least 20 us
    #[arg(long, value_name = "PERCENT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(..=900))]
    margin: u32,
    /// Only propose
    #[arg(long)]
    no_try: bool,
    /// The answer as JSON
    #[arg(long, conflicts_with = "toml")]
    json: bool,
    /// The answer as a contract; what was found goes to standard error
    #[arg(long)]
    toml: bool,
    #[command(flatten)]
    profile: ProfileArgs,
    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim_end().parse() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("it must be a number from 0 to 100".into()),
    }
}

/// All that is told.
struct Answer<'a> {
    args: &'a Args,
    findings: Vec<Finding>,
    /// How long was watched.
    watched: Duration,
    /// Why the kernel would not take all that is proposed together.
    objection: Option<String>,
    trial: Trial,
    records_lost: u64,
    missing: Vec<&'static str>,
}

pub(crate) fn main(args: &Args) -> Outcome {
    let host = args.profile.choose()?.host;
    let margin = Margin {
        quantile: args.quantile,
        percent: args.margin,
        switch: host.context_switch,
        relative_deadline: args.deadline,
    };
    // Before threads are made, so that a signal waits for us.
    let signals = Blocked::new().map_err(Failure::cannot_here)?;
    let mut fitting = Fitting::start().map_err(Failure::cannot_here)?;
    if let Ok(this) = std::env::current_exe() {
        fitting.enforced_by(this, crate::why::ENFORCERS);
    }
    let mut program = match (args.pid, args.command.split_first()) {
        (Some(pid), _) if !watched::is_there(pid) => {
            return Err(Failure::bad_input(format!("there is no process {pid}")));
        }
        (Some(pid), _) => {
            fitting.follow(pid);
            None
        }
        (None, Some((program, arguments))) => {
            let program = Program::start(program, arguments, &signals)?;
            fitting.follow(program.id());
            Some(program)
        }
        (None, None) => {
            return Err(Failure::bad_input(
                "nothing to watch; write a program behind \"--\", or --pid PID",
            ));
        }
    };
    if let Some(program) = &mut program {
        let settle = args.settle;
        watching::watch(&mut fitting, Some(program), &signals, settle, |_, _| Ok(()))?;
        fitting.begin_anew();
    }
    let (watched, asked) =
        watching::watch(&mut fitting, program.as_mut(), &signals, args.length, |_, _| Ok(()))?;
    let mut findings = finding::all(&fitting, watched, margin);
    let objection = finding::objection(&findings, &host);
    let any = findings.iter().any(|one| one.proposal.is_some());
    let tries = any && !args.no_try && !asked && objection.is_none();
    let trial = match (program.take_if(|_| tries), &objection) {
        (Some(running), _) => trial::run(&mut fitting, running, &mut findings, args, &signals)?,
        _ if args.pid.is_some() => Trial::None(
            "a process that is only watched is not changed: a thread leaves SCHED_DEADLINE only by \
             itself",
        ),
        _ if !any => Trial::None("nothing is proposed"),
        _ if args.no_try => Trial::None("--no-try"),
        (None, Some(objection)) => Trial::Refused(objection.clone()),
        _ => Trial::None("asked to end"),
    };
    if let Some(program) = program {
        program.end()?;
    }
    let (counts, missing) = (fitting.counts(), fitting.missing().to_vec());
    let answer =
        Answer { args, findings, watched, objection, trial, records_lost: counts.lost, missing };
    if args.json {
        output::print(&json::of(&answer))?;
    } else if args.toml {
        anstream::eprint!("{}", text::of(&answer));
        output::print(&snippet::of(&answer))?;
    } else {
        output::print(&text::of(&answer))?;
    }
    match &answer.trial {
        Trial::Refused(why) => {
            Err(Failure::cannot_here(format!("what is proposed cannot be tried: {why}")))
        }
        Trial::Tried(_) if answer.findings.iter().all(Finding::is_kept) => Ok(Exit::Kept),
        Trial::Tried(_) => Ok(Exit::Refused),
        Trial::None(_) if any => Ok(Exit::Kept),
        Trial::None(_) => Ok(Exit::Refused),
    }
}
