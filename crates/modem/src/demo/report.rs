//! What a call amounted to.

use punctual_model::Instant;
use punctual_trace::{Summary, Times};
use serde::Serialize;

use crate::Bank;

/// One run of the experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// `live` or `virtual`.
    pub time: &'static str,
    /// What drew the noise.
    pub seed: u64,
    /// How long each call lasted.
    pub seconds: f64,
    /// Bytes in the file.
    pub file_bytes: usize,
    /// Lines of the bank.
    pub lines: u32,
    /// Processor time of one line's service: measured (live) or charged (virtual).
    pub time_per_line_ns: u64,
    /// Spinning threads in all.
    pub competitors: usize,
    /// One a context.
    pub rows: Vec<Row>,
}

/// One call in one context.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The context in words.
    pub context: String,
    /// Whether this context promises the driver its CPU.
    pub promised: bool,
    /// Bytes of the file that arrived and are the original's.
    pub bytes_intact: usize,
    /// Samples of all lines that no driver ever read.
    pub samples_lost: u64,
    /// The most samples that waited on any line when the driver came.
    pub most_samples_pending: u64,
    /// Lines that still delivered at the end.
    pub lines_delivering: u32,
    /// Samples of all lines that the line heard twice, because none was written in time.
    pub stale_samples: u64,
    /// Jobs of the driver that were released.
    pub jobs_released: u64,
    /// Those of them that were completed.
    pub jobs: u64,
    /// Those completed after their deadline, or not by the end though it had passed.
    pub late_jobs: u64,
    /// The driver's share of one CPU, in percent; absent in virtual time.
    pub cpu_percent: Option<f64>,
    /// From release to first instruction of the driver's jobs.
    pub wakeup_latency: Option<Quantiles>,
    /// The same of a coexisting 1 ms callback at top priority; absent in virtual time.
    pub callback_wakeup_latency: Option<Quantiles>,
    /// Processor time that a hypervisor took from all CPUs meanwhile; absent in virtual time.
    pub stolen_ms: Option<u64>,
    /// Events that did not fit the trace; zero or the row is incomplete.
    pub events_lost: u64,
}

/// The three numbers people look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Quantiles {
    /// Half are at most this.
    pub p50_ns: u64,
    /// 99 in a hundred are at most this.
    pub p99_ns: u64,
    /// None is more than this.
    pub max_ns: u64,
}

impl Quantiles {
    /// Of what was counted; `None` if nothing was.
    pub fn of(times: &Times) -> Option<Self> {
        Some(Self {
            p50_ns: times.percentile(50.0)?.as_nanos(),
            p99_ns: times.percentile(99.0)?.as_nanos(),
            max_ns: times.max()?.as_nanos(),
        })
    }
}

impl Row {
    /// Whether the driver was promised its CPU and did not get it: the line lost samples, or we
    /// cannot tell because events were lost.
    pub fn breaks_its_promise(&self) -> bool {
        self.promised && (self.samples_lost + self.stale_samples + self.events_lost) > 0
    }

    /// The row of a call that ended at `end`; `summary` is of the driver's task alone.
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
