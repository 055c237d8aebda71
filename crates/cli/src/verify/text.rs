//! Renders the verdicts for a person.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use punctual::verify::{Evidence, PromiseVerdict, Report};

/// The most causes listed for a broken promise.
const CAUSES: usize = 5;

pub(super) fn of(report: &Report) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(100);
    table.set_header(["promise", "jobs", "late", "latest by", "seen by", "verdict"]);
    for one in &report.promises {
        let verdict = match &one.became {
            PromiseVerdict::Kept => "kept".to_owned(),
            // The number of late jobs is in the columns beside it.
            PromiseVerdict::Broken(_) if one.late > 0 => "broken".to_owned(),
            PromiseVerdict::Broken(why) => format!("broken: {why}"),
            PromiseVerdict::NotJudgeable(why) => format!("not judgeable: {why}"),
        };
        table.add_row([
            format!("{} {}", one.kind, one.name),
            one.jobs.to_string(),
            one.late.to_string(),
            one.max_tardiness.to_string(),
            one.evidence.iter().map(|one| one.name()).collect::<Vec<_>>().join(", "),
            verdict,
        ]);
    }
    for column in 1..4 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut page = format!("{}, {:.1} s:\n{table}\n", report.contract, report.ran.as_secs_f64());
    for one in report.promises.iter().filter(|one| !one.causes.is_empty()) {
        page += &format!("\nWhy jobs of {} {} were late:\n", one.kind, one.name);
        for (cause, jobs) in one.causes.iter().take(CAUSES) {
            page += &format!("{jobs:>8}  {cause}\n");
        }
    }
    let mut used: Vec<Evidence> =
        report.promises.iter().flat_map(|one| one.evidence.iter().copied()).collect();
    used.sort_unstable();
    used.dedup();
    used.retain(|one| matches!(one, Evidence::Synthetic | Evidence::EmulatedLink));
    for one in used {
        page += &format!("\n{}: {}.\n", one.name(), one.text());
    }
    if let Some(status) = report.ended {
        page += &format!("\nThe programs ended by themselves: {status}\n");
    }
    if report.records_lost > 0 {
        page += &format!("\n{} records of the kernel were lost.\n", report.records_lost);
    }
    if !report.missing.is_empty() {
        page += &format!("\nThis kernel does not tell: {}.\n", report.missing.join(", "));
    }
    page
}
