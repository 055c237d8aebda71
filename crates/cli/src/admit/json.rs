//! The answer for a program. Field names are part of the interface.

use punctual_analysis::{Grant, Refusal, TestReport};
use punctual_model::{Contract, Duration};
use serde::Serialize;

#[derive(Serialize)]
struct Page<'a> {
    admitted: bool,
    tasks: Vec<Task<'a>>,
    tests: Vec<Test<'a>>,
    reservations: Vec<Reservation<'a>>,
    refusal: Option<Refused<'a>>,
}

#[derive(Serialize)]
struct Task<'a> {
    name: &'a str,
    /// Null: there is none, or none was found.
    response_time_bound_ns: Option<u64>,
    relative_deadline_ns: u64,
    /// Null without a bound; negative where the bound is beyond the deadline.
    slack_ns: Option<i64>,
}

#[derive(Serialize)]
struct Test<'a> {
    name: &'a str,
    admits: bool,
    why: &'a str,
}

#[derive(Serialize)]
struct Reservation<'a> {
    name: &'a str,
    budget_ns: u64,
    period_ns: u64,
}

#[derive(Serialize)]
struct Refused<'a> {
    test: &'a str,
    /// The task or reservation that failed the test; null if it is about neither.
    task: Option<&'a str>,
    /// Null where there is no finite number.
    shortfall_ns: Option<u64>,
    message: String,
    counter_offer: Option<Offer<'a>>,
}

#[derive(Serialize)]
struct Offer<'a> {
    /// The task or reservation to change.
    task: &'a str,
    /// Of a reservation: the budget. Null: no wcet was found to fit.
    wcet_ns: Option<u64>,
    /// Null: no period was found to fit.
    period_ns: Option<u64>,
}

/// One JSON object and a line end.
pub(super) fn page(contract: &Contract, answer: &Result<Grant, Refusal>) -> String {
    let page = Page {
        admitted: answer.is_ok(),
        tasks: match answer {
            Ok(grant) => grant
                .tasks
                .iter()
                .map(|task| Task {
                    name: &task.name,
                    response_time_bound_ns: Some(task.response_time_bound.as_nanos()),
                    relative_deadline_ns: task.relative_deadline.as_nanos(),
                    slack_ns: i64::try_from(task.slack.as_nanos()).ok(),
                })
                .collect(),
            Err(refusal) => refusal
                .tasks
                .iter()
                .map(|task| Task {
                    name: &task.name,
                    response_time_bound_ns: task.response_time_bound.map(Duration::as_nanos),
                    relative_deadline_ns: task.relative_deadline.as_nanos(),
                    slack_ns: task.slack_ns().and_then(|slack| i64::try_from(slack).ok()),
                })
                .collect(),
        },
        tests: tests(answer).iter().map(test).collect(),
        reservations: contract
            .reservations
            .iter()
            .map(|named| Reservation {
                name: &named.name,
                budget_ns: named.reservation.budget().as_nanos(),
                period_ns: named.reservation.period().as_nanos(),
            })
            .collect(),
        refusal: answer.as_ref().err().map(refused),
    };
    // Strings and numbers alone: there is nothing in it that JSON cannot say.
    let mut text = serde_json::to_string_pretty(&page).unwrap_or_default();
    text.push('\n');
    text
}

fn tests(answer: &Result<Grant, Refusal>) -> &[TestReport] {
    match answer {
        Ok(grant) => &grant.tests,
        Err(refusal) => &refusal.tests,
    }
}

fn test(report: &TestReport) -> Test<'_> {
    Test { name: report.name, admits: report.admits, why: &report.why }
}

fn refused(refusal: &Refusal) -> Refused<'_> {
    Refused {
        test: refusal.test,
        task: refusal.entry.as_deref(),
        shortfall_ns: refusal.shortfall.map(Duration::as_nanos),
        message: refusal.to_string(),
        counter_offer: refusal.counter_offer.as_ref().map(|offer| Offer {
            task: &offer.entry,
            wcet_ns: offer.work.map(|work| work.as_nanos()),
            period_ns: offer.period.map(Duration::as_nanos),
        }),
    }
}
