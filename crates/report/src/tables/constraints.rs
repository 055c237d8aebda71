//! Tabulates time constraints: requested, answered, kept.

use punctual_sweep::sheet::{Sheet, Value};

use super::{count, name, places, time};
use crate::gather::Survey;

/// Returns a row for each subject that requested any.
pub(crate) fn constraints(survey: &Survey) -> Sheet {
    let row = |place: u32| {
        let of = &survey.measured[place as usize].constraints;
        let judged = &survey.judged[place as usize];
        (of.all() > 0).then(|| {
            vec![
                Value::Text(name(survey, place)),
                count(of.all()),
                count(of.refused),
                count(of.granted),
                count(judged.late),
                time((judged.late > 0).then_some(judged.max_tardiness)),
                Value::Time(Some(of.largest_estimate.as_nanos())),
                time(of.shortest),
            ]
        })
    };
    Sheet {
        name: "constraints",
        columns: &[
            ("subject", "subject"),
            ("asked", "asked for"),
            ("refused", "refused"),
            ("granted", "granted"),
            ("missed", "not ended in time"),
            ("max_tardiness_ns", "latest by"),
            ("largest_estimate_ns", "estimate, at most"),
            ("shortest_ns", "from start to deadline, at least"),
        ],
        rows: places(survey).filter_map(row).collect(),
    }
}
