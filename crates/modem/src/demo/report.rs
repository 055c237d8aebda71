//! The results of the calls.

use punctual_model::Instant;
use punctual_trace::{Summary, Times};
use serde::Serialize;

use crate::Bank;

/// The result of one run of the demonstration.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// `live` or `virtual`.
    pub time: &'static str,
    /// The seed of the noise.
    pub seed: u64,
    /// The length of each call.
    pub seconds: f64,
    /// Bytes in the file.
    pub file_bytes: usize,
    /// Lines of the bank.
    pub lines: u32,
    /// Processor time of one line's service: measured (live) or charged (virtual).
    pub time_per_line_ns: u64,
    /// Spinning threads in all.
    pub competitors: usize,
    /// One row for each context.
    pub rows: Vec<Row>,
}

/// One call in one context.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The name of the context.
    pub context: String,
    /// True if this context promises the driver its CPU.
    pub promised: bool,
    /// Bytes of the file that arrived and equal the original.
    pub bytes_intact: usize,
    /// Samples of all lines that no driver ever read.
    pub samples_lost: u64,
    /// The largest number of samples that waited on any line when the driver came.
    pub most_samples_pending: u64,
    /// Lines that still delivered at the end.
    pub lines_delivering: u32,
    /// Samples that any line received twice, because none was written in time.
    pub stale_samples: u64,
    /// Released jobs of the driver.
    pub jobs_released: u64,
    /// Completed jobs of the driver.
    pub jobs: u64,
    /// Jobs completed after their deadline, or incomplete at the end although it had passed.
    pub late_jobs: u64,
    /// The driver's share of one CPU, in percent; absent in virtual time.
    pub cpu_percent: Option<f64>,
    /// The times from release to first instruction of the driver's jobs.
    pub wakeup_latency: Option<Quantiles>,
    /// The same for a coexisting 1 ms callback at top priority; absent in virtual time.
    pub callback_wakeup_latency: Option<Quantiles>,
    /// Processor time that a hypervisor took from all CPUs meanwhile; absent in virtual time.
    pub stolen_ms: Option<u64>,
    /// Events that did not fit into the trace. Unless it is zero the row is incomplete.
    pub events_lost: u64,
}

/// The three quantiles of a distribution that a report shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Quantiles {
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The maximum.
    pub max_ns: u64,
}

impl Quantiles {
    /// Returns the quantiles of `times`, or `None` if there are none.
    pub fn of(times: &Times) -> Option<Self> {
        Some(Self {
            p50_ns: times.percentile(50.0)?.as_nanos(),
            p99_ns: times.percentile(99.0)?.as_nanos(),
            max_ns: times.max()?.as_nanos(),
        })
    }
}

impl Row {
    /// Returns true if the driver was promised its CPU and did not get it: the line lost samples,
    /// or lost events leave the question open.
    pub fn breaks_its_promise(&self) -> bool {
        self.promised && (self.samples_lost + self.stale_samples + self.events_lost) > 0
    }

    /// Builds the row of a call that ended at `end`; `summary` covers only the driver's task.
    pub(crate) fn of(context: String, bank: &Bank, end: Instant, summary: &Summary) -> Self {
        let stats = bank.stats(end);
        let driver = &summary.tasks()[0];
        Self {
            context,
            promised: false,
            bytes_intact: stats.file_line.bytes_intact,
            samples_lost: stats.cards.samples_lost,
            most_samples_pending: stats.cards.most_pending,
            lines_delivering: stats.lines_delivering,
            stale_samples: stats.cards.stale_samples,
            jobs_released: driver.jobs + driver.unfinished,
            jobs: driver.jobs,
            late_jobs: driver.late,
            cpu_percent: None,
            wakeup_latency: Quantiles::of(&driver.wakeup_latency),
            callback_wakeup_latency: None,
            stolen_ms: None,
            events_lost: 0,
        }
    }
}
