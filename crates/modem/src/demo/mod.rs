//! The main demonstration: a file sent over a modem call whose driver has deadlines.
//!
//! Two real soft modems, an emulated line between them, and a driver that must serve the card of
//! one of them every 12.5 ms while spinning competitors load every CPU. The same driver runs
//!
//! - [`live`]: on this host, as an ordinary thread, as a real-time upcall, and reserved;
//! - [`replay`]: in virtual time, where a cost model charges its processor time, with the same
//!   bytes on each run.
//!
//! [`live::find`] finds the number of lines at which the driver needs as much CPU as the paper's
//! modem.

pub mod live;
pub mod replay;

use std::sync::Arc;

use punctual_model::{Duration, Instant, Reservation, Service, Upcall, UpcallError, UpcallSpec};
use punctual_runtime::recording::RecordError;
use punctual_runtime::{CreateError, StartError};
use punctual_trace::{Summary, Times};
use serde::Serialize;

use crate::{Bank, BankError, PERIOD};

/// The file that is sent by default: the picture of the README.
pub const PICTURE: &[u8] = include_bytes!("punctual.svg");

/// The share of a CPU that the driver should need: the paper's modem took 14.7 % (soft modem study,
/// §6.2.2).
pub const SHARE_PPM: u64 = 150_000;

/// Lines served between two yield points: some tens of microseconds, short beside any period that
/// might want to go first.
const QUANTUM_LINES: u32 = 8;

/// Returns a reservation of `budget_ms` in every 8 ms: the period at which the paper's modem worked
/// as well as in interrupt context (Table 2).
pub fn every_8_ms(budget_ms: u64) -> Reservation {
    Reservation::new(Service::from_millis(budget_ms), Duration::from_millis(8))
        .expect("a budget from 1 ms to 8 ms")
}

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The bytes to transfer: at least one.
    pub file: Arc<[u8]>,
    /// The seed of the line noise and of the traffic of the other lines.
    pub seed: u64,
    /// The length of each call, from dialling on.
    pub length: Duration,
    /// Spinning ordinary threads on each CPU.
    pub competitors_per_cpu: usize,
}

/// The progress of a call.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The name of the call.
    pub what: &'a str,
    /// The time since the call began.
    pub elapsed: Duration,
    /// The length of the call.
    pub length: Duration,
    /// Bytes of the file delivered so far.
    pub delivered: u64,
}

/// The reason why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bank of lines could not be created.
    #[error(transparent)]
    Bank(#[from] BankError),
    /// The driver's parameters are no valid upcall.
    #[error(transparent)]
    Upcall(#[from] UpcallError),
    /// Admission refused the driver.
    #[error(transparent)]
    Refused(#[from] CreateError),
    /// The kernel refused the scheduling class.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The requested trace cannot be written.
    #[error(transparent)]
    Trace(#[from] RecordError),
    /// Fewer spinning threads could be started than requested.
    #[error(
        "only {made} of {wanted} competitors could be started: {why}; raise the limit on processes \
         (ulimit -u), or ask for fewer"
    )]
    Competitors {
        /// The number of threads that run.
        made: usize,
        /// The number of threads requested.
        wanted: usize,
        /// The kernel's error.
        why: std::io::Error,
    },
    /// The host is too slow or too loaded to measure the cost of a line.
    #[error("this host is too slow or too loaded to measure a bank of {lines} lines")]
    TooSlow {
        /// The number of lines tried.
        lines: u32,
    },
}

impl Error {
    /// Returns true if the host lacks something (a privilege, bandwidth, speed), and the input is
    /// not at fault.
    pub fn is_of_host(&self) -> bool {
        // The cost of a line on this host decides whether the driver is a valid upcall and whether
        // it is admitted.
        !matches!(self, Self::Bank(_))
    }
}

/// Describes the driver of `lines` lines as an upcall; each line's service takes up to
/// `time_per_line`.
pub fn driver(lines: u32, time_per_line: Service) -> Result<Upcall, UpcallError> {
    Upcall::new(UpcallSpec {
        name: "driver".into(),
        period: PERIOD,
        batch: lines,
        quantum: QUANTUM_LINES.min(lines),
        time_per_pdu: time_per_line,
    })
}

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
    fn of(context: String, bank: &Bank, end: Instant, summary: &Summary) -> Self {
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
