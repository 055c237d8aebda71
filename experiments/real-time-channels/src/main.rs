//! Studies real-time channels: throughput and admissibility, in virtual time and on this machine.

mod admissibility;
mod host;
mod live;
mod table;
mod throughput;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use punctual_model::Duration;

use table::Table;

/// The study of real-time channels: in virtual time, where every run gives the same figures, and live
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    study: Study,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    /// Also write each table as CSV into this directory
    #[arg(long, global = true, value_name = "DIR")]
    results: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum Study {
    /// Kilobytes a second against packet size, packets between preemptions and link (Figures 1, 2, 5)
    Throughput,
    /// The number of channels that fit, against packet size and packets between preemptions
    /// (Figures 6, 7)
    Admissibility,
    /// Both
    All,
    /// On this machine, before an emulated link: O1 and O2 in kilobytes a second, and a run of as
    /// many channels as are admitted. Takes a minute and a half; without root its threads are
    /// ordinary ones
    Live {
        /// Seconds of each run
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=60))]
        seconds: u64,
    },
}

fn main() -> ExitCode {
    let args = Args::parse();
    let mut tables = Vec::new();
    if matches!(args.study, Study::Throughput | Study::All) {
        tables.extend([throughput::by_preemption(), throughput::by_packet_size()]);
    }
    if matches!(args.study, Study::Admissibility | Study::All) {
        tables.extend([admissibility::channels_table(), admissibility::ideal_and_real()]);
    }
    if let Study::Live { seconds } = args.study {
        let each = Duration::from_secs(seconds);
        tables.extend([live::throughput(each), live::admitted::table(each)]);
    }
    match publish(&args, &tables) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the results could not be written: {error}");
            ExitCode::from(2)
        }
    }
}

fn publish(args: &Args, tables: &[Table]) -> io::Result<()> {
    let page = if args.json {
        serde_json::to_string_pretty(tables)? + "\n"
    } else {
        tables.iter().map(|table| table.to_markdown() + "\n").collect()
    };
    io::stdout().write_all(page.as_bytes())?;
    match &args.results {
        Some(directory) => write_into(directory, tables),
        None => Ok(()),
    }
}

fn write_into(directory: &Path, tables: &[Table]) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    for table in tables {
        fs::write(directory.join(table.name).with_extension("csv"), table.to_csv())?;
    }
    Ok(())
}
