//! Tabulates response times and wake-up latencies.

use std::collections::BTreeMap;

use punctual_model::Duration;
use punctual_sweep::sheet::{Sheet, Value};

use super::{count, name, places, time};
use crate::gather::{Measured, Survey, Times, bucket_start};

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
