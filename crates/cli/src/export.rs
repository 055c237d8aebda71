//! `punctual export`: converts a trace file for other tools.
//!
//! [`table`] (CSV) and [`lines`] (JSON) contain everything in the file, [`perfetto`] and [`hdr`]
//! only what their tools can show.

mod hdr;
mod lines;
mod perfetto;
mod table;

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::exit::{Exit, Failure, Outcome};
use crate::output;

const HELP: &str = "\
Examples:
  punctual export run.ptrace --format perfetto -o run.json
      jobs, releases, deadlines, late jobs with causes, budgets, for https://ui.perfetto.dev
  punctual export run.ptrace --format hdr -o run.hlog
      wake-up latencies and response times for each second, for HdrHistogram's tools
  punctual export run.ptrace --format csv | head
      a row for each event; json: a line for each item in the file

Instants are nanoseconds of CLOCK_MONOTONIC, or of virtual time. docs/trace.md describes the \
contents of a trace and how to read it. A damaged file is exported as far as it can be read; \
standard error says what is missing.

Exit codes: 0 exported, 2 bad usage or no trace, 3 this host cannot, 4 exported in part: events \
were lost, the file is damaged, or it has no end.";

/// Converts a trace file to another format
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The trace file, written by run, simulate, demo or why --trace
    trace: PathBuf,
    /// The output format
    #[arg(long, value_enum)]
    format: Format,
    /// The output file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Trace-event JSON for the Perfetto viewer
    Perfetto,
    /// HdrHistogram V2 interval log
    Hdr,
    /// A line of JSON for each item in the file
    Json,
    /// A row for each event
    Csv,
}

pub(crate) fn main(args: &Args) -> Outcome {
    match &args.output {
        None => {
            let mut out = BufWriter::new(io::stdout().lock());
            match export(args, &mut out) {
                // The reader has closed the pipe, so it needs no more.
                Err(Stopped::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                    Ok(Exit::Kept)
                }
                outcome => outcome.map_err(|stopped| stopped.failure(Path::new("-"))),
            }
        }
        Some(path) => {
            let mut out = BufWriter::new(output::file_beside(path)?);
            let exit = export(args, &mut out).map_err(|stopped| stopped.failure(path))?;
            let refuse = |error: io::Error| Stopped::Write(error).failure(path);
            let file = out.into_inner().map_err(|error| refuse(error.into_error()))?;
            output::settle(&file).map_err(refuse)?;
            file.persist(path).map_err(|error| refuse(error.error))?;
            Ok(exit)
        }
    }
}

/// Writes everything that can be read, and reports what cannot be.
fn export(args: &Args, out: &mut impl Write) -> Result<Exit, Stopped> {
    let state = match args.format {
        Format::Perfetto => perfetto::export(&args.trace, out)?,
        Format::Hdr => hdr::export(&args.trace, out)?,
        Format::Json => lines::export(&args.trace, out)?,
        Format::Csv => table::export(&args.trace, out)?,
    };
    out.flush()?;
    for line in state.lines() {
        anstream::eprintln!("punctual: {}: {line}", args.trace.display());
    }
    Ok(if state.is_whole() { Exit::Kept } else { Exit::NotJudgeable })
}

/// The reason why the export stopped.
enum Stopped {
    /// The trace cannot be read.
    Read(Failure),
    /// The output cannot be written.
    Write(io::Error),
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self::Read(failure)
    }
}

impl Stopped {
    fn failure(self, path: &Path) -> Failure {
        match self {
            Self::Read(failure) => failure,
            Self::Write(error) => {
                Failure::cannot_here(format!("{}: cannot be written: {error}", path.display()))
            }
        }
    }
}
