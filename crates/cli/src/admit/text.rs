//! The answer for a person.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use punctual_analysis::{Grant, Refusal, TaskBound, TestReport};
use punctual_model::Contract;

const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();

/// Tables and the verdict. Styles are in it; whoever prints it strips them if need be.
pub(super) fn page(contract: &Contract, answer: &Result<Grant, Refusal>) -> String {
    let (tasks, tests) = match answer {
        Ok(grant) => (granted_tasks(grant), &grant.tests[..]),
        Err(refusal) => (refused_tasks(refusal), &refusal.tests[..]),
    };
    let mut page = String::new();
    for table in [tasks, reservations(contract, answer), test_table(tests)].into_iter().flatten() {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "{table}\n");
    }
    let _ = match answer {
        Ok(_) => {
            let (policy, cpus) = (contract.policy.name(), contract.cpus);
            let noun = if cpus == 1 { "CPU" } else { "CPUs" };
            writeln!(page, "{GOOD}admitted{GOOD:#} under {policy} on {cpus} {noun}")
        }
        Err(refusal) => {
            let sentence = refusal.to_string();
            // The first word is the verdict.
            let rest = sentence.strip_prefix("refused").unwrap_or(&sentence);
            writeln!(page, "{BAD}refused{BAD:#}{rest}")
        }
    };
    page
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_header(header.iter().copied());
    table
}

/// Numbers to the right.
fn align_right(table: &mut Table, columns: impl IntoIterator<Item = usize>) {
    for column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

fn granted_tasks(grant: &Grant) -> Option<Table> {
    let mut table = table(&["task", "CPU", "response time ≤", "deadline", "slack"]);
    for task in &grant.tasks {
        table.add_row([
            task.name.clone(),
            task.cpu.to_string(),
            task.response_time_bound.to_string(),
            task.relative_deadline.to_string(),
            task.slack.to_string(),
        ]);
    }
    align_right(&mut table, 1..=4);
    (!grant.tasks.is_empty()).then_some(table)
}

fn refused_tasks(refusal: &Refusal) -> Option<Table> {
    let mut table = table(&["task", "response time ≤", "deadline", "slack"]);
    for task in &refusal.tasks {
        let bound = task.response_time_bound.map_or("none".into(), |bound| bound.to_string());
        table.add_row([task.name.clone(), bound, task.relative_deadline.to_string(), slack(task)]);
    }
    align_right(&mut table, 1..=3);
    (!refusal.tasks.is_empty()).then_some(table)
}

fn slack(task: &TaskBound) -> String {
    match task.response_time_bound {
        None => "none".into(),
        Some(bound) if bound > task.relative_deadline => {
            format!("-{}", bound - task.relative_deadline)
        }
        Some(bound) => (task.relative_deadline - bound).to_string(),
    }
}

fn reservations(contract: &Contract, answer: &Result<Grant, Refusal>) -> Option<Table> {
    let mut table = table(&["reservation", "CPU", "budget", "period"]);
    for (at, named) in contract.reservations.iter().enumerate() {
        let granted = answer.as_ref().ok().and_then(|grant| grant.reservations.get(at));
        table.add_row([
            named.name.clone(),
            granted.map_or("-".into(), |granted| granted.cpu.to_string()),
            named.reservation.budget().to_string(),
            named.reservation.period().to_string(),
        ]);
    }
    align_right(&mut table, 1..=3);
    (!contract.reservations.is_empty()).then_some(table)
}

fn test_table(tests: &[TestReport]) -> Option<Table> {
    let mut table = table(&["test", "admits", "because"]);
    // Reasons are sentences: wrapped, so that the table fits an ordinary terminal.
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(100);
    for test in tests {
        let admits = if test.admits { "yes" } else { "no" };
        table.add_row([test.name, admits, &test.why]);
    }
    (!tests.is_empty()).then_some(table)
}
