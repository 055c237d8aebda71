//! Tabulates the use of budgets.

use punctual_sweep::sheet::{Sheet, Value};

use super::{count, name, places, time};
use crate::gather::Survey;

/// Returns a row for each subject with a known budget or wcet.
pub(crate) fn budgets(survey: &Survey) -> Sheet {
    let row = |place: u32| {
        let budget = survey.measured[place as usize].budget.as_deref()?;
        let used = &budget.used;
        let whole = budget.budget.as_nanos();
        let of_budget = |time: Option<punctual_model::Duration>| {
            let millionths = u128::from(time?.as_nanos()) * 1_000_000 / u128::from(whole.max(1));
            u64::try_from(millionths).ok()
        };
        Some(vec![
            Value::Text(name(survey, place)),
            Value::Time(Some(whole)),
            count(used.count()),
            time(used.percentile(50.0)),
            time(used.percentile(99.0)),
            time(used.max()),
            Value::Share(of_budget(used.max())),
            count(budget.beyond),
            count(budget.throttles),
            time(Some(budget.throttled)),
        ])
    };
    Sheet {
        name: "budgets",
        columns: &[
            ("subject", "subject"),
            ("budget_ns", "budget or work"),
            ("jobs", "jobs"),
            ("used_p50_ns", "used: 50 %"),
            ("used_p99_ns", "99 %"),
            ("used_max_ns", "most"),
            ("used_max_ppm", "most, of the budget"),
            ("beyond", "jobs beyond it"),
            ("throttles", "throttled, times"),
            ("throttled_ns", "throttled, in all"),
        ],
        rows: places(survey).filter_map(row).collect(),
    }
}
