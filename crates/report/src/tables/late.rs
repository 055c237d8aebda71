//! Tabulates the latest jobs, and the causes of tardiness.

use std::cmp::Reverse;

use punctual_model::{Duration, Instant};
use punctual_sweep::sheet::{Sheet, Value};

use super::{count, name, time};
use crate::gather::{Late, Survey};
use crate::shown;

/// The most rows of the list.
const MOST_ROWS: usize = 200;

/// Returns the latest jobs, the latest first. Instants count from the first event.
pub(crate) fn latest(survey: &Survey) -> Sheet {
    let since = |at: Instant| time(Some(at.saturating_since(survey.from())));
    let row = |late: &Late| {
        vec![
            Value::Text(name(survey, late.subject)),
            Value::Text(late.index.to_string()),
            since(late.release),
            since(late.deadline),
            time(Some(late.tardiness())),
            Value::Text(main_cause(late)),
        ]
    };
    Sheet {
        name: "late",
        columns: &[
            ("subject", "subject"),
            ("job", "job"),
            ("release_ns", "released at"),
            ("absolute_deadline_ns", "deadline at"),
            ("tardiness_ns", "late by"),
            ("main_cause", "main cause"),
        ],
        rows: survey.late.latest().into_iter().take(MOST_ROWS).map(row).collect(),
    }
}

fn main_cause(late: &Late) -> String {
    let main = late.causes.as_ref().map(|causes| causes.first());
    match main {
        None => "not in the trace".into(),
        Some(None) => "none named".into(),
        Some(Some(cause)) => shown::line(&cause.text),
    }
}

/// Returns the part of all tardiness that each cause has, the largest first.
pub(crate) fn by_cause(survey: &Survey) -> Sheet {
    let causes = &survey.late.by_cause;
    let all: u128 = causes.values().map(|(_, share)| u128::from(share.as_nanos())).sum();
    let mut sorted: Vec<(&String, &(u64, Duration))> = causes.iter().collect();
    sorted.sort_by_key(|(cause, (_, share))| (Reverse(*share), (*cause).clone()));
    let row = |(cause, (jobs, share)): (&String, &(u64, Duration))| {
        let millionths = u128::from(share.as_nanos()) * 1_000_000 / all.max(1);
        vec![
            Value::Text(shown::line(cause)),
            count(*jobs),
            time(Some(*share)),
            Value::Share(u64::try_from(millionths).ok()),
        ]
    };
    Sheet {
        name: "causes",
        columns: &[
            ("cause", "cause"),
            ("main_cause_of", "main cause of"),
            ("share_ns", "tardiness laid to it"),
            ("share_ppm", "of all"),
        ],
        rows: sorted.into_iter().map(row).collect(),
    }
}
