//! The main job: a file over a modem call whose driver has deadlines.
//!
//! Two real soft modems, an emulated line between them, and a driver that must serve the card of
//! one of them every 12.5 ms while spinning competitors want every CPU. The same driver runs
//!
//! - [`live`]: on this host, as an ordinary thread, as a real-time upcall, and reserved;
//! - [`replay`]: in virtual time, where a cost model charges its processor time, with the same
//!   bytes on each run.
//!
//! [`sizing`] finds how many lines make the driver need what the paper's modem needed.

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

/// The file that is sent when nobody names another: the picture of the README.
pub const PICTURE: &[u8] = include_bytes!("punctual.svg");

/// The part of a CPU that the driver is to need: the paper's modem took 14.7 % (soft modem study,
/// §6.2.2).
pub const SHARE_PPM: u64 = 150_000;

/// `budget_ms` in every 8 ms: the period under which the paper's modem worked as well as in
/// interrupt context (Table 2).
pub fn every_8_ms(budget_ms: u64) -> Reservation {
    Reservation::new(Service::from_millis(budget_ms), Duration::from_millis(8))
        .expect("a budget from 1 ms to 8 ms")
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The bytes to transfer: at least one.
    pub file: Arc<[u8]>,
    /// Draws line noise and the traffic of the other lines.
    pub seed: u64,
    /// How long each call lasts, from dialling on.
    pub length: Duration,
    /// Spinning ordinary threads on each CPU.
    pub competitors_per_cpu: usize,
}

/// What has happened so far, for a progress line.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Which call, in words.
    pub what: &'a str,
    /// Since it began, and how long it will last.
    pub elapsed: Duration,
    /// How long it will last.
    pub length: Duration,
    /// Bytes of the file delivered so far.
    pub delivered: u64,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bank of lines could not be made.
    #[error(transparent)]
    Bank(#[from] BankError),
    /// The driver's needs are no valid upcall.
    #[error(transparent)]
    Upcall(#[from] UpcallError),
    /// Admission refused the driver.
    #[error(transparent)]
    Refused(#[from] CreateError),
    /// The kernel refused its class.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The trace that was asked for cannot be written.
    #[error(transparent)]
    Trace(#[from] RecordError),
    /// Not as many spinning threads as asked for.
    #[error(
        "only {made} of {wanted} competitors could be started: {why}; ask for fewer with \
         --competitors, or raise the limit on processes (ulimit -u)"
    )]
    Competitors {
        /// Those that run.
        made: usize,
        /// Those asked for.
        wanted: usize,
        /// What the kernel says.
        why: std::io::Error,
    },
    /// The host is too slow or too loaded to say what a line costs.
    #[error("this host is too slow or too loaded to measure a bank of {lines} lines")]
    TooSlow {
        /// The lines tried.
        lines: u32,
    },
}

impl Error {
    /// Whether the host lacks something (a privilege, bandwidth, speed), rather than the input.
    pub fn is_of_host(&self) -> bool {
        // A driver that is no valid upcall, or that is refused, follows from what a line costs here.
        !matches!(self, Self::Bank(_))
    }
}

/// Lines served between two yield points: some tens of microseconds, short beside any period that
/// might want to go first.
const QUANTUM_LINES: u32 = 8;

/// The driver of `lines` lines as an upcall, each line's service taking up to `time_per_line`.
pub fn driver(lines: u32, time_per_line: Service) -> Result<Upcall, UpcallError> {
    Upcall::new(UpcallSpec {
        name: "driver".into(),
        period: PERIOD,
        batch: lines,
        quantum: QUANTUM_LINES.min(lines),
        time_per_pdu: time_per_line,
    })
}
