//! Renders the verdicts for CI servers.

use std::io;

use punctual::file::NewFile;
use punctual::verify::{PromiseVerdict, Promised, Report};
use quick_junit::{NonSuccessKind, Report as Junit, TestCase, TestCaseStatus, TestSuite};

use crate::exit::Failure;

/// Writes the verdicts, which take the file's place when they are complete.
pub(super) fn write(file: NewFile, report: &Report) -> Result<(), Failure> {
    let text = of(report).map_err(|error| file.refuse(io::Error::other(error)))?;
    Ok(file.write_and_place(text.as_bytes()).map(drop)?)
}

/// Returns one suite for the contract, with a test case for each promise.
fn of(report: &Report) -> Result<String, quick_junit::SerializeError> {
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
            let mut status = TestCaseStatus::skipped();
            status.set_message(&**why);
            status
        }
    }
}
