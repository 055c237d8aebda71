//! Renders the answer for a person.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use punctual_analysis::mapping::Mapping;
use punctual_analysis::{EntryBound, Grant, Refusal, Sensitivity, TestReport};
use punctual_model::{Contract, Duration};

use punctual::admission::{Answer, TimetableRow};

const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();

/// The number of tasks and of channels that are shown without `--all`: those with the least slack.
const FEW: usize = 20;

/// Returns the verdict, then tables of tasks and channels: all rows if `all`, else those with the
/// least slack. The text contains styles, which printing strips if need be.
pub(super) fn page(answer: &Answer, all: bool) -> String {
    let Answer { contract, outcome, explanation, host_profile, .. } = answer;
    let few = if all { usize::MAX } else { FEW };
    let (tasks, channels, tests) = match outcome {
        Ok(grant) => (granted_tasks(grant, few), granted_channels(grant, few), &grant.tests[..]),
        Err(refusal) => (
            bounds(("task", "response time ≤", "deadline"), &refusal.tasks, few),
            bounds(("channel", "delay ≤", "delay bound"), &refusal.channels, few),
            &refusal.tests[..],
        ),
    };
    let mut page = verdict(contract, outcome);
    let _ = writeln!(page, "{}\n", host_profile.line());
    if explanation.is_some() {
        derivations(&mut page, answer.mappings());
    }
    let room = explanation.as_ref().and_then(|more| more.room.as_ref());
    let reservations = reservations(contract, outcome);
    let timetable = room.and_then(|room| timetable(&room.timetable));
    let grown = room.and_then(|room| could_grow(&room.growth));
    let text = |table: Option<Table>| table.map(|table| table.to_string());
    let tests = test_table(tests);
    let [reservations, timetable, tests, grown] = [reservations, timetable, tests, grown].map(text);
    let tables = [tasks, channels, reservations, timetable, tests, grown];
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
    page.truncate(page.trim_end().len());
    page + "\n"
}

fn verdict(contract: &Contract, answer: &Result<Grant, Box<Refusal>>) -> String {
    match answer {
        Ok(_) => {
            let (policy, cpus) = (contract.policy.name(), contract.cpus);
            let noun = if cpus == 1 { "CPU" } else { "CPUs" };
            format!("{GOOD}admitted{GOOD:#} under {policy} on {cpus} {noun}\n")
        }
        Err(refusal) => {
            let sentence = refusal.to_string();
            // The first word is the verdict.
            let rest = sentence.strip_prefix("refused").unwrap_or(&sentence);
            format!("{BAD}refused{BAD:#}{rest}\n")
        }
    }
}

/// Writes the derivation of each stream, with the arithmetic.
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

/// Aligns columns of numbers to the right.
pub(super) fn align_right(table: &mut Table, columns: impl IntoIterator<Item = usize>) {
    for column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// Returns a table of entries in ascending order of slack. If some are left out, a line below it
/// says so. An entry without a bound has no slack.
fn tightest(
    kind: &str,
    header: &[&str],
    mut rows: Vec<(Option<i64>, Vec<String>)>,
    few: usize,
) -> Option<String> {
    if rows.is_empty() {
        return None;
    }
    let count = rows.len();
    if count > few {
        rows.sort_by_key(|(slack, _)| *slack);
        rows.truncate(few);
    }
    let mut table = table(header);
    for (_, row) in rows {
        table.add_row(row);
    }
    align_right(&mut table, 1..header.len());
    let rest = format!("\nthe {few} of {count} {kind}s with the least slack; --all shows all");
    Some(if count > few { format!("{table}{rest}") } else { table.to_string() })
}

/// Returns the nanoseconds from `bound` to `asked`, negative if `bound` is the later.
fn slack_ns(bound: Duration, asked: Duration) -> i64 {
    // Times are at most a few years, so they fit.
    let [bound, asked] = [bound, asked].map(|time| time.as_nanos().cast_signed());
    asked.saturating_sub(bound)
}

fn granted_tasks(grant: &Grant, few: usize) -> Option<String> {
    let rows = grant.tasks.iter().map(|task| {
        let row = vec![
            task.name.clone(),
            task.cpu.to_string(),
            task.response_time_bound.to_string(),
            task.relative_deadline.to_string(),
            task.slack.to_string(),
        ];
        (Some(slack_ns(task.response_time_bound, task.relative_deadline)), row)
    });
    let header = ["task", "CPU", "response time ≤", "deadline", "slack"];
    tightest("task", &header, rows.collect(), few)
}

fn granted_channels(grant: &Grant, few: usize) -> Option<String> {
    let rows = grant.channels.iter().map(|channel| {
        let row = vec![
            channel.name.clone(),
            channel.cpu.to_string(),
            channel.rank.to_string(),
            channel.proven_delay.to_string(),
            channel.delay_bound.to_string(),
            channel.buffer.to_string(),
        ];
        (Some(slack_ns(channel.proven_delay, channel.delay_bound)), row)
    });
    let header = ["channel", "CPU", "rank", "delay ≤", "delay bound", "buffer, B"];
    tightest("channel", &header, rows.collect(), few)
}

/// Returns what is known of the entries of a refused contract.
fn bounds(
    (kind, bound, asked): (&str, &str, &str),
    entries: &[EntryBound],
    few: usize,
) -> Option<String> {
    let rows = entries.iter().map(|entry| {
        let bound = entry.bound.map_or("none".into(), |bound| bound.to_string());
        let row = vec![entry.name.clone(), bound, entry.asked.to_string(), slack(entry)];
        (entry.bound.map(|bound| slack_ns(bound, entry.asked)), row)
    });
    tightest(kind, &[kind, bound, asked, "slack"], rows.collect(), few)
}

fn slack(entry: &EntryBound) -> String {
    match entry.bound {
        None => "none".into(),
        Some(bound) if bound > entry.asked => format!("-{}", bound - entry.asked),
        Some(bound) => (entry.asked - bound).to_string(),
    }
}

/// Returns how far each number could go while all others stay as they are.
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
    let granted = |at: usize| answer.as_ref().ok().and_then(|grant| grant.reservations.get(at));
    let within = |at: usize| granted(at).and_then(|granted| granted.job_within);
    let any_served = (0..contract.reservations.len()).any(|at| within(at).is_some());
    let header = ["reservation", "CPU", "budget", "period", "each job within"];
    let columns = if any_served { 5 } else { 4 };
    let mut table = table(&header[..columns]);
    for (at, named) in contract.reservations.iter().enumerate() {
        let granted = granted(at);
        let row = [
            named.name.clone(),
            granted.map_or("-".into(), |granted| match granted.host_cpu {
                None => granted.cpu.to_string(),
                Some(cpu) => format!("the host's {cpu}"),
            }),
            named.reservation.budget().to_string(),
            named.reservation.period().to_string(),
            within(at).map_or("-".into(), |within| within.to_string()),
        ];
        table.add_row(&row[..columns]);
    }
    align_right(&mut table, 1..columns);
    (!contract.reservations.is_empty()).then_some(table)
}

fn test_table(tests: &[TestReport]) -> Option<Table> {
    let mut table = table(&["test", "admits", "because"]);
    // Reasons are sentences, so they are wrapped to fit an ordinary terminal.
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(100);
    for test in tests {
        let admits = if test.admits { "yes" } else { "no" };
        table.add_row([test.name, admits, &test.why]);
    }
    (!tests.is_empty()).then_some(table)
}

/// Returns the reservations as a timetable, or `None` without reservations.
fn timetable(rows: &[TimetableRow]) -> Option<Table> {
    let header =
        ["in a timetable", "CPU", "gets", "every", "longest gap", "of the CPU, ppm", "above X/Y"];
    let mut table = table(&header);
    for TimetableRow { reservation, cpu, share, why } in rows {
        let time = |nanos: u64| Duration::from_nanos(nanos).to_string();
        let numbers = match (share, why) {
            (Some(share), _) => [
                time(share.budget_ns),
                time(share.period_ns),
                time(share.longest_gap_ns),
                share.bandwidth_ppm.to_string(),
                share.above_x_over_y_ppm.to_string(),
            ],
            (None, why) => {
                let why = why.clone().unwrap_or_default();
                [why, "-".into(), "-".into(), "-".into(), "-".into()]
            }
        };
        table.add_row([vec![reservation.clone(), cpu.to_string()], numbers.into()].concat());
    }
    align_right(&mut table, 1..=6);
    (!rows.is_empty()).then_some(table)
}
