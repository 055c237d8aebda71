//! How the programs of a contract ended and what they used, for a person.

use comfy_table::{CellAlignment, Table, presets};
use punctual_model::Service;

use super::summary::{ended, seconds};
use super::usage::{Ran, Reserved};

/// Columns that are texts; the others are numbers.
const TEXTS: usize = 4;

/// One row a program.
pub(super) fn of<'a>(programs: impl Iterator<Item = (&'a str, &'a Ran)>) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_header([
        "command",
        "reservation",
        "held by",
        "ended",
        "ran, s",
        "used of it, s",
        "of what was offered",
        "outside, s",
        "periods",
        "slots",
        "left behind",
    ]);
    for (name, ran) in programs {
        let reserved = ran.reserved.as_ref();
        let time =
            |of: Option<Service>| of.map_or("-".to_owned(), |time| seconds(time.as_secs_f64()));
        let outside = match reserved {
            None => Some(ran.exec_time),
            Some(reserved) => reserved.outside,
        };
        let percent = reserved.and_then(Reserved::percent);
        let slots = reserved.and_then(|reserved| reserved.slots);
        table.add_row([
            name.to_owned(),
            reserved.map_or("-".into(), |reserved| {
                let terms = &reserved.terms;
                format!("{} {}", terms.reservation, terms.enforcement.name())
            }),
            reserved.map_or("-".into(), |reserved| {
                let by = match reserved.terms.broker.as_ref().and_then(|through| through.grant) {
                    Some(grant) => format!("broker, grant {grant}"),
                    None => reserved.terms.choice.backend.name().to_owned(),
                };
                reserved.terms.cpu.map_or(by.clone(), |cpu| format!("{by}, CPU {cpu}"))
            }),
            ended(ran.ended.status),
            seconds(ran.wall.as_secs_f64()),
            time(reserved.and_then(|reserved| reserved.inside)),
            percent.map_or("-".into(), |percent| format!("{percent:.1} %")),
            time(outside),
            reserved.map_or("-".into(), |reserved| reserved.periods.to_string()),
            slots.map_or("-".into(), |slots| slots.to_string()),
            ran.set_free.to_string(),
        ]);
    }
    for column in table.column_iter_mut().skip(TEXTS) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}
