//! What was found, as tables: each is on the page and in the JSON.
//!
//! - `promises`: what was promised to whom and what became of it.
//! - `times`: response times and wake-up latencies, their percentiles and histograms.
//! - `budgets`: how budgets were used.
//! - `constraints`: what time constraints were asked for, and what became of them.
//! - `late`: the latest jobs, and causes.
//! - `missing`: what the trace does not tell.

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

/// The name of the subject at this place, as it is shown.
pub(crate) fn name(survey: &Survey, subject: u32) -> String {
    survey
        .subjects
        .all()
        .get(subject as usize)
        .map_or_else(|| "?".into(), |of| shown::name(&of.name))
}

/// Places of subjects that have jobs or are named, in order.
fn places(survey: &Survey) -> std::ops::Range<u32> {
    // At most as many as there are places.
    0..survey.subjects.all().len() as u32
}

fn time(time: Option<Duration>) -> Value {
    Value::Time(time.map(Duration::as_nanos))
}

fn count(count: u64) -> Value {
    Value::Count(usize::try_from(count).unwrap_or(usize::MAX))
}
