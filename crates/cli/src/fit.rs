//! `punctual fit`: watches a program, finds what each thread needs, proposes a reservation, and
//! tries it.
//!

mod text;

use std::ffi::OsString;

use punctual::fit::{self, Margin, Options, Trial};
use punctual_frontend::exit::{Exit, Failure, Outcome};
use punctual_frontend::options::time;
use punctual_frontend::output;
use punctual_model::Duration;

use crate::inputs::ProfileArgs;
use crate::why::target;

const HELP: &str = "\
Examples:
  punctual fit -- ./player song.wav
      watches for ten seconds, proposes a reservation, and tries it for ten seconds more
  punctual fit --for 30s --no-try --pid 4711
      watches a running process without changing it
  punctual fit --deadline 5ms --margin 50 -- ./controller
      with a deadline of 5 ms after the release, and half as much budget again as was needed
  punctual fit --toml -- ./player song.wav > player.toml
      the contract for punctual admit, run and verify

The period is that of the timers that wake a thread, else of its wake-ups. The budget is what 99 % \
of the periods needed, plus two switches and a margin. In the trial the periodic threads run under \
SCHED_DEADLINE; the program is ended after the trial.

It needs CAP_BPF and CAP_PERFMON, for the trial also CAP_SYS_NICE: run it as root.

Exit codes: 0 found, and kept in the trial if there was one, 1 not periodic or not kept, 2 bad \
usage, 3 this host cannot.";

/// Finds the reservation that a program needs: its budget and its period
#[derive(clap::Args)]
#[command(after_help = HELP, override_usage = "\
punctual fit [OPTIONS] -- <COMMAND>...
       punctual fit [OPTIONS] --pid <PID>")]
pub(crate) struct Args {
    /// Only watch this running process, with the processes it starts
    #[arg(long, conflicts_with = "command")]
    pid: Option<u32>,
    /// How long to watch, and how long to try the reservation
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = time)]
    length: Duration,
    /// Do not watch the program for this long after its start, while it initialises
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
    settle: Duration,
    /// Jobs must be complete this long after their release [default: the period]
    #[arg(long, value_name = "TIME", value_parser = time)]
    deadline: Option<Duration>,
    /// The budget covers this percentage of the observed periods
    #[arg(long, value_name = "PERCENT", default_value_t = 99.0, value_parser = percent)]
    quantile: f64,
    /// Add this percentage to the budget, and at least 20 us
    #[arg(long, value_name = "PERCENT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(..=900))]
    margin: u32,
    /// Propose a reservation without trying it
    #[arg(long)]
    no_try: bool,
    /// Print the answer as JSON
    #[arg(long, conflicts_with = "toml")]
    json: bool,
    /// Print the answer as a contract; the findings go to standard error
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

pub(crate) fn main(args: &Args) -> Outcome {
    let host = args.profile.choose()?.host;
    let margin = Margin {
        quantile: args.quantile,
        percent: args.margin,
        switch: host.context_switch,
        relative_deadline: args.deadline,
    };
    let run_by = std::env::current_exe()
        .map_err(|error| Failure::cannot_here(format!("cannot find this program: {error}")))?;
    let options = Options {
        length: args.length,
        settle: args.settle,
        margin,
        tries: !args.no_try,
        run_by: Some(run_by),
    };
    let target = target(args.pid, &args.command)?;
    let fit = fit::fit(&target, &options, &host)?;
    if args.json {
        output::json(&fit)?;
    } else if args.toml {
        anstream::eprint!("{}", text::of(&fit, args.quantile));
        output::print(&fit.contract(&target))?;
    } else {
        output::print(&text::of(&fit, args.quantile))?;
    }
    match &fit.trial {
        Trial::Refused(why) => {
            Err(Failure::cannot_here(format!("what is proposed cannot be tried: {why}")))
        }
        Trial::Tried(_) if fit.is_kept() => Ok(Exit::Kept),
        Trial::Tried(_) => Ok(Exit::Refused),
        Trial::None(_) | Trial::NotAsked if fit.proposes() => Ok(Exit::Kept),
        Trial::None(_) | Trial::NotAsked => Ok(Exit::Refused),
    }
}
