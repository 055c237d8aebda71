//! `punctual export`: converts a trace file for other tools.

use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use punctual::export::{self, ExportError};
use punctual::trace::State;
use punctual_frontend::exit::{Exit, Failure, Outcome};
use punctual_frontend::output;

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

impl From<Format> for export::Format {
    fn from(format: Format) -> Self {
        match format {
            Format::Perfetto => Self::Perfetto,
            Format::Hdr => Self::Hdr,
            Format::Json => Self::Json,
            Format::Csv => Self::Csv,
        }
    }
}

pub(crate) fn main(args: &Args) -> Outcome {
    match &args.output {
        None => {
            let mut out = BufWriter::new(io::stdout().lock());
            match export::export(&args.trace, args.format.into(), &mut out) {
                // The reader has closed the pipe, so it needs no more.
                Err(ExportError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                    Ok(Exit::Kept)
                }
                Err(error) => Err(failure(error, Path::new("-"))),
                Ok(state) => Ok(exit(args, &state)),
            }
        }
        Some(path) => {
            let mut out = BufWriter::new(output::file(path, true)?);
            let state = export::export(&args.trace, args.format.into(), &mut out)
                .map_err(|error| failure(error, path))?;
            let exit = exit(args, &state);
            let file =
                out.into_inner().map_err(|error| failure(error.into_error().into(), path))?;
            output::place(file)?;
            Ok(exit)
        }
    }
}

/// Reports what could not be read, and returns the exit code.
fn exit(args: &Args, state: &State) -> Exit {
    for line in state.lines() {
        anstream::eprintln!("punctual: {}: {line}", args.trace.display());
    }
    if state.is_whole() { Exit::Kept } else { Exit::NotJudgeable }
}

fn failure(error: ExportError, path: &Path) -> Failure {
    match error {
        ExportError::Read(failure) => failure,
        write => Failure::cannot_here(format!("{}: {write}", path.display())),
    }
}
