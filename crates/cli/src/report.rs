//! `punctual report`: renders a trace as one page for a browser.

use std::io::Write;
use std::path::{Path, PathBuf};

use punctual_frontend::exit::{Exit, Failure, Outcome};
use punctual_frontend::output::{self, NewFile};
use punctual_report::{ReadError, Report};

use punctual::host::Chosen;

use crate::inputs::ProfileArgs;

const HELP: &str = "\
Examples:
  punctual simulate --trace studio.ptrace studio.toml; punctual report studio.ptrace -o studio.html
      the schedule, all response times, and how each promise was kept
  punctual report studio.ptrace --json
      the same tables as JSON, with times in nanoseconds
  punctual report studio.ptrace -o - | gzip > studio.html.gz
      the page to standard output

The page loads nothing from the network, so it can be sent to others; it contains the contract, \
the command line and the host's description of itself. Of a damaged trace it shows the intact \
parts, and says what is missing; standard error does so too.

The contract is admitted again with this host's profile, because the trace has none; \
--host-profile names the profile of the trace's host.

Exit codes: 0 shown, even if a promise was broken (see the exit code of punctual why); 2 bad \
usage, or the file is no trace; 3 the page cannot be written; 4 shown in part: events were lost, \
the file is damaged, or it has no end.";

/// Renders a trace as one page: timeline, late jobs with causes, histograms, budgets, contract
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The trace file
    trace: PathBuf,
    /// The page's file; "-" is standard output
    #[arg(short, long, value_name = "FILE", required_unless_present = "json")]
    output: Option<PathBuf>,
    /// Replace an existing page
    #[arg(long)]
    force: bool,
    /// Print the tables as JSON, with times in nanoseconds; a page is written only if -o names its
    /// file
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    profile: ProfileArgs,
}

pub(crate) fn main(args: &Args) -> Outcome {
    let to_output = args.output.as_deref() == Some(Path::new("-"));
    if args.json && to_output {
        return Err(Failure::bad_input("JSON and the page cannot both go to standard output"));
    }
    let page = args.output.as_deref().filter(|_| !to_output);
    let page = page.map(|page| page_of(args, page)).transpose()?;
    let mut report = read(&args.trace)?;
    if report.contract().is_some() {
        let Chosen { host, stamp, .. } = args.profile.choose()?;
        report.admit(&host, &stamp.line());
    }
    let name = name_of(&args.trace);
    if let Some(page) = page {
        write(page, &report.to_html(&name))?;
    }
    if to_output {
        output::print(&report.to_html(&name))?;
    }
    if args.json {
        output::json(&report.to_json(&name))?;
    }
    Ok(if report.is_whole() { Exit::Kept } else { Exit::NotJudgeable })
}

/// Reads a trace as far as possible, and reports missing parts on standard error.
pub(crate) fn read(trace: &Path) -> Result<Report, Failure> {
    let shown = trace.display();
    let report = Report::read(trace).map_err(|error| match error {
        // Damage is worded as a statement about the file itself.
        ReadError::NoTrace(damage) => Failure::bad_input(format!("{shown}: {damage}")),
        ReadError::Io(error) => Failure::bad_input(format!("{shown}: cannot be read: {error}")),
    })?;
    for warning in report.warnings() {
        anstream::eprintln!("note: {shown}: {warning}");
    }
    Ok(report)
}

/// Returns the file's name alone, since its folder is private.
pub(crate) fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// Opens the page's file before any work is done.
fn page_of(args: &Args, page: &Path) -> Result<NewFile, Failure> {
    let is_trace = match (page.canonicalize(), args.trace.canonicalize()) {
        (Ok(page), Ok(trace)) => page == trace,
        _ => false,
    };
    if is_trace {
        return Err(Failure::bad_input(format!("{}: is the trace itself", page.display())));
    }
    output::file(page, args.force)
}

/// Writes the page, which takes its place when it is complete.
pub(crate) fn write(mut file: NewFile, page: &str) -> Result<(), Failure> {
    file.write_all(page.as_bytes()).map_err(|error| file.refuse(error))?;
    output::place(file)
}
