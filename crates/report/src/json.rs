//! Writes the tables for a program. Field names are part of the interface.

use std::collections::BTreeMap;

use punctual_trace::file::Run;
use serde_json::{Map, Value, json};

use crate::admission::Admission;
use crate::{Report, tables};

impl Report {
    /// Returns the same tables for a program. Times are nanoseconds, and instants count from the
    /// first event.
    pub fn to_json(&self, file: &str) -> Value {
        tables_of(self, file)
    }
}

fn tables_of(report: &Report, file: &str) -> Value {
    let survey = &report.survey;
    let proven =
        report.admission().map_or_else(BTreeMap::new, |admission| admission.proven.clone());
    let tally = tables::tally(survey);
    let tables = [
        tables::promises(survey),
        tables::times(survey, &proven),
        tables::budgets(survey),
        tables::constraints(survey),
        tables::by_cause(survey),
        tables::latest(survey),
        tables::missing(survey),
    ];
    let tables: Map<String, Value> =
        tables.iter().map(|sheet| (sheet.name.to_owned(), sheet.to_json())).collect();
    json!({
        "trace": file,
        "run": survey.run.as_ref().map(run),
        "from_ns": survey.from().as_nanos(),
        "span_ns": survey.span(),
        "has_end": survey.end.is_some(),
        "events": survey.events,
        "jobs": survey.jobs,
        "late_jobs": survey.late.all,
        "late_jobs_explained_by_kernel": survey.late.by_kernel,
        "late_jobs_explained_by_events": survey.late.by_events,
        "is_whole": report.is_whole(),
        "events_lost": survey.losses.events,
        "blocks_missing": survey.losses.missing_blocks,
        "events_missing": survey.losses.missing_events,
        "damaged_places": survey.losses.damages,
        "damaged_bytes": survey.losses.damaged_bytes,
        "promises_kept": tally.kept,
        "promises_broken": tally.broken,
        "promises_not_judgeable": tally.not_judgeable,
        "warnings": report.warnings(),
        "tables": tables,
        "admission": report.admission.as_ref().map(admission),
    })
}

fn run(run: &Run) -> Value {
    json!({
        "live": run.live,
        "epoch_unix_ns": run.epoch_unix_ns,
        "command": run.command,
        "host": run.host,
        "contract": run.contract,
    })
}

fn admission(admission: &Result<Admission, String>) -> Value {
    match admission {
        Err(error) => json!({ "error": error }),
        Ok(admission) => {
            let tables: Map<String, Value> = admission
                .tables
                .iter()
                .map(|(_, sheet)| (sheet.name.to_owned(), sheet.to_json()))
                .collect();
            let streams: Map<String, Value> = admission
                .arithmetic
                .iter()
                .map(|(name, lines)| (name.clone(), json!(lines)))
                .collect();
            json!({
                "admitted": admission.is_admitted,
                "verdict": admission.verdict,
                "host_profile": admission.host,
                "streams": streams,
                "tables": tables,
            })
        }
    }
}
