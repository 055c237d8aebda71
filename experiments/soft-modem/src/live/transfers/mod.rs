//! File transfers on this host, ten in each context and reservation: Tables 1 to 3 of the study.
//!
//! [`cases`]: the contexts; [`kept`]: the result of each transfer, in a file that grows from run to
//! run, so that a study of many minutes can be made in parts.

pub mod cases;
pub mod kept;

use std::io;
use std::path::PathBuf;

use punctual_linux::host;

use super::Error;
use super::follower::Follower;
use super::library::serve;
use super::library::sizing::Sizing;
use super::traced::{TraceArgs, Traced};
use cases::Case;
use kept::Row;

/// The arguments of the transfers.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Calls in each context, each with a file on every modem of the library; 0 only shows earlier
    /// results
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub times: u32,
    /// Run only in this context, for example "RES 2ms/8ms soft"; may be repeated
    #[arg(long, value_name = "CONTEXT")]
    pub only: Vec<String>,
    /// Spinning ordinary threads on each CPU
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(0..=256))]
    pub competitors: u16,
    /// The CPU for the driver and the callback [default: the last on which an interrupt works]
    #[arg(long)]
    pub cpu: Option<usize>,
    /// Seed of the first call; each further call has the next one
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(..1_000_000))]
    pub seed: u64,
    /// Append the results to transfers.csv in this folder, and show all results there
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The trace of the services
    #[command(flatten)]
    pub trace: TraceArgs,
}

/// Runs the transfers, prints the results, and keeps them.
pub fn main(args: &Args) -> Result<(), Error> {
    let cases = cases::chosen(&args.only)?;
    let mut traced = args.trace.begin()?;
    let mut rows = Vec::new();
    if args.times > 0 {
        let (state, found) = run(args, &cases, &mut traced)?;
        rows = found;
        if let Some(folder) = &args.results {
            kept::add(folder, &state, &rows)?;
        }
        eprint!("{state}");
    }
    traced.end()?;
    if let Some(folder) = &args.results {
        rows = kept::read(folder)?;
    }
    let sheet = kept::sheet(&rows);
    let page = if args.json {
        format!("{:#}\n", sheet.to_json())
    } else {
        format!("{}\n", sheet.to_table())
    };
    super::print(&page)
}

/// Makes the calls, one after the other. Returns a description of the machine's state and the rows.
fn run(args: &Args, cases: &[Case], traced: &mut Traced) -> Result<(String, Vec<Row>), Error> {
    let follower = Follower::enter(args.cpu)?;
    let competitors = usize::from(args.competitors);
    let sizing = Sizing::measure(follower.cpu, competitors, args.seed)?;
    let (mut rows, mut refused) = (Vec::new(), String::new());
    for case in cases {
        let beside = if case.alone { 0 } else { competitors };
        for seed in args.seed..args.seed + u64::from(args.times) {
            eprintln!("{}, call {seed} …", case.name);
            let stolen_before = host::stolen();
            match serve::call(case.place, follower.cpu, beside, &sizing, seed) {
                Ok((_, served)) => {
                    let name = format!("{}, call {seed}", case.name);
                    traced.library(name, case.place, follower.cpu, &served)?;
                    let stolen =
                        host::stolen().zip(stolen_before).map(|(after, before)| after - before);
                    rows.extend(kept::rows(&case.name, seed, &served, stolen));
                }
                Err(why) => {
                    refused += &format!("{}: not run: {why}\n", case.name);
                    break;
                }
            }
        }
    }
    let mut state = format!(
        "{}\nDriver on CPU {}; {competitors} competitors a CPU; seeds from {}. At each interrupt the \
         driver serves a line of each modem:\n",
        follower.machine(),
        follower.cpu,
        args.seed,
    );
    for size in sizing.report() {
        state += &format!("{}\n", size.words());
    }
    Ok((state + &refused, rows))
}

/// Makes the error for a path that cannot be written.
fn at(path: PathBuf) -> impl FnOnce(io::Error) -> Error {
    move |why| Error::Results { path, why }
}
