//! Tabulates the results. Each table is on the page and in the JSON.
//!
//! - `promises`: the promise to each subject and its verdict.
//! - `times`: response times and wake-up latencies, their percentiles and histograms.
//! - `budgets`: the use of budgets.
//! - `constraints`: requests for time constraints and their outcome.
//! - `late`: the latest jobs, and causes.
//! - `missing`: what is missing in the trace.

mod budgets;
mod constraints;
mod late;
mod missing;
mod promises;
mod times;

use punctual_model::Duration;
use punctual_sweep::sheet::Value;

use crate::gather::Survey;
use crate::shown;

pub(crate) use budgets::budgets;
pub(crate) use constraints::constraints;
pub(crate) use late::{by_cause, latest};
pub(crate) use missing::missing;
pub(crate) use promises::{Tally, promises, promises_and_fates, tally};
pub(crate) use times::{histogram, times};

/// Returns the name of the subject at this place, as it is shown.
pub(crate) fn name(survey: &Survey, subject: u32) -> String {
    survey
        .subjects
        .all()
        .get(subject as usize)
        .map_or_else(|| "?".into(), |of| shown::name(&of.name))
}

/// Returns the places of subjects that have jobs or are named, in order.
fn places(survey: &Survey) -> std::ops::Range<u32> {
    // There are at most as many as there are places.
    0..survey.subjects.all().len() as u32
}

fn time(time: Option<Duration>) -> Value {
    Value::Time(time.map(Duration::as_nanos))
}

fn count(count: u64) -> Value {
    Value::Count(usize::try_from(count).unwrap_or(usize::MAX))
}
