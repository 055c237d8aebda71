//! Renders the findings for a person.

use comfy_table::{CellAlignment, Table, presets};
use punctual::fit::{Finding, Fit, Found, NoPeriod, NotPeriodic, OfTrial, Period, Trial};
use punctual_model::{Duration, Service};

/// Returns the answer. `quantile` is the percentage of the periods that a budget covers.
pub(super) fn of(answer: &Fit, quantile: f64) -> String {
    let mut page = format!("Watched for {}.\n", rough(answer.watched));
    if answer.findings.is_empty() {
        return page + "No thread ran.\n";
    }
    let (few, enough): (Vec<_>, Vec<_>) =
        answer.findings.iter().partition(|one| is_of_too_few(one));
    if !enough.is_empty() {
        page += &format!("{}\n", table(&enough));
    }
    for finding in &enough {
        page += &one(finding, quantile);
    }
    if !few.is_empty() {
        let names = few.iter().map(|one| format!("{} ({}) {}", one.name, one.tid, one.jobs));
        page += &format!(
            "\nToo few jobs to say, 10 periods are needed: {}\n",
            names.collect::<Vec<_>>().join(", ")
        );
    }
    let any = answer.findings.iter().any(|one| one.proposal.is_some());
    page += &match &answer.trial {
        Trial::Refused(_) => String::new(),
        Trial::NotAsked if any => "\nNot tried: --no-try.\n".to_owned(),
        Trial::None(why) if any => format!("\nNot tried: {why}.\n"),
        Trial::None(_) | Trial::NotAsked => "\nThere is nothing to propose.\n".to_owned(),
        Trial::Tried(tried) => format!(
            "\nTried for {} under {}{}: {}.\n",
            rough(tried.length),
            tried.by,
            if tried.anew { ", the program started anew" } else { "" },
            if answer.findings.iter().all(Finding::is_kept) { "kept" } else { "not kept" }
        ),
    };
    if let Some(objection) = &answer.objection {
        page += &format!("\nThe kernel would refuse it: {objection}.\n");
    }
    if answer.records_lost > 0 {
        page += &format!(
            "\n{} records of the kernel were lost: jobs are missing.\n",
            answer.records_lost
        );
    }
    if !answer.missing.is_empty() {
        page += &format!("\nThis kernel does not tell: {}.\n", answer.missing.join(", "));
    }
    page
}

fn is_of_too_few(finding: &Finding) -> bool {
    matches!(finding.found, Err(NoPeriod::Wakeups(NotPeriodic::TooFew { .. })))
}

fn table(findings: &[&Finding]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header([
        "thread",
        "tid",
        "jobs",
        "period",
        "sure",
        "needs p50",
        "p99",
        "max",
        "late",
    ]);
    for finding in findings {
        let first = finding.found.as_ref().ok().and_then(Found::shortest);
        let needs = |percent| {
            let needed = finding.demand.as_ref().and_then(|demand| demand.quantile(percent));
            needed.map_or_else(|| "-".to_owned(), of_work)
        };
        table.add_row([
            finding.name.clone(),
            finding.tid.to_string(),
            finding.jobs.to_string(),
            first.map_or_else(|| "none".to_owned(), |period| rough(period.period)),
            first.map_or_else(|| "-".to_owned(), |period| format!("{:.2}", period.confidence)),
            needs(50.0),
            needs(99.0),
            needs(100.0),
            first.map_or_else(|| "-".to_owned(), |_| finding.late.to_string()),
        ]);
    }
    for column in 1..9 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn one(finding: &Finding, quantile: f64) -> String {
    let mut text = format!("\n{} ({})\n", finding.name, finding.tid);
    if let Some(why) = finding.why_not_periodic() {
        return text + &format!("  not periodic: {why}\n");
    }
    for period in finding.found.iter().flat_map(|found| &found.periods) {
        text += &of_period(period, finding.by_timers);
    }
    let (Some(proposal), Some(demand)) = (finding.proposal, &finding.demand) else {
        return text + "  no reservation: it needed nothing, or more than a CPU has\n";
    };
    let reservation = proposal.reservation;
    text += &format!(
        "  budget   {} that {} % of the periods needed, {} for two switches, {} margin: {}\n",
        of_work(proposal.demand),
        quantile,
        of_work(proposal.switches),
        of_work(proposal.margin),
        of_work(reservation.budget()),
    );
    text += &format!(
        "           {} of {} periods needed no more than that\n",
        demand.within(reservation.budget()),
        demand.periods(),
    );
    text += &match proposal.divisor {
        1 => format!("  period   {}, its own\n", reservation.period()),
        parts => format!("  period   1/{parts} of its own, for the deadline\n"),
    };
    text +=
        &format!("  reserve  {reservation}, {:.1} % of a CPU\n", 100.0 * reservation.utilisation());
    if let Some(tried) = &finding.tried {
        text += &of_trial(finding, tried);
    }
    text
}

fn of_period(period: &Period, by_timers: f64) -> String {
    let timeline = if period.drifts {
        ", each from the one before (a relative sleep)"
    } else {
        ", on one timeline"
    };
    let by = match by_timers {
        part if part > 0.9 => "by timers",
        part if part < 0.1 => "by others than timers",
        _ => "by timers and others",
    };
    format!(
        "  every    {}{timeline}, woken {by}, {} % of its wake-ups\n  \
           sure     {:.2}: at {:.1} % of these instants one came within {}, where chance gives {:.1} %\n",
        rough(period.period),
        (100.0 * period.explains).round(),
        period.confidence,
        100.0 * period.covered,
        rough(period.tolerance),
        100.0 * period.by_chance,
    )
}

fn of_trial(finding: &Finding, tried: &OfTrial) -> String {
    let mut text = format!(
        "  tried    {} of {} jobs late (before: {} of {}; up to {} count as kept), {:.0} % of the \
         budgets used\n",
        tried.late,
        tried.jobs,
        finding.late,
        finding.jobs,
        tried.allowed,
        100.0 * tried.of_budget,
    );
    if !tried.causes.is_empty() {
        let causes = tried.causes.iter().map(|(cause, jobs)| format!("{cause} {jobs}"));
        text += &format!("           why: {}\n", causes.collect::<Vec<_>>().join(", "));
    }
    text
}

/// Formats a time with three or four digits.
fn rough(time: Duration) -> String {
    let nanos = time.as_nanos();
    let mut unit = 1;
    while nanos / unit >= 10_000 {
        unit *= 10;
    }
    Duration::from_nanos((nanos + unit / 2) / unit * unit).to_string()
}

fn of_work(work: Service) -> String {
    rough(work.at_full_speed())
}
