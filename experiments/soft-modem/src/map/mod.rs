//! Finds the reservations that serve the modem: Table 3 and Figure 17 of the study, over the whole
//! plane.
//!
//! - [`study`]: the study's measurements.
//! - [`judge`]: decides whether one reservation is enough for one device: ten simulated calls, and
//!   the analysis.
//! - [`plane`]: all reservations.
//! - [`tables`]: the results.
//! - [`own`]: the same question for our own modems.
//! - [`further`]: the study's future work.
//! - [`transfers`]: files over whole calls in each context.

pub mod further;
pub mod judge;
pub mod own;
pub mod plane;
pub mod study;
pub mod tables;
pub mod transfers;

use std::io::{self, Write as _};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::{fs, thread};

use punctual_model::Duration;
use punctual_sweep::page::Page;
use punctual_sweep::sheet::Sheet;
use punctual_sweep::workers::Workers;

use crate::page;
use further::Several;
use own::Own;
use plane::{Column, Grid, judge_all};
use tables::TwelvePoints;
use transfers::{TRANSFERS, transfer_all};

/// The arguments of the map.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// One page with every plot and table, live results beside those in virtual time
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Folder of the live results to show on the page
    #[arg(long, value_name = "DIR", default_value = "experiments/soft-modem/results")]
    pub results: PathBuf,
    /// A folder for the tables as CSV
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The step from one X and one Y of the map to the next
    #[arg(long, value_name = "TIME", default_value = "250us", value_parser = parse_time)]
    pub step: Duration,
    /// The longest Y of the map
    #[arg(long, value_name = "TIME", default_value = "40ms", value_parser = parse_time)]
    pub longest: Duration,
    /// Threads to use [default: one for each CPU]
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZeroUsize>,
    /// Print JSON, times in nanoseconds and shares in millionths
    #[arg(long)]
    pub json: bool,
}

fn parse_time(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(Duration::ZERO) => Err("it must be at least 1ns".into()),
        Ok(time) => Ok(time),
        Err(why) => Err(format!("the time {why}")),
    }
}

/// The reason why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The map has too many reservations.
    #[error(
        "Y up to {longest} in steps of {step} are {reservations} reservations, and at most \
         {most} are tried; take a longer --step or a shorter --longest"
    )]
    TooFine {
        /// The longest Y.
        longest: Duration,
        /// The step.
        step: Duration,
        /// The number of combinations of X and Y.
        reservations: u64,
        /// The bound.
        most: u64,
    },
    /// The plane has no reservation.
    #[error("there is no Y from {shortest} to {longest} in steps of {step}; lengthen --longest")]
    Empty {
        /// The shortest Y tried.
        shortest: Duration,
        /// The longest Y.
        longest: Duration,
        /// The step.
        step: Duration,
    },
    /// Results cannot be written.
    #[error("{path}: cannot be written: {why}")]
    Write {
        /// The path.
        path: String,
        /// The system's error.
        why: io::Error,
    },
}

/// The shortest Y of the map: 1 ms, as in the study.
pub const SHORTEST: Duration = Duration::from_millis(1);

/// Checks the arguments.
fn grid(args: &Args) -> Result<Grid, Error> {
    const MOST: u64 = 1_000_000;
    let (step, longest) = (args.step, args.longest);
    let grid = Grid { step, shortest: SHORTEST, longest };
    let columns = longest / step;
    let reservations = columns.saturating_mul(columns.saturating_add(1)) / 2;
    if reservations > MOST {
        return Err(Error::TooFine { longest, step, reservations, most: MOST });
    }
    if grid.periods().is_empty() {
        return Err(Error::Empty { shortest: SHORTEST, longest, step });
    }
    Ok(grid)
}

/// All results in virtual time.
pub struct Results {
    /// The plane of reservations.
    pub grid: Grid,
    /// The verdicts on the plane.
    pub plane: Vec<Column>,
    /// The study's twelve reservations.
    pub points: TwelvePoints,
    /// Our own modems.
    pub own: Own,
    /// The contexts in which files were transferred.
    pub rows: Vec<transfers::Row>,
    /// The results of the transfers.
    pub transfers: Vec<transfers::Found>,
    /// Several modems on one driver.
    pub several: Sheet,
    /// Clients beside each other.
    pub together: Sheet,
    /// A callback beside modems in interrupts.
    pub callbacks: Sheet,
}

impl Results {
    /// Computes all results, with `transfers` of each kind. They do not depend on the number of
    /// workers.
    pub fn compute(grid: Grid, transfers: u64, workers: &Workers) -> Self {
        let rows = transfers::rows();
        // Our modems need little, so long periods are the interesting ones.
        let periods: Vec<Duration> = (1..=40).map(|at| Duration::from_millis(2 * at)).collect();
        Self {
            plane: judge_all(&grid, workers),
            points: TwelvePoints::judge(),
            own: own::search(&periods, workers),
            transfers: transfer_all(&rows, transfers, workers),
            several: Several::search(workers).sheet(),
            together: further::together(),
            callbacks: further::callbacks(),
            rows,
            grid,
        }
    }

    /// Returns the tables for the terminal, each with a title.
    fn shown(&self) -> Vec<(&'static str, Sheet)> {
        let mut shown = vec![
            ("Which reservations are enough", tables::summary(&self.plane, &self.points)),
            ("Table 3: calls of ten that lost nothing", self.points.sheet()),
        ];
        let names = transfers::VARIANTS.iter().map(|variant| variant.title);
        shown.extend(names.zip(transfers::sheets(&self.rows, &self.transfers)));
        shown.extend([
            ("Several modems on one driver", self.several.clone()),
            ("Clients beside each other", self.together.clone()),
            ("How late a 1 ms callback begins", self.callbacks.clone()),
        ]);
        shown
    }

    /// Returns all tables that are kept as CSV.
    pub fn sheets(&self) -> Vec<Sheet> {
        let mut sheets: Vec<Sheet> = self.shown().into_iter().map(|(_, sheet)| sheet).collect();
        sheets.extend([tables::edges(&self.plane), tables::whole(&self.plane), self.own.sheet()]);
        sheets
    }

    /// Builds the page, with live results of `folder` beside these.
    fn page(&self, folder: &Path) -> Page {
        let (live, notes) = page::live::find(folder);
        let mut sections = vec![
            page::map::section(&self.grid, &self.plane, &self.points),
            page::transfers::section(&self.rows, &self.transfers),
            page::own::section(&self.own),
            page::further::section(
                self.several.clone(),
                self.together.clone(),
                self.callbacks.clone(),
            ),
        ];
        sections.extend(live);
        page::page(notes, sections)
    }
}

/// Computes the map and prints the results.
pub fn main(args: &Args) -> Result<(), Error> {
    let grid = grid(args)?;
    let threads = args.threads.or_else(|| thread::available_parallelism().ok());
    let workers = Workers::new(threads.map_or(1, NonZeroUsize::get));
    let results = Results::compute(grid, TRANSFERS, &workers);
    workers.finish();
    if let Some(folder) = &args.out {
        for sheet in results.sheets() {
            write(&folder.join(sheet.file()), &sheet.to_csv())?;
        }
    }
    if let Some(file) = &args.html {
        write(file, results.page(&args.results).to_html().as_bytes())?;
    }
    print(args.json, &results.shown())
}

fn print(json: bool, sheets: &[(&str, Sheet)]) -> Result<(), Error> {
    let text = if json {
        let tables: serde_json::Map<String, serde_json::Value> =
            sheets.iter().map(|(_, sheet)| (sheet.name.to_owned(), sheet.to_json())).collect();
        format!("{:#}\n", serde_json::Value::Object(tables))
    } else {
        let table = |(title, sheet): &(&str, Sheet)| format!("{title}\n{}\n\n", sheet.to_table());
        sheets.iter().map(table).collect()
    };
    match io::stdout().write_all(text.as_bytes()) {
        // A reader that has seen enough closes the pipe.
        Err(why) if why.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::Write { path: "standard output".into(), why })
        }
        _ => Ok(()),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let refuse = |why| Error::Write { path: path.display().to_string(), why };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(refuse)?;
    }
    fs::write(path, bytes).map_err(refuse)
}
