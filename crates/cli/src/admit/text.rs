//! The answer for a person.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use punctual_analysis::mapping::Mapping;
use punctual_analysis::{EntryBound, Grant, Refusal, Sensitivity, TestReport};
use punctual_model::Contract;

use super::json::mappings;
use super::{Explanation, timetable};
use punctual::host::Stamp;

const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();

/// Tables and the verdict. Styles are in it; whoever prints it strips them if need be.
pub(super) fn page(
    contract: &Contract,
    answer: &Result<Grant, Box<Refusal>>,
    explanation: Option<&Explanation>,
    stamp: &Stamp,
) -> String {
    let (tasks, channels, tests) = match answer {
        Ok(grant) => (granted_tasks(grant), granted_channels(grant), &grant.tests[..]),
        Err(refusal) => (
            bounds("task", "response time ≤", "deadline", &refusal.tasks),
            bounds("channel", "delay ≤", "delay bound", &refusal.channels),
            &refusal.tests[..],
        ),
    };
    let mut page = String::new();
    if explanation.is_some() {
        derivations(&mut page, mappings(answer));
    }
    let room = explanation.and_then(|more| more.room.as_ref());
    let reservations = reservations(contract, answer);
    let timetable = room.and_then(|room| timetable::page(&room.timetable));
    let grown = room.and_then(|room| could_grow(&room.growth));
    let tables = [tasks, channels, reservations, timetable, test_table(tests), grown];
    for table in tables.into_iter().flatten() {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "{table}\n");
    }
    let undecided = room.map_or(0, |room| room.growth.undecided);
    if undecided > 0 {
        let _ = writeln!(
            page,
            "of {undecided} more numbers it was not found within the bound on the analysis how far they \
             could go\n"
        );
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
    let _ = writeln!(page, "{}", stamp.line());
    page
}

/// What each stream became, with the arithmetic.
fn derivations(page: &mut String, mappings: &[Mapping]) {
    for mapping in mappings {
        let _ = writeln!(page, "stream \"{}\"", mapping.stream);
        for line in &mapping.arithmetic {
            let _ = writeln!(page, "  {line}");
        }
        page.push('\n');
    }
}

pub(super) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_header(header.iter().copied());
    table
}

/// Numbers to the right.
pub(super) fn align_right(table: &mut Table, columns: impl IntoIterator<Item = usize>) {
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

fn granted_channels(grant: &Grant) -> Option<Table> {
    let mut table = table(&["channel", "CPU", "rank", "delay ≤", "delay bound", "buffer, B"]);
    for channel in &grant.channels {
        table.add_row([
            channel.name.clone(),
            channel.cpu.to_string(),
            channel.rank.to_string(),
            channel.proven_delay.to_string(),
            channel.delay_bound.to_string(),
            channel.buffer.to_string(),
        ]);
    }
    align_right(&mut table, 1..=5);
    (!grant.channels.is_empty()).then_some(table)
}

/// What is known of the entries of a contract that was refused.
fn bounds(kind: &str, bound: &str, asked: &str, entries: &[EntryBound]) -> Option<Table> {
    let mut table = table(&[kind, bound, asked, "slack"]);
    for entry in entries {
        let bound = entry.bound.map_or("none".into(), |bound| bound.to_string());
        table.add_row([entry.name.clone(), bound, entry.asked.to_string(), slack(entry)]);
    }
    align_right(&mut table, 1..=3);
    (!entries.is_empty()).then_some(table)
}

fn slack(entry: &EntryBound) -> String {
    match entry.bound {
        None => "none".into(),
        Some(bound) if bound > entry.asked => format!("-{}", bound - entry.asked),
        Some(bound) => (entry.asked - bound).to_string(),
    }
}

/// How far each number could go, all others as they are.
fn could_grow(growth: &Sensitivity) -> Option<Table> {
    let mut table = table(&["entry", "number", "is", "could be"]);
    for offer in &growth.numbers {
        let name = format!("{} {}", offer.kind.name(), offer.entry);
        let (is, to) = (offer.old_amount().to_string(), offer.amount().to_string());
        table.add_row([name.trim_end(), offer.axis.name(), &is, &to]);
    }
    align_right(&mut table, 2..=3);
    (!growth.numbers.is_empty()).then_some(table)
}

fn reservations(contract: &Contract, answer: &Result<Grant, Box<Refusal>>) -> Option<Table> {
    let mut table = table(&["reservation", "CPU", "budget", "period"]);
    for (at, named) in contract.reservations.iter().enumerate() {
        let granted = answer.as_ref().ok().and_then(|grant| grant.reservations.get(at));
        table.add_row([
            named.name.clone(),
            granted.map_or("-".into(), |granted| match granted.host_cpu {
                None => granted.cpu.to_string(),
                Some(cpu) => format!("the host's {cpu}"),
            }),
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
