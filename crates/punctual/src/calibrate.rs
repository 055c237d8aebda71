//! Measures the costs of this host's switches, caches, timers, calls and packets.
//!
//! docs/calibrate.md explains each figure. `plan` lists the measurements and their lengths, `burst`
//! measures, and `measuring` discards the samples that the hypervisor disturbed and derives charges
//! from the others. [`ProfileFile`] keeps the result.

mod burst;
mod charge;
mod ground;
mod measuring;
mod plan;
mod profile_file;
mod receiving;
mod seat;
mod sending;

use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use punctual_linux::{clock, host};
use punctual_model::Duration;
use punctual_model::host::{Calibration, Percentile, Run};

use crate::Failure;
use measuring::Measured;
use plan::Plan;
pub use plan::size;
pub use profile_file::{ProfileFile, ProfileFileError, Written};

/// The options of a calibration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether to measure for some ten seconds instead of a hundred: the same figures from fewer
    /// samples.
    pub quick: bool,
    /// The most memory that a task touches between two switches, in bytes. Its refill is charged
    /// with each switch.
    pub working_set: u64,
    /// The largest packet that sending and receiving are charged for, in bytes without headers.
    pub packet: u32,
    /// The percentile of switch and refill that is charged.
    pub percentile: Percentile,
    /// The destination of packets by UDP; `None`: a network of our own.
    pub send_to: Option<SocketAddr>,
}

impl Options {
    /// The range of working sets that can be measured, in bytes.
    pub const WORKING_SETS: std::ops::RangeInclusive<u64> = plan::SMALLEST..=plan::LARGEST;
    /// The range of packets that can be measured, in bytes.
    pub const PACKETS: std::ops::RangeInclusive<u32> = 1..=plan::LARGEST_PACKET;

    /// Returns the approximate length of [`measure`].
    pub fn length(&self) -> Duration {
        self.plan().length()
    }

    fn plan(&self) -> Plan {
        Plan::new(self.quick, self.working_set, self.packet)
    }
}

/// Measures the costs of this host. `before` is the previous profile: a figure that cannot be
/// measured this time keeps its value from there, if it is of the same host. Every 40 ms,
/// `progress` is called with the name of the measurement in progress and the time since the
/// beginning.
///
/// Real-time threads keep a CPU busy for 40 ms at a time.
///
/// # Errors
/// If no figure could be measured. The error gives the reason for each figure.
///
/// # Examples
/// ```no_run
/// use punctual::calibrate::{Options, measure};
/// use punctual::model::host::Percentile;
///
/// let options = Options {
///     quick: true,
///     working_set: 64 << 10,
///     packet: 1_420,
///     percentile: Percentile::from_ppm(990_000).expect("above a half"),
///     send_to: None,
/// };
/// let calibration = measure(&options, None, &|what, _| eprintln!("{what}"))?;
/// println!("{calibration}");
/// # Ok::<(), punctual::Failure>(())
/// ```
pub fn measure(
    options: &Options,
    before: Option<Calibration>,
    progress: &dyn Fn(&str, Duration),
) -> Result<Calibration, Failure> {
    let (started, stolen) = (clock::now(), host::stolen());
    #[allow(clippy::disallowed_methods, reason = "a date for people to read, nothing waits for it")]
    let at_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let plan = options.plan();
    let measured = measuring::run(&plan, options.percentile, options.send_to, progress);
    let here = host::identity();
    let Measured { figures, cache_refill, mut messages, mut arrivals, absent, .. } = measured;
    let Measured { switching, mut sending, mut receiving, .. } = measured;
    if figures.is_empty() && cache_refill.is_empty() {
        let reasons = absent.iter().map(|absent| format!("\n{}: {}", absent.what, absent.why));
        let reasons = reasons.collect::<String>();
        return Err(Failure::cannot_here(format!("nothing could be measured{reasons}")));
    }
    // Figures that could not be measured this time keep their previous values, but only on the same
    // host.
    if let Some(before) = before.filter(|before| before.host == here) {
        if sending.is_none() {
            (sending, messages) = (before.sending, before.messages);
        }
        if receiving.is_none() {
            (receiving, arrivals) = (before.receiving, before.arrivals);
        }
    }
    Ok(Calibration {
        host: here,
        run: Run {
            at_unix_s: at_unix_s.min(Run::LATEST),
            duration: clock::now() - started,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            quick: options.quick,
            stolen: stolen.zip(host::stolen()).map(|(before, after)| after.saturating_sub(before)),
        },
        switching,
        sending,
        receiving,
        figures,
        cache_refill,
        messages,
        arrivals,
        absent,
    })
}
