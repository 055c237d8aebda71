//! `punctual verify`: runs what a contract declares, and reports for each promise whether it was
//! kept.
//!
//! [`punctual::verify`] does the work. This module parses the options and renders the result in two
//! of its three forms: for a person and for CI servers. The third is the result's own JSON.

use std::io;
use std::path::PathBuf;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use punctual::contract::Declared;
use punctual::file::NewFile;
use punctual::verify::{Evidence, Options, PromiseVerdict, Promised, Report, verify};
use punctual_client::SOCKET;
use punctual_frontend::exit::{Exit, Failure, Outcome};
use punctual_frontend::options::time;
use punctual_frontend::output;
use punctual_frontend::trace_file::TraceArgs;
use punctual_model::Duration;
use quick_junit::{NonSuccessKind, Report as Junit, TestCase, TestCaseStatus, TestSuite};

use crate::inputs::{ProfileArgs, read_contract};

const HELP: &str = "\
Examples:
  punctual verify studio.toml --for 60s
  punctual verify studio.toml --for 60s --junit verify.xml
      for a CI server: a test case for each promise; those that cannot be judged are errors
  punctual verify studio.toml --for 10s --json --trace verify.ptrace > verify.json
  punctual verify studio.toml --only-programs
      only the commands of the contract

Commands run under their reservations, as punctual run starts them. Tasks, upcalls and streams run \
as upcalls whose handlers use all of their declared time. Channels without a client carry the \
largest messages as often as declared to an emulated link. The promises are that each job of a \
command that needs no more than the budget completes within one period of its reservation after \
its release, each job of a task or upcall by its deadline, and each message within its delay \
bound. The causes of late jobs come from the kernel (punctual why). Each verdict names its \
evidence.

It needs CAP_BPF and CAP_PERFMON, and the privileges of punctual run: run it as root.

Exit codes: 0 every promise was judged and kept and no program failed, 1 one was broken or the \
contract is refused, 2 bad usage or bad contract, 3 this host cannot, 4 not judgeable.";

/// Runs a contract and reports for each promise whether it was kept
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The contract, a TOML file
    contract: PathBuf,
    /// Run for this long, or until all programs have ended if nothing else runs
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = time)]
    length: Duration,
    /// Run only the commands of the contract, with no substitutes for missing code
    #[arg(long)]
    only_programs: bool,
    /// The socket of the broker, which grants channels, and reservations where we have no privilege
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    broker: PathBuf,
    /// Also write the verdicts as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Print the verdicts as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    profile: ProfileArgs,
}

pub(crate) fn main(args: &Args) -> Outcome {
    let Declared { contract, text: declared, .. } = read_contract(&args.contract)?;
    let host = args.profile.choose()?.host;
    // Opened before a run of minutes.
    let file = args.junit.as_deref().map(|path| output::file(path, true)).transpose()?;
    let run_by = std::env::current_exe().map_err(|why| {
        Failure::cannot_here(format!("punctual run cannot be started for the commands: {why}"))
    })?;
    let options = Options {
        length: args.length,
        only_programs: args.only_programs,
        broker: args.broker.clone(),
        run_by: Some(run_by),
    };
    let trace = || args.trace.of_live_run(&declared);
    let report = verify(&args.contract, &contract, &host, &options, trace)?;
    // Written before anything is printed, so that a closed terminal cannot lose it.
    if let Some(file) = file {
        write_junit(file, &report)?;
    }
    if args.json {
        output::json(&report)?;
    } else {
        output::print(&text(&report))?;
    }
    Ok(match (report.is_broken(), report.is_kept()) {
        (true, _) => Exit::Refused,
        (_, true) => Exit::Kept,
        _ => Exit::NotJudgeable,
    })
}

/// The most causes listed for a broken promise.
const CAUSES: usize = 5;

/// Renders the verdicts for a person.
fn text(report: &Report) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(100);
    table.set_header(["promise", "jobs", "late", "latest by", "seen by", "verdict"]);
    for one in &report.promises {
        let verdict = match &one.became {
            PromiseVerdict::Kept => "kept".to_owned(),
            // The number of late jobs is in the columns beside it.
            PromiseVerdict::Broken(_) if one.late > 0 => "broken".to_owned(),
            PromiseVerdict::Broken(why) => format!("broken: {why}"),
            PromiseVerdict::NotJudgeable(why) => format!("not judgeable: {why}"),
        };
        table.add_row([
            format!("{} {}", one.kind, one.name),
            one.jobs.to_string(),
            one.late.to_string(),
            one.max_tardiness.to_string(),
            one.evidence.iter().map(|one| one.name()).collect::<Vec<_>>().join(", "),
            verdict,
        ]);
    }
    for column in 1..4 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut page = format!("{}, {:.1} s:\n{table}\n", report.contract, report.ran.as_secs_f64());
    for one in report.promises.iter().filter(|one| !one.taken.is_empty()) {
        page += &format!("\nWhat a job of {} {} is:\n", one.kind, one.name);
        one.taken.iter().for_each(|taken| page += &format!("  {taken}\n"));
    }
    for one in report.promises.iter().filter(|one| !one.causes.is_empty()) {
        page += &format!("\nWhy jobs of {} {} were late:\n", one.kind, one.name);
        for (cause, jobs) in one.causes.iter().take(CAUSES) {
            page += &format!("{jobs:>8}  {cause}\n");
        }
    }
    let mut used: Vec<Evidence> =
        report.promises.iter().flat_map(|one| one.evidence.iter().copied()).collect();
    used.sort_unstable();
    used.dedup();
    used.retain(|one| matches!(one, Evidence::Synthetic | Evidence::EmulatedLink));
    for one in used {
        page += &format!("\n{}: {}.\n", one.name(), one.text());
    }
    if let Some(status) = report.ended {
        page += &format!("\nThe programs ended by themselves: {status}\n");
    }
    match report.unjudged() {
        0 => {}
        1 => page += "\n1 promise could not be judged.\n",
        more => page += &format!("\n{more} promises could not be judged.\n"),
    }
    if report.records_lost > 0 {
        page += &format!("\n{} records of the kernel were lost.\n", report.records_lost);
    }
    if !report.missing.is_empty() {
        page += &format!("\nThis kernel does not tell: {}.\n", report.missing.join(", "));
    }
    page
}

/// Writes the verdicts, which take the file's place when they are complete.
fn write_junit(file: NewFile, report: &Report) -> Result<(), Failure> {
    let text = junit(report).map_err(|error| file.refuse(io::Error::other(error)))?;
    Ok(file.write_and_place(text.as_bytes()).map(drop)?)
}

/// Returns one suite for the contract, with a test case for each promise.
fn junit(report: &Report) -> Result<String, quick_junit::SerializeError> {
    let mut suite = TestSuite::new(&*report.contract);
    let time = std::time::Duration::from_nanos(report.ran.as_nanos());
    suite.set_time(time);
    for promised in &report.promises {
        let mut case = TestCase::new(&*promised.name, status(promised));
        case.set_classname(format!("punctual.{}", promised.kind)).set_time(time);
        // Written as output, because some readers ignore properties of a test case.
        let evidence = promised.evidence.iter();
        let evidence: String =
            evidence.map(|one| format!("{}: {}\n", one.name(), one.text())).collect();
        if !evidence.is_empty() {
            case.set_system_out(evidence);
        }
        suite.add_test_case(case);
    }
    let mut junit = Junit::new("punctual verify");
    junit.set_time(time);
    junit.add_test_suite(suite);
    // Jenkins' schema (junit-10.xsd) has this count at suites, but not at their root, which comes
    // first.
    let count = format!(" skipped=\"{}\"", junit.skipped);
    junit.to_string().map(|text| text.replacen(&count, "", 1))
}

fn status(promised: &Promised) -> TestCaseStatus {
    match &promised.became {
        PromiseVerdict::Kept => TestCaseStatus::success(),
        PromiseVerdict::Broken(_) => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            let causes: String = promised
                .causes
                .iter()
                .map(|(cause, jobs)| format!("{jobs} late: {cause}\n"))
                .collect();
            let why = promised.why().unwrap_or_default();
            status.set_type("broken promise").set_message(why).set_description(causes);
            status
        }
        PromiseVerdict::NotJudgeable(why) => {
            let mut status = match promised.excused {
                true => TestCaseStatus::skipped(),
                false => TestCaseStatus::non_success(NonSuccessKind::Error),
            };
            status.set_message(&**why);
            status
        }
    }
}
