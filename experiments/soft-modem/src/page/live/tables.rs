//! One run as tables.

use punctual_sweep::sheet::{Sheet, Value};

use crate::live::library::tables::whole;
use crate::live::report::{ContextReport, Quantiles, Report};

/// Rounds to microseconds: more digits are noise.
fn time(of: Option<Quantiles>, which: fn(Quantiles) -> u64) -> Value {
    whole(of.map(|q| (which(q) + 500) / 1_000))
}

pub(super) fn summary(report: &Report) -> Sheet {
    let row = |context: &ContextReport| {
        let driver = context.driver.as_ref();
        let count = whole;
        vec![
            Value::Text(context.context.clone()),
            Value::Text(
                driver.map_or_else(|| "-".into(), |driver| format!("{:.1}", driver.cpu_percent)),
            ),
            count(driver.map(|driver| driver.samples_lost)),
            count(driver.map(|driver| u64::from(driver.lines_intact))),
            count(driver.map(|driver| driver.most_pending_after)),
            count(driver.and_then(|driver| driver.beyond_pc99)),
            time(driver.and_then(|driver| driver.wakeup_latency), |q| q.p99_ns),
            time(driver.and_then(|driver| driver.wakeup_latency), |q| q.max_ns),
            time(context.callback_gap, |q| q.p99_ns),
            time(context.callback_gap, |q| q.max_ns),
            count(context.stolen_ms),
        ]
    };
    Sheet {
        name: "live",
        columns: &[
            ("context", "driver runs as"),
            ("cpu_percent", "CPU, %"),
            ("samples_lost", "samples lost"),
            ("lines_intact", "lines intact"),
            ("most_pending_after", "most pending after"),
            ("beyond_pc99", "beyond PC 99"),
            ("wakeup_p99_us", "woken late, µs p99"),
            ("wakeup_max_us", "max"),
            ("callback_gap_p99_us", "callback: between wake-ups, µs p99"),
            ("callback_gap_max_us", "max"),
            ("stolen_ms", "stolen, ms"),
        ],
        rows: report.contexts.iter().map(row).collect(),
    }
}

pub(super) fn phases(report: &Report) -> Sheet {
    let rows = report.contexts.iter().flat_map(|context| {
        let phases = context.driver.iter().flat_map(|driver| &driver.phases);
        phases.map(|phase| {
            vec![
                Value::Text(context.context.clone()),
                Value::Text(phase.phase.name.clone()),
                Value::Count(phase.services as usize),
                time(phase.period, |q| q.p50_ns),
                time(phase.period, |q| q.max_ns),
                time(phase.elapsed, |q| q.p50_ns),
                time(phase.elapsed, |q| q.p99_ns),
                time(phase.elapsed, |q| q.max_ns),
            ]
        })
    });
    Sheet {
        name: "live-phases",
        columns: &[
            ("context", "driver runs as"),
            ("phase", "phase"),
            ("services", "services"),
            ("period_p50_us", "between services, µs p50"),
            ("period_max_us", "max"),
            ("elapsed_p50_us", "elapsed, µs p50"),
            ("elapsed_p99_us", "p99"),
            ("elapsed_max_us", "max"),
        ],
        rows: rows.collect(),
    }
}
