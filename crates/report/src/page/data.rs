//! Writes the data from which the script draws after zooming: nanoseconds since the first event, in
//! short lists.

use punctual_model::Instant;
use serde_json::{Value, json};

use super::scale::short;
use crate::Report;
use crate::gather::{Fate, Job, Late};
use crate::{shown, tables};

/// `2^53`, beyond which a script's numbers have gaps.
const EXACT: u64 = 1 << 53;

/// The fates by number, as the script names them.
const FATES: [&str; 5] = ["complete", "aborted", "contained", "never begun", "end not seen"];

pub(super) fn data(report: &Report) -> Value {
    let (survey, drawn) = (&report.survey, &report.drawn);
    let since = |at: Instant| at.saturating_since(drawn.from).as_nanos().min(EXACT);
    let lane_of = |subject: u32| drawn.lanes.iter().position(|lane| lane.subject == subject);
    let lanes: Vec<Value> = drawn
        .lanes
        .iter()
        .map(|lane| {
            let deadline = survey.subjects.all()[lane.subject as usize].promise.relative_deadline;
            json!({
                "name": tables::name(survey, lane.subject),
                "busy": lane.busy,
                "late": lane.late,
                "deadline": deadline.map(punctual_model::Duration::as_nanos),
            })
        })
        .collect();
    let job = |job: &Job| -> Option<Value> {
        let lane = lane_of(job.subject)?;
        let pairs = |stretches: &[(Instant, Instant)]| -> Vec<u64> {
            stretches.iter().flat_map(|&(from, to)| [since(from), since(to)]).collect()
        };
        Some(json!([
            lane,
            job.index.to_string(),
            signed_since(job.release, drawn.from),
            job.start.map(since),
            since(job.end),
            fate(job.fate),
            pairs(&job.ran),
            pairs(&job.throttled),
        ]))
    };
    let windows: Vec<Value> = drawn
        .windows
        .all
        .iter()
        .map(|window| {
            let jobs: Vec<Value> = window.jobs.iter().filter_map(job).collect();
            json!({ "from": since(window.from), "to": since(window.to), "jobs": jobs })
        })
        .collect();
    let late = |late: &&Late| -> Option<Value> {
        let lane = lane_of(late.subject)?;
        Some(json!([
            lane,
            late.index.to_string(),
            signed_since(late.release, drawn.from),
            signed_since(late.deadline, drawn.from),
            since(late.end),
            causes(late),
        ]))
    };
    let mut latest: Vec<&Late> = survey.late.latest();
    latest.sort_by_key(|late| (late.deadline, late.subject, late.index));
    json!({
        "span": drawn.span.min(EXACT),
        "fates": FATES,
        "lanes": lanes,
        "windows": windows,
        "late": latest.iter().filter_map(late).collect::<Vec<_>>(),
    })
}

/// Returns the difference, which is negative before the first event.
fn signed_since(at: Instant, from: Instant) -> i64 {
    let difference = i128::from(at.as_nanos()) - i128::from(from.as_nanos());
    let exact = i128::from(EXACT);
    // The value is now within an i64.
    difference.clamp(-exact, exact) as i64
}

fn fate(fate: Fate) -> usize {
    FATES.iter().position(|&word| word == fate.word()).unwrap_or(FATES.len() - 1)
}

fn causes(late: &Late) -> String {
    match &late.causes {
        None => "the trace has no causes".into(),
        Some(causes) if causes.is_empty() => "no cause was named".into(),
        Some(causes) => {
            let told = causes.iter().take(3);
            let told = told.map(|one| {
                format!("{} for {}", shown::line(&one.text), short(one.share.as_nanos()))
            });
            told.collect::<Vec<_>>().join("; ")
        }
    }
}
