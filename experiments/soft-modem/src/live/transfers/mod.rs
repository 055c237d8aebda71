//! File transfers on this host, ten in each context and reservation: Tables 1 to 3 of the study.
//! The contexts are those of the study's Tables 1 and 2 that are threads, and hard reservations of
//! its Table 3.
//!
//! [`kept`]: the result of each transfer, in a file that grows from run to run.

pub mod kept;

use std::io;
use std::path::PathBuf;

use punctual_linux::host;
use punctual_model::Reservation;
use punctual_model::reservation::Enforcement;

use super::context::Place;
use super::library::modems::Sizing;
use super::threads::Follower;
use super::traced::{TraceArgs, Traced};
use super::{Error, library};
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
    let cases = chosen(&args.only)?;
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
            match library::call(case.place, follower.cpu, beside, &sizing, seed) {
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

/// One context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Its name in tables.
    pub name: String,
    /// The scheduling of the driver's thread.
    pub place: Place,
    /// True if there are no competitors.
    pub alone: bool,
}

/// Returns all contexts. Those that disturb the host most come last.
pub fn all() -> Vec<Case> {
    let case = |name: &str, place, alone| Case { name: name.to_owned(), place, alone };
    let reserved = |text: &str, enforcement: Enforcement| {
        let reservation: Reservation = text.parse().expect("a row of the tables");
        Case {
            name: format!("RES {reservation} {}", enforcement.name()),
            place: Place::Reserved(reservation, enforcement),
            alone: false,
        }
    };
    vec![
        case("THR ordinary, alone", Place::Ordinary, true),
        case("THR real-time", Place::RealTime, false),
        reserved("1ms/4ms", Enforcement::Soft),
        reserved("2ms/8ms", Enforcement::Soft),
        reserved("3ms/16ms", Enforcement::Soft),
        reserved("1ms/8ms", Enforcement::Soft),
        reserved("2ms/8ms", Enforcement::Hard),
        reserved("3ms/17ms", Enforcement::Hard),
        reserved("1ms/8ms", Enforcement::Hard),
        case("THR ordinary", Place::Ordinary, false),
    ]
}

/// Returns the contexts with these names, or all if there are no names.
pub fn chosen(names: &[String]) -> Result<Vec<Case>, Error> {
    let mut cases = all();
    if let Some(unknown) = names.iter().find(|name| cases.iter().all(|case| case.name != **name)) {
        let known: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        return Err(Error::NoSuchContext { name: unknown.clone(), known: known.join(", ") });
    }
    cases.retain(|case| names.is_empty() || names.contains(&case.name));
    Ok(cases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_chosen_by_name_and_a_wrong_one_says_which_there_are() {
        assert_eq!(chosen(&[]).expect("all").len(), all().len());
        let found = chosen(&["RES 2ms/8ms hard".to_owned()]).expect("one of them");
        let reservation = "2ms/8ms".parse().expect("valid");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, Place::Reserved(reservation, Enforcement::Hard));
        let why = chosen(&["RES".to_owned()]).expect_err("no such").to_string();
        assert!(why.contains("\"RES\"") && why.contains("RES 3ms/17ms hard"), "{why}");
    }
}
