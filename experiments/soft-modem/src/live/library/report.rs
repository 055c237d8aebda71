//! The results of the library's modems: `library.json` of a results folder, which the page reads
//! again.

use serde::{Deserialize, Serialize};

use super::super::context::Place;
use super::super::report::Quantiles;
use super::super::wakeups::Seen;
use super::modems::MODEMS;
use super::serve::Served;

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
        let modem = |(at, line): (usize, &super::serve::Line)| ModemReport {
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
