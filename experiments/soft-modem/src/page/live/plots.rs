//! One run as plots (Figures 1 to 16 of the study), and as tables.

use punctual_sweep::plot::{Axis, Line, MOST_LINES, Plot, Shape};
use punctual_sweep::sheet::{Sheet, Value};

use super::{Run, Service};
use crate::live::library::report::whole;
use crate::live::report::{BUCKET_NS, ContextReport, Quantiles, Report, pc99};

/// Converts to milliseconds, for drawing only.
fn millis(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

/// Returns the top of the drawing for `heights`; higher points are cut off there.
fn top(heights: impl Iterator<Item = f64>, at_least: f64, at_most: f64) -> f64 {
    (heights.fold(at_least, f64::max) * 1.05).min(at_most)
}

/// Draws interrupt periods and elapsed times of one context (Figures 1, 2, 4, 8, 9, 15).
pub(super) fn services(run: &Run, context: &ContextReport) -> Option<Plot> {
    const HIGHEST_MS: f64 = 30.0;
    let own = || run.services.iter().filter(|service| service.context == context.context);
    let last = own().map(|service| millis(service.at_ns)).fold(0.0, f64::max);
    own().next()?;
    let highest = top(
        own().map(|one| millis(one.elapsed_ns.max(one.since_ns.unwrap_or(0)))),
        millis(pc99::PERIOD.1),
        HIGHEST_MS,
    );
    let limit = |name: &str, ns: u64| Line {
        name: name.into(),
        points: vec![Some((0.0, millis(ns))), Some((last, millis(ns)))],
    };
    let line = |name: &str, height: &dyn Fn(&Service) -> Option<u64>| Line {
        name: name.into(),
        points: own()
            .map(|one| Some((millis(one.at_ns), millis(height(one)?).min(highest))))
            .collect(),
    };
    Some(Plot {
        title: format!("{}: between services, and elapsed in each", context.context),
        description: format!(
            "Milliseconds from one service to the next and elapsed in each, against the time of the \
             call, for {}. Longer ones than {highest:.0} ms are cut there.",
            context.words
        ),
        x: Axis::new("time of the call, ms", 0.0, last),
        y: Axis::new("ms", 0.0, highest),
        shape: Shape::Lines(vec![
            line("since the service before", &|one| one.since_ns),
            line("elapsed", &|one| Some(one.elapsed_ns)),
            limit("PC 99: interrupts at least 3 ms apart", pc99::PERIOD.0),
            limit("PC 99: interrupts at most 16 ms apart", pc99::PERIOD.1),
            limit("PC 99: deferred calls", pc99::DEFERRED),
            limit("PC 99: interrupts off", pc99::INTERRUPT),
        ]),
    })
}

/// Draws the samples pending after each service (Figures 5 to 7, 14).
pub(super) fn pending(run: &Run) -> Option<Plot> {
    const RING: f64 = 512.0;
    let contexts = run.report.contexts.iter().filter(|context| context.driver.is_some());
    let line = |context: &ContextReport| {
        let own = run.services.iter().filter(|service| service.context == context.context);
        let point = |one: &Service| Some((millis(one.at_ns), (one.pending as f64).min(RING)));
        Line { name: context.context.clone(), points: own.map(point).collect() }
    };
    let lines: Vec<Line> = contexts.take(MOST_LINES).map(line).collect();
    let points = || lines.iter().flat_map(|line| line.points.iter().flatten());
    points().next()?;
    let last = points().map(|(x, _)| *x).fold(0.0, f64::max);
    let highest = top(points().map(|(_, y)| *y), 1.0, RING);
    Some(Plot {
        title: "Samples pending after each service".into(),
        description: "Samples that came while a service ran, against the time of the call, a line \
                      for each context. At 512 a card's ring wraps; more is cut there."
            .into(),
        x: Axis::new("time of the call, ms", 0.0, last),
        y: Axis::new("samples", 0.0, highest),
        shape: Shape::Lines(lines),
    })
}

/// Draws the gaps of a 1 ms callback (Figures 10 to 13, 16): not as the study's histograms, seven
/// of which would hide each other, but summed up from the longest.
pub(super) fn gaps(report: &Report) -> Option<Plot> {
    const LONGEST_MS: f64 = 6.0;
    let with = report.contexts.iter().filter(|context| !context.gaps.is_empty());
    let line = |context: &ContextReport| {
        let mut left: u64 = context.gaps.iter().map(|(_, count)| count).sum();
        let mut points = vec![Some((0.0, height(left)))];
        for &(bucket, count) in &context.gaps {
            let (from, to) = (millis(bucket * BUCKET_NS), millis((bucket + 1) * BUCKET_NS));
            if to > LONGEST_MS {
                break;
            }
            points.push(Some((from, height(left))));
            left -= count;
            points.push(Some((to, height(left))));
        }
        if left > 0 {
            points.push(Some((LONGEST_MS, height(left))));
        }
        Line { name: context.context.clone(), points }
    };
    let lines: Vec<Line> = with.take(MOST_LINES).map(line).collect();
    let heights = || lines.iter().flat_map(|line| line.points.iter().flatten()).map(|(_, y)| *y);
    heights().next()?;
    Some(Plot {
        title: "Between two wake-ups of a 1 ms callback at top priority".into(),
        description: format!(
            "How many wake-ups came so long after the one before, or longer, as powers of ten, a line \
             for each context; a line at the right edge goes on beyond {LONGEST_MS} ms, where the table \
             has the longest."
        ),
        x: Axis::new("since the wake-up before, ms", 0.0, LONGEST_MS),
        y: Axis::new("wake-ups, powers of ten", 0.0, heights().fold(0.5, f64::max) * 1.05),
        shape: Shape::Lines(lines),
    })
}

/// Returns a count as a power of ten; zero and one are at the bottom.
fn height(count: u64) -> f64 {
    (count.max(1) as f64).log10()
}

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
