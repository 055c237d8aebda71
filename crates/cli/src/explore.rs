//! `punctual explore`: shows what else would fit, as tables and plots.

use std::fmt::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use punctual::explore::{self, Exploration, Folder, FolderError, Options, Report};
use punctual::host::Chosen;
use punctual_frontend::exit::{Exit, Failure, Outcome};
use punctual_frontend::options::time;
use punctual_frontend::output;
use punctual_model::Duration;
use serde::Serialize;

use crate::inputs::{ProfileArgs, read_contract};

const EXAMPLES: &str = "\
Examples:
  punctual explore studio.toml
      everything that applies to the contract, into explore-out/; open explore-out/index.html
  punctual explore studio.toml --what breakdown --json
      how far all work can grow under each policy, by each test
  punctual explore modem.toml --what reservations --from 1ms --to 30ms --points 291
      the least X for each Y, as a map
  punctual explore video.toml --what channels --channel camera --out camera
      how many cameras fit, for each packet size and preemption grain

The same contract gives the same files, byte for byte, with any number of threads. The contract
need not be admitted as it stands; punctual admit tests that.

Exit codes: 0 explored, 2 bad usage or bad contract, 3 the results cannot be written.";

/// Explores what else would fit: breakdown utilisation, reservations, channels
///
/// Writes a page with plots that needs no network, and the numbers as CSV files beside it.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The contract, a TOML file; "-" reads standard input
    contract: PathBuf,
    /// What to sweep
    #[arg(long, value_enum, default_value_t = Sweep::All)]
    what: Sweep,
    /// The folder for the page and the CSV files
    #[arg(long, value_name = "DIR", default_value = "explore-out")]
    out: PathBuf,
    /// Replace existing files
    #[arg(long)]
    force: bool,
    /// Print JSON, with times in nanoseconds and shares in millionths
    #[arg(long)]
    json: bool,
    /// The number of threads to use [default: one for each CPU]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// The shortest period Y of a reservation [default: 1ms, or less if a task needs it]
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Option<Duration>,
    /// The longest period Y of a reservation [default: twice the longest period]
    #[arg(long, value_name = "TIME", value_parser = time)]
    to: Option<Duration>,
    /// The number of reservation periods to try
    #[arg(long, value_name = "N", default_value_t = 120,
        value_parser = clap::value_parser!(u32).range(2..=10_000))]
    points: u32,
    /// Count copies of this channel [default: the first]
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    #[command(flatten)]
    profile: ProfileArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sweep {
    /// Everything that applies to the contract
    All,
    /// How far all work can grow, by policy and by test
    Breakdown,
    /// The smallest budget X for each period Y that holds all tasks
    Reservations,
    /// The number of channels by packet size and by packets between preemption points
    Channels,
}

impl From<Sweep> for explore::Sweeps {
    fn from(what: Sweep) -> Self {
        match what {
            Sweep::All => Self::All,
            Sweep::Breakdown => Self::Breakdown,
            Sweep::Reservations => Self::Reservations,
            Sweep::Channels => Self::Channels,
        }
    }
}

pub(crate) fn main(args: &Args) -> Outcome {
    let contract = read_contract(&args.contract)?.contract;
    let Chosen { host, stamp, .. } = args.profile.choose()?;
    let options = Options {
        what: args.what.into(),
        from: args.from,
        to: args.to,
        points: args.points,
        channel: args.channel.clone(),
    };
    let exploration = Exploration::new(&contract, &host, &options)?;
    let folder = Folder::new(&args.out, args.force);
    folder.can_take(&exploration.files()).map_err(not_written)?;

    let sections = exploration.run(args.threads);
    let contract = name_of(&args.contract);
    let report = Report { contract, host_profile: stamp, notes: exploration.notes, sections };
    // Made before the files take the report.
    let answer = if args.json { json(args, &report)? } else { text(args, &report) };
    folder.write(&report.into_files()).map_err(not_written)?;
    output::print(&answer)?;
    Ok(Exit::Kept)
}

/// Names the options that mend a folder that cannot take the files.
fn not_written(error: FolderError) -> Failure {
    match error {
        FolderError::HasFiles { folder, names } => Failure::bad_input(format!(
            "{}: has {} from before; choose another folder with --out, or --force to replace them",
            folder.display(),
            names.join(", ")
        )),
        other => other.into(),
    }
}

/// Returns the file's name alone, so that the results do not depend on its folder.
fn name_of(contract: &Path) -> String {
    match contract.file_name() {
        Some(name) if contract != Path::new("-") => name.to_string_lossy().into_owned(),
        _ => "standard input".into(),
    }
}

fn text(args: &Args, report: &Report) -> String {
    let mut text = String::new();
    for section in &report.sections {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}\n{}\n", section.title, section.summary.to_table());
    }
    for note in &report.notes {
        let _ = writeln!(text, "{note}");
    }
    let _ = writeln!(text, "{}", report.host_profile.line());
    let page = args.out.join(Report::PAGE);
    let _ = writeln!(text, "Plots and all numbers: {}", page.display());
    text
}

fn json(args: &Args, report: &Report) -> Result<String, Failure> {
    #[derive(Serialize)]
    struct Answer<'a> {
        #[serde(flatten)]
        report: &'a Report,
        folder: String,
    }
    let folder = args.out.to_string_lossy().into_owned();
    output::json_page(&Answer { report, folder })
}
