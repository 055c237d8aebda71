//! Tabulates what is missing in the trace, place by place.

use punctual_sweep::sheet::{Sheet, Value};

use super::{count, time};
use crate::gather::Survey;

/// Returns the losses of events and the damages of the file.
pub(crate) fn missing(survey: &Survey) -> Sheet {
    let losses = &survey.losses;
    let lost = losses.lost.iter().map(|(at, events)| {
        vec![
            Value::Text("events lost".into()),
            time(Some(at.saturating_since(survey.from()))),
            Value::Time(None),
            count(*events),
            Value::Text("noticed then: they lie before".into()),
        ]
    });
    let damaged = losses.damaged.iter().map(|(at, damage, bytes)| {
        vec![
            Value::Text("damage".into()),
            Value::Time(None),
            count(*at),
            count(*bytes),
            Value::Text(damage.to_string()),
        ]
    });
    Sheet {
        name: "missing",
        columns: &[
            ("what", "what"),
            ("at_ns", "at"),
            ("at_byte", "at byte"),
            ("amount", "events or bytes"),
            ("why", "what is known"),
        ],
        rows: lost.chain(damaged).collect(),
    }
}
