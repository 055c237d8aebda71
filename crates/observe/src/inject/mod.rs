//! Deliberate trouble: takes a CPU's time from the threads that run there, periodically, for a
//! limited time.
//!
//! - `kernel`: in a hard interrupt or a softirq.
//! - `thread`: by threads: a spinning real-time thread, page faults, a sweep through the cache.

mod kernel;
mod thread;

use std::fmt;

use punctual_bpf::{AttachError, LoadError, MapError, RunError};
use punctual_model::Duration;
use thiserror::Error;

/// A kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// In the hard interrupt of a perf software clock.
    HardInterrupt,
    /// In the softirq of a timer.
    SoftIrq,
    /// A thread that spins at this SCHED_FIFO priority.
    Fifo(u8),
    /// An ordinary thread that touches fresh memory.
    PageFaults,
    /// An ordinary thread that sweeps through more memory than caches hold.
    Cache,
}

/// The trouble and its extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The kind.
    pub trouble: Trouble,
    /// The CPU.
    pub cpu: usize,
    /// The time taken in each period; at most [`MOST`] percent of it.
    pub burn: Duration,
    /// The period.
    pub period: Duration,
    /// The whole duration.
    pub length: Duration,
}

/// The largest part of a period that may be taken, in percent: a CPU that is never given back
/// cannot end the trouble.
pub const MOST: u64 = 80;

/// The longest time that a CPU is taken at once: beyond it the kernel would report the CPU as
/// stuck.
pub const LONGEST: Duration = Duration::from_secs(1);

/// The trouble that was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Injected {
    /// The number of times.
    pub times: u64,
    /// The total time taken.
    pub burnt: Duration,
}

/// The reason no trouble was made.
#[derive(Debug, Error)]
pub enum InjectError {
    /// More than a CPU can stand.
    #[error(
        "{burn} every {period}: at most {MOST} % of the period, and at most {LONGEST}, may be taken"
    )]
    TooMuch {
        /// The requested time per period.
        burn: Duration,
        /// The requested period.
        period: Duration,
    },
    /// There is no such CPU.
    #[error("CPU {cpu}: this process may not run there")]
    NoCpu {
        /// The CPU.
        cpu: usize,
    },
    /// The thread cannot get its priority.
    #[error("a thread at SCHED_FIFO {priority} is refused: {why}; it takes CAP_SYS_NICE")]
    Priority {
        /// The priority.
        priority: u8,
        /// The kernel's error.
        why: String,
    },
    /// The programs for the kernel were not loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// They were not attached.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// Their memory cannot be accessed.
    #[error(transparent)]
    Map(#[from] MapError),
    /// They were not run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The kernel accepted it without effect.
    #[error("{what} on CPU {cpu} was asked for, accepted, and did not come: {advice}")]
    Silent {
        /// The kind of trouble.
        what: &'static str,
        /// The CPU.
        cpu: usize,
        /// The advice.
        advice: &'static str,
    },
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HardInterrupt => f.write_str("a hard interrupt"),
            Self::SoftIrq => f.write_str("a softirq"),
            Self::Fifo(priority) => write!(f, "a thread at SCHED_FIFO {priority}"),
            Self::PageFaults => f.write_str("page faults"),
            Self::Cache => f.write_str("cache misses"),
        }
    }
}

/// Makes the trouble, and returns when it is over or `goes_on` returns false, which is checked ten
/// times a second.
///
/// # Errors
/// [`InjectError`].
pub fn inject(plan: Plan, goes_on: impl Fn() -> bool) -> Result<Injected, InjectError> {
    let Plan { burn, period, .. } = plan;
    let most = period.as_nanos() / 100 * MOST;
    if burn.is_zero() || burn.as_nanos() > most || burn > LONGEST {
        return Err(InjectError::TooMuch { burn, period });
    }
    if !punctual_linux::thread::affinity().contains(&plan.cpu) {
        return Err(InjectError::NoCpu { cpu: plan.cpu });
    }
    match plan.trouble {
        Trouble::HardInterrupt => kernel::interrupt(plan, goes_on),
        Trouble::SoftIrq => kernel::softirq(plan, goes_on),
        _ => thread::run(plan, goes_on),
    }
}
