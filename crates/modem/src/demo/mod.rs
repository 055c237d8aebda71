//! The main demonstration: a file sent over a modem call whose driver has deadlines.
//!
//! Two real soft modems, an emulated line between them, and a driver that must serve the card of
//! one of them every 12.5 ms while spinning competitors load every CPU. The same driver runs
//!
//! - [`live`]: on this host, as an ordinary thread, as a real-time upcall, and reserved;
//! - [`replay`]: in virtual time, where a cost model charges its processor time, with the same
//!   bytes on each run.
//!
//! [`sizing`] finds the number of lines at which the driver needs as much CPU as the paper's modem.

pub mod competitors;
pub mod live;
pub mod replay;
pub mod report;
pub mod sizing;
pub mod traced;
mod watched;

use std::sync::Arc;

use punctual_model::{Duration, Reservation, Service, Upcall, UpcallError, UpcallSpec};
use punctual_observe::RecordError;
use punctual_runtime::{CreateError, StartError};

use crate::{BankError, PERIOD};

pub use report::{Report, Row};

/// The file that is sent by default: the picture of the README.
pub const PICTURE: &[u8] = include_bytes!("punctual.svg");

/// The share of a CPU that the driver should need: the paper's modem took 14.7 % (soft modem study,
/// §6.2.2).
pub const SHARE_PPM: u64 = 150_000;

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
        "only {made} of {wanted} competitors could be started: {why}; ask for fewer with \
         --competitors, or raise the limit on processes (ulimit -u)"
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

/// Lines served between two yield points: some tens of microseconds, short beside any period that
/// might want to go first.
const QUANTUM_LINES: u32 = 8;

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
