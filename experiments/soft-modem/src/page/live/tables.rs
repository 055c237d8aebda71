//! One run as tables.

use punctual_sweep::sheet::{Sheet, Value};

use crate::live::report::{ContextReport, Quantiles, Report};

fn time(of: Option<Quantiles>, which: fn(Quantiles) -> u64) -> Value {
    Value::Time(of.map(which))
}

pub(super) fn summary(report: &Report) -> Sheet {
    let row = |context: &ContextReport| {
        let driver = context.driver.as_ref();
        let tenths = |percent: f64| Value::Share(Some((percent * 10_000.0).round() as u64));
        let absent = || Value::Text("-".into());
        let count = |n: Option<u64>| n.map_or_else(absent, |n| Value::Count(n as usize));
        vec![
            Value::Text(context.context.clone()),
            driver.map_or_else(absent, |driver| tenths(driver.cpu_percent)),
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
            ("cpu_ppm", "CPU"),
            ("samples_lost", "samples lost"),
            ("lines_intact", "lines intact"),
            ("most_pending_after", "most pending after"),
            ("beyond_pc99", "beyond PC 99"),
            ("wakeup_p99_ns", "woken late, p99"),
            ("wakeup_max_ns", "max"),
            ("callback_gap_p99_ns", "callback: between wake-ups, p99"),
            ("callback_gap_max_ns", "max"),
            ("stolen_ms", "stolen by the host, ms"),
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
            ("period_p50_ns", "between services, p50"),
            ("period_max_ns", "max"),
            ("elapsed_p50_ns", "elapsed, p50"),
            ("elapsed_p99_ns", "p99"),
            ("elapsed_max_ns", "max"),
        ],
        rows: rows.collect(),
    }
}
