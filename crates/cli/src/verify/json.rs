//! The verdicts as JSON.

use serde::Serialize;

use super::evidence::Evidence;
use super::promises::{Became, Promised};
use super::report::Report;

#[derive(Serialize)]
struct Page {
    contract: String,
    ran_ns: u64,
    broken: bool,
    promises: Vec<One>,
    programs_ended: Option<String>,
    records_lost: u64,
    not_told: Vec<&'static str>,
}

#[derive(Serialize)]
struct One {
    kind: &'static str,
    name: String,
    /// `kept`, `broken` or `not judgeable`.
    verdict: &'static str,
    why: Option<String>,
    /// What the verdict rests on: `admission`, `program`, `synthetic work`, `emulated link`, `broker`.
    evidence: Vec<&'static str>,
    jobs: u64,
    late: u64,
    max_tardiness_ns: u64,
    causes: Vec<Cause>,
}

#[derive(Serialize)]
struct Cause {
    cause: String,
    jobs: u64,
}

pub(super) fn of(report: &Report) -> String {
    let page = Page {
        contract: report.contract.display().to_string(),
        ran_ns: report.ran.as_nanos(),
        broken: report.is_broken(),
        promises: report.promises.iter().map(one).collect(),
        programs_ended: report.ended.map(|status| status.to_string()),
        records_lost: report.records_lost,
        not_told: report.missing.clone(),
    };
    // Cannot fail: no map with keys that are not text, no writer.
    serde_json::to_string_pretty(&page).unwrap_or_default() + "\n"
}

fn one(promised: &Promised) -> One {
    let verdict = match &promised.became {
        Became::Kept => "kept",
        Became::Broken(_) => "broken",
        Became::NotJudgeable(_) => "not judgeable",
    };
    let causes = promised.causes.iter();
    One {
        kind: promised.kind,
        name: promised.name.clone(),
        verdict,
        why: promised.why(),
        evidence: promised.evidence.iter().copied().map(Evidence::name).collect(),
        jobs: promised.jobs,
        late: promised.late,
        max_tardiness_ns: promised.max_tardiness.as_nanos(),
        causes: causes.map(|(cause, jobs)| Cause { cause: cause.clone(), jobs: *jobs }).collect(),
    }
}
