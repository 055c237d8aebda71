//! The outcomes as a table for a person.

use comfy_table::{Cell, CellAlignment, Table, presets};
use punctual_model::Duration;

use super::Outcomes;

pub(super) fn page(
    outcomes: &[Outcomes],
    until: Duration,
    seed: Option<u64>,
    admitted: bool,
) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header([
        "task",
        "CPU",
        "jobs",
        "late",
        "gave way",
        "worst response",
        "proven bound",
        "relative deadline",
    ]);
    let time =
        |nanos: Option<u64>| nanos.map_or("-".into(), |n| Duration::from_nanos(n).to_string());
    for entry in outcomes {
        table.add_row([
            Cell::new(&entry.name),
            Cell::new(entry.cpu),
            Cell::new(entry.jobs),
            Cell::new(entry.late),
            Cell::new(entry.gave_way),
            Cell::new(time(entry.max_response_time_ns)),
            Cell::new(time(entry.response_time_bound_ns)),
            Cell::new(time(Some(entry.relative_deadline_ns))),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let late: u64 = outcomes.iter().map(|entry| entry.late).sum();
    let jobs: u64 = outcomes.iter().map(|entry| entry.jobs).sum();
    let arrivals = match seed {
        None => "released together at the critical instant".to_owned(),
        Some(seed) => format!("drawn with seed {seed}"),
    };
    let answer = if admitted { "admits" } else { "refuses" };
    format!(
        "{table}\n\n{late} of {jobs} jobs late in {until} of virtual time, {arrivals}; admission \
         {answer} this contract\n"
    )
}
