//! The report as tables: for the terminal, and for the page.

use punctual_sweep::sheet::{Sheet, Value};

use super::super::report::Quantiles;
use super::report::{ContextReport, ModemReport, ModemSize, Report};

/// Returns the whole report as text for a terminal.
pub fn text(report: &Report) -> String {
    let mut page = format!(
        "{}\nDriver and callback on CPU {}; {} competitors a CPU; seed {}. At each interrupt the driver \
         serves a line of each modem:\n",
        report.host, report.cpu, report.competitors_per_cpu, report.seed,
    );
    for size in &report.modems {
        page += &format!("{}\n", size.words());
    }
    for context in &report.contexts {
        if let Some(why) = &context.why_not {
            page += &format!("{}: not run: {why}\n", context.context);
        }
    }
    format!(
        "{page}\nThe library's modems: the driver\n{}\n\nThe library's modems: each line\n{}\n",
        drivers(report).to_table(),
        lines(report).to_table(),
    )
}

impl ModemSize {
    /// Describes the work of its line, in a sentence.
    pub fn words(&self) -> String {
        format!(
            "{}: a file of {} bytes; the modem takes {:.1} µs an interrupt, with its far end {:.1}; \
             {} more modems do its work again.",
            self.modem,
            self.bytes,
            self.modem_ns as f64 / 1e3,
            self.line_ns as f64 / 1e3,
            self.echoes,
        )
    }
}

/// Rounds to microseconds: more digits are noise.
fn micros(quantiles: Option<Quantiles>, which: fn(Quantiles) -> u64) -> Value {
    whole(quantiles.map(|q| (which(q) + 500) / 1_000))
}

fn millis(nanos: Option<u64>) -> Value {
    whole(nanos.map(|nanos| (nanos + 500_000) / 1_000_000))
}

/// Returns a number, or a dash if there is none.
pub fn whole(number: Option<u64>) -> Value {
    number.map_or_else(
        || Value::Text("-".into()),
        |number| Value::Count(usize::try_from(number).unwrap_or(usize::MAX)),
    )
}

fn ran(report: &Report) -> impl Iterator<Item = &ContextReport> {
    report.contexts.iter().filter(|context| context.why_not.is_none())
}

/// Returns a row for each context.
pub fn drivers(report: &Report) -> Sheet {
    let row = |context: &ContextReport| {
        vec![
            Value::Text(context.context.clone()),
            Value::Text(format!("{:.1}", context.cpu_percent)),
            micros(context.elapsed, |q| q.p50_ns),
            micros(context.elapsed, |q| q.p99_ns),
            micros(context.elapsed, |q| q.max_ns),
            whole(Some(context.missed)),
            micros(context.wakeup_latency, |q| q.p99_ns),
            micros(context.wakeup_latency, |q| q.max_ns),
            micros(context.callback_latency, |q| q.p99_ns),
            micros(context.callback_latency, |q| q.max_ns),
            whole(context.stolen_ms),
        ]
    };
    Sheet {
        name: "library",
        columns: &[
            ("context", "driver runs as"),
            ("cpu_percent", "CPU, %"),
            ("elapsed_p50_us", "service, µs p50"),
            ("elapsed_p99_us", "p99"),
            ("elapsed_max_us", "max"),
            ("missed", "missed"),
            ("wakeup_p99_us", "woken late, µs p99"),
            ("wakeup_max_us", "max"),
            ("callback_p99_us", "callback late, µs p99"),
            ("callback_max_us", "max"),
            ("stolen_ms", "stolen, ms"),
        ],
        rows: ran(report).map(row).collect(),
    }
}

/// Returns a row for each modem in each context.
pub fn lines(report: &Report) -> Sheet {
    let row = |context: &ContextReport, modem: &ModemReport| {
        vec![
            Value::Text(context.context.clone()),
            Value::Text(modem.modem.clone()),
            millis(modem.connected_ns),
            millis(modem.took_ns),
            Value::Count(modem.arrived),
            whole(Some(modem.samples_lost)),
            whole(Some(modem.stale_samples)),
            whole(Some(modem.most_pending)),
            micros(modem.elapsed, |q| q.p50_ns),
            micros(modem.elapsed, |q| q.max_ns),
        ]
    };
    let rows =
        ran(report).flat_map(|context| context.modems.iter().map(move |modem| row(context, modem)));
    Sheet {
        name: "library-lines",
        columns: &[
            ("context", "driver runs as"),
            ("modem", "modem"),
            ("connected_ms", "CONNECT after, ms"),
            ("took_ms", "file took, ms"),
            ("arrived", "bytes came"),
            ("samples_lost", "samples lost"),
            ("stale_samples", "played twice"),
            ("most_pending", "most pending"),
            ("elapsed_p50_us", "its part, µs p50"),
            ("elapsed_max_us", "max"),
        ],
        rows: rows.collect(),
    }
}
