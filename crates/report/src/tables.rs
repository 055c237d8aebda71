//! Tabulates the results. Each table is on the page and in the JSON:
//!
//! - the promise to each subject and its verdict;
//! - response times and wake-up latencies, their percentiles and histograms;
//! - the use of budgets;
//! - requests for time constraints: requested, answered, kept;
//! - the latest jobs, and the causes of tardiness;
//! - what is missing in the trace, place by place.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use punctual_model::{Duration, Instant, Service};
use punctual_sweep::sheet::{Sheet, Value};
use punctual_trace::check::{Unjudgeable, Verdict};

use crate::gather::{Late, Measured, Survey, Times, bucket_start, counted};
use crate::shown;

const PROMISED: [(&str, &str); 9] = [
    ("subject", "subject"),
    ("kind", "kind"),
    ("verdict", "promise"),
    ("complete", "jobs complete"),
    ("late", "late"),
    ("max_tardiness_ns", "latest by"),
    ("period_ns", "period"),
    ("relative_deadline_ns", "deadline"),
    ("wcet_ns", "work or budget"),
];

const FATES: [(&str, &str); 8] = [
    ("subject", "subject"),
    ("released_too_early", "too early"),
    ("overruns", "went on late"),
    ("skipped", "never begun"),
    ("aborted", "aborted"),
    ("contained", "contained"),
    ("end_not_seen", "end not seen"),
    ("gave_way", "gave way"),
];

/// The columns of both tables, with the subject once.
const ALL: [(&str, &str); 16] = {
    let mut all = [("", ""); 16];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < PROMISED.len() { PROMISED[at] } else { FATES[at + 1 - PROMISED.len()] };
        at += 1;
    }
    all
};

/// The most rows of the list.
const MOST_ROWS: usize = 200;

/// Returns the name of the subject at this place, as it is shown.
pub(crate) fn name(survey: &Survey, subject: u32) -> String {
    survey
        .subjects
        .all()
        .get(subject as usize)
        .map_or_else(|| "?".into(), |of| shown::name(&of.name))
}

/// Returns the places of subjects that have jobs or are named, in order.
fn places(survey: &Survey) -> std::ops::Range<u32> {
    // There are at most as many as there are places.
    0..survey.subjects.all().len() as u32
}

fn time(time: Option<Duration>) -> Value {
    Value::Time(time.map(Duration::as_nanos))
}

fn count(count: u64) -> Value {
    Value::Count(usize::try_from(count).unwrap_or(usize::MAX))
}

/// The numbers of promises that were kept, broken, and not judgeable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) kept: u64,
    pub(crate) broken: u64,
    pub(crate) not_judgeable: u64,
}

pub(crate) fn tally(survey: &Survey) -> Tally {
    let mut tally = Tally::default();
    for judged in &survey.judged {
        match judged.verdict {
            Verdict::Kept => tally.kept += 1,
            Verdict::Broken => tally.broken += 1,
            Verdict::NotJudgeable(_) => tally.not_judgeable += 1,
        }
    }
    tally
}

/// Returns the verdict on the subject at this place, with the reason if there is none.
fn verdict(survey: &Survey, subject: u32) -> String {
    match survey.judged[subject as usize].verdict {
        // The events lost to damage are not known by number.
        Verdict::NotJudgeable(Unjudgeable::Lost { .. }) => {
            let losses = &survey.losses;
            let lost = losses.events.saturating_add(losses.missing_events);
            let missing = match (lost, losses.damages + losses.missing_blocks) {
                (lost, 0) => format!("{} lost", counted(lost, "event")),
                (0, _) => "the file is damaged".into(),
                (lost, _) => format!("{} lost and the file is damaged", counted(lost, "event")),
            };
            format!("not judgeable: {missing}")
        }
        verdict => verdict.to_string(),
    }
}

/// Returns a row for each subject.
pub(crate) fn promises(survey: &Survey) -> Sheet {
    let row = |place: u32| {
        let subject = &survey.subjects.all()[place as usize];
        let judged = &survey.judged[place as usize];
        let measured = &survey.measured[place as usize];
        let promise = subject.promise;
        vec![
            Value::Text(name(survey, place)),
            Value::Text(subject.kind.name().into()),
            Value::Text(verdict(survey, place)),
            count(judged.complete),
            count(judged.late),
            time((judged.late > 0).then_some(judged.max_tardiness)),
            time(promise.period),
            time(promise.relative_deadline),
            Value::Time(promise.wcet.map(Service::as_nanos)),
            count(judged.too_early),
            count(measured.overruns),
            count(measured.skipped),
            count(measured.aborted),
            count(measured.contained),
            count(measured.not_seen),
            count(measured.gave_way),
        ]
    };
    Sheet { name: "promises", columns: &ALL, rows: places(survey).map(row).collect() }
}

/// Returns the same as two tables that fit the width of a page: the promises, and the other fates
/// of jobs for the subjects that have any.
pub(crate) fn promises_and_fates(survey: &Survey) -> [Sheet; 2] {
    let all = promises(survey).rows.into_iter();
    let (mut promised, mut fates) = (Vec::new(), Vec::new());
    for mut row in all {
        let mut fate = row.split_off(PROMISED.len());
        if fate.iter().any(|value| !matches!(value, Value::Count(0))) {
            fate.insert(0, row[0].clone());
            fates.push(fate);
        }
        promised.push(row);
    }
    [
        Sheet { name: "promises", columns: &PROMISED, rows: promised },
        Sheet { name: "fates", columns: &FATES, rows: fates },
    ]
}

/// Returns the percentiles of each, beside the promised and the proven bound.
pub(crate) fn times(survey: &Survey, proven: &BTreeMap<String, Duration>) -> Sheet {
    let mut rows = Vec::new();
    for place in places(survey) {
        let subject = &survey.subjects.all()[place as usize];
        let Measured { response_time, wakeup_latency, .. } = &survey.measured[place as usize];
        let deadline = subject.promise.relative_deadline;
        let proven = proven.get(&subject.name).copied();
        let mut row = |what: &str, times: &Times, deadline, proven| {
            let percentiles =
                [50.0, 90.0, 99.0, 99.9].map(|percent| time(times.percentile(percent)));
            let mut row = vec![
                Value::Text(name(survey, place)),
                Value::Text(what.into()),
                count(times.count()),
            ];
            row.extend(percentiles);
            row.extend([time(times.max()), time(deadline), time(proven)]);
            if times.count() > 0 {
                rows.push(row);
            }
        };
        row("response time", response_time, deadline, proven);
        row("wake-up latency", wakeup_latency, None, None);
    }
    Sheet {
        name: "times",
        columns: &[
            ("subject", "subject"),
            ("what", "what"),
            ("count", "jobs"),
            ("p50_ns", "50 %"),
            ("p90_ns", "90 %"),
            ("p99_ns", "99 %"),
            ("p999_ns", "99.9 %"),
            ("max_ns", "longest"),
            ("relative_deadline_ns", "deadline"),
            ("proven_bound_ns", "proven ≤"),
        ],
        rows,
    }
}

/// Returns the numbers behind the plot of one subject.
pub(crate) fn histogram(measured: &Measured) -> Sheet {
    let mut buckets: BTreeMap<i32, (u64, u64)> = BTreeMap::new();
    for (bucket, jobs) in measured.response_time.buckets() {
        buckets.entry(bucket).or_default().0 = jobs;
    }
    for (bucket, jobs) in measured.wakeup_latency.buckets() {
        buckets.entry(bucket).or_default().1 = jobs;
    }
    let row = |(bucket, (response, wakeup)): (i32, (u64, u64))| {
        vec![
            time(Some(bucket_start(bucket))),
            time(Some(bucket_start(bucket + 1))),
            count(response),
            count(wakeup),
        ]
    };
    Sheet {
        name: "histogram",
        columns: &[
            ("from_ns", "from"),
            ("below_ns", "below"),
            ("response_times", "response times"),
            ("wakeup_latencies", "wake-up latencies"),
        ],
        rows: buckets.into_iter().map(row).collect(),
    }
}

/// Returns a row for each subject with a known budget or wcet.
pub(crate) fn budgets(survey: &Survey) -> Sheet {
    let row = |place: u32| {
        let budget = survey.measured[place as usize].budget.as_deref()?;
        let used = &budget.used;
        let whole = budget.budget.as_nanos();
        let of_budget = |time: Option<punctual_model::Duration>| {
            let millionths = u128::from(time?.as_nanos()) * 1_000_000 / u128::from(whole.max(1));
            u64::try_from(millionths).ok()
        };
        Some(vec![
            Value::Text(name(survey, place)),
            Value::Time(Some(whole)),
            count(used.count()),
            time(used.percentile(50.0)),
            time(used.percentile(99.0)),
            time(used.max()),
            Value::Share(of_budget(used.max())),
            count(budget.beyond),
            count(budget.throttles),
            time(Some(budget.throttled)),
        ])
    };
    Sheet {
        name: "budgets",
        columns: &[
            ("subject", "subject"),
            ("budget_ns", "budget or work"),
            ("jobs", "jobs"),
            ("used_p50_ns", "used: 50 %"),
            ("used_p99_ns", "99 %"),
            ("used_max_ns", "most"),
            ("used_max_ppm", "most, of the budget"),
            ("beyond", "jobs beyond it"),
            ("throttles", "throttled, times"),
            ("throttled_ns", "throttled, in all"),
        ],
        rows: places(survey).filter_map(row).collect(),
    }
}

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

/// Returns the latest jobs, the latest first. Instants count from the first event.
pub(crate) fn latest(survey: &Survey) -> Sheet {
    let since = |at: Instant| time(Some(at.saturating_since(survey.from())));
    let row = |late: &Late| {
        vec![
            Value::Text(name(survey, late.subject)),
            Value::Text(late.index.to_string()),
            since(late.release),
            since(late.deadline),
            time(Some(late.tardiness())),
            Value::Text(main_cause(late)),
        ]
    };
    Sheet {
        name: "late",
        columns: &[
            ("subject", "subject"),
            ("job", "job"),
            ("release_ns", "released at"),
            ("absolute_deadline_ns", "deadline at"),
            ("tardiness_ns", "late by"),
            ("main_cause", "main cause"),
        ],
        rows: survey.late.latest().into_iter().take(MOST_ROWS).map(row).collect(),
    }
}

fn main_cause(late: &Late) -> String {
    let main = late.causes.as_ref().map(|causes| causes.first());
    match main {
        None => "not in the trace".into(),
        Some(None) => "none named".into(),
        Some(Some(cause)) => shown::line(&cause.text),
    }
}

/// Returns the part of all tardiness that each cause has, the largest first.
pub(crate) fn by_cause(survey: &Survey) -> Sheet {
    let causes = &survey.late.by_cause;
    let all: u128 = causes.values().map(|(_, share)| u128::from(share.as_nanos())).sum();
    let mut sorted: Vec<(&String, &(u64, Duration))> = causes.iter().collect();
    sorted.sort_by_key(|(cause, (_, share))| (Reverse(*share), (*cause).clone()));
    let row = |(cause, (jobs, share)): (&String, &(u64, Duration))| {
        let millionths = u128::from(share.as_nanos()) * 1_000_000 / all.max(1);
        vec![
            Value::Text(shown::line(cause)),
            count(*jobs),
            time(Some(*share)),
            Value::Share(u64::try_from(millionths).ok()),
        ]
    };
    Sheet {
        name: "causes",
        columns: &[
            ("cause", "cause"),
            ("main_cause_of", "main cause of"),
            ("share_ns", "tardiness laid to it"),
            ("share_ppm", "of all"),
        ],
        rows: sorted.into_iter().map(row).collect(),
    }
}

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
