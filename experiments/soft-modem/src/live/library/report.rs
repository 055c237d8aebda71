//! The results of the library's modems: `library.json` of a results folder, which the page reads
//! again, and tables of them for the terminal and for the page.

use punctual_sweep::sheet::{Sheet, Value};
use serde::{Deserialize, Serialize};

use super::super::context::Place;
use super::super::report::Quantiles;
use super::super::wakeups::Seen;
use super::Served;
use super::modems::MODEMS;

/// The result of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// A description of the machine.
    pub host: String,
    /// The CPU that the driver and the callback were on.
    pub cpu: usize,
    /// Spinning ordinary threads on each CPU.
    pub competitors_per_cpu: usize,
    /// The seed of files and noise.
    pub seed: u64,
    /// The modems.
    pub modems: Vec<ModemSize>,
    /// One report for each context that is a thread.
    pub contexts: Vec<ContextReport>,
}

/// The size of one modem's work.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ModemSize {
    /// Its name.
    pub modem: String,
    /// Bytes of its file.
    pub bytes: usize,
    /// The number of further modems that repeat its work.
    pub echoes: u32,
    /// Processor time of one modem's 100 samples each way.
    pub modem_ns: u64,
    /// The same of a line without echoes: the modem and its far end.
    pub line_ns: u64,
}

/// The results of one context.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ContextReport {
    /// Its name.
    pub context: String,
    /// Its description.
    pub words: String,
    /// The reason why this host cannot run it; then the rest is empty.
    pub why_not: Option<String>,
    /// Interrupts that were served.
    pub services: u64,
    /// Interrupts that came while an earlier one was being served or waited.
    pub missed: u64,
    /// The driver's share of one CPU, in percent.
    pub cpu_percent: f64,
    /// The times from the first to the last instruction of a service.
    pub elapsed: Option<Quantiles>,
    /// The times from due time to first instruction.
    pub wakeup_latency: Option<Quantiles>,
    /// The lateness of the coexisting callback.
    pub callback_latency: Option<Quantiles>,
    /// The times between two of its wake-ups.
    pub callback_gap: Option<Quantiles>,
    /// Processor time that a hypervisor took from all CPUs meanwhile.
    pub stolen_ms: Option<u64>,
    /// The results of each modem.
    pub modems: Vec<ModemReport>,
}

/// The results of one modem in one context.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ModemReport {
    /// Its name.
    pub modem: String,
    /// The time from the start to CONNECT.
    pub connected_ns: Option<u64>,
    /// The time from CONNECT to the last byte, if all arrived correctly.
    pub took_ns: Option<u64>,
    /// Bytes that arrived, right or wrong.
    pub arrived: usize,
    /// Samples that the driver never took.
    pub samples_lost: u64,
    /// Samples played twice because no answer was there in time.
    pub stale_samples: u64,
    /// The largest number of samples that waited; 512 wrap the ring.
    pub most_pending: u64,
    /// The times that its part of a service took.
    pub elapsed: Option<Quantiles>,
}

impl ContextReport {
    /// Creates the report of a context that this host cannot run.
    pub fn absent(name: &str, place: Place, why: String) -> Self {
        Self { why_not: Some(why), ..Self::blank(name, place) }
    }

    fn blank(name: &str, place: Place) -> Self {
        Self {
            context: name.to_owned(),
            words: place.words(),
            why_not: None,
            services: 0,
            missed: 0,
            cpu_percent: 0.0,
            elapsed: None,
            wakeup_latency: None,
            callback_latency: None,
            callback_gap: None,
            stolen_ms: None,
            modems: Vec::new(),
        }
    }

    /// Creates the report of a context that was run.
    pub fn of(name: &str, place: Place, served: &Served, callback: &Seen) -> Self {
        let services = || served.services.iter();
        let late = |s: &super::super::record::Service| {
            s.due.map(|due| s.begin.saturating_since(due).as_nanos())
        };
        let modem = |(at, line): (usize, &super::Line)| ModemReport {
            modem: MODEMS[at].name.to_owned(),
            connected_ns: line.connected_after.map(|after| after.as_nanos()),
            took_ns: line.transferred.took.map(|took| took.as_nanos()),
            arrived: line.transferred.arrived,
            samples_lost: line.card.samples_lost,
            stale_samples: line.card.stale_samples,
            most_pending: line.card.most_pending,
            elapsed: Quantiles::of(served.parts.iter().map(|parts| parts[at])),
        };
        let length = served.length.as_nanos().max(1);
        Self {
            services: served.services.len() as u64,
            missed: served.missed,
            cpu_percent: 100.0 * served.cpu.as_nanos() as f64 / length as f64,
            elapsed: Quantiles::of(services().map(|s| s.elapsed().as_nanos())),
            wakeup_latency: Quantiles::of(services().filter_map(late)),
            callback_latency: Quantiles::of(callback.latencies.iter().copied()),
            callback_gap: Quantiles::of(callback.gaps.iter().copied()),
            modems: served.lines.iter().enumerate().map(modem).collect(),
            ..Self::blank(name, place)
        }
    }
}

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
