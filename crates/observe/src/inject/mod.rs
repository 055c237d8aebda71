//! Trouble on purpose: takes a CPU's time from whoever runs there, so much every so often, for so long.
//!
//! - `kernel`: in a hard interrupt, in a softirq.
//! - `thread`: by threads: a real-time one that spins, page faults, a cache swept through.

mod kernel;
mod thread;

use std::fmt;

use punctual_bpf::{AttachError, LoadError, MapError, RunError};
use punctual_model::Duration;
use thiserror::Error;

/// What kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// In the hard interrupt of a perf software clock.
    HardInterrupt,
    /// In the softirq of a timer.
    SoftIrq,
    /// A thread at this SCHED_FIFO priority spins.
    Fifo(u8),
    /// An ordinary thread touches memory that it has just got.
    PageFaults,
    /// An ordinary thread sweeps through more memory than caches hold.
    Cache,
}

/// How much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What.
    pub trouble: Trouble,
    /// On which CPU.
    pub cpu: usize,
    /// So long each time; at most [`MOST`] of the period.
    pub burn: Duration,
    /// So often.
    pub period: Duration,
    /// For so long.
    pub length: Duration,
}

/// The largest part of a period that may be taken, in percent: a CPU that is never given back does
/// not come to end it.
pub const MOST: u64 = 80;

/// The longest that a CPU is taken at a time: beyond it the kernel takes the CPU for stuck.
pub const LONGEST: Duration = Duration::from_secs(1);

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Injected {
    /// How often.
    pub times: u64,
    /// How much time in all.
    pub burnt: Duration,
}

/// Why there was no trouble.
#[derive(Debug, Error)]
pub enum InjectError {
    /// More than a CPU can bear.
    #[error(
        "{burn} every {period}: at most {MOST} % of the period, and at most {LONGEST}, may be taken"
    )]
    TooMuch {
        /// What was to be taken.
        burn: Duration,
        /// How often.
        period: Duration,
    },
    /// There is no such CPU.
    #[error("CPU {cpu}: this process may not run there")]
    NoCpu {
        /// Which.
        cpu: usize,
    },
    /// The thread cannot run as it is to.
    #[error("a thread at SCHED_FIFO {priority} is refused: {why}; it takes CAP_SYS_NICE")]
    Priority {
        /// The priority.
        priority: u8,
        /// What the kernel says.
        why: String,
    },
    /// The programs for the kernel were not loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// They were not attached.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// Their memory cannot be seen.
    #[error(transparent)]
    Map(#[from] MapError),
    /// They were not run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The kernel does not do it.
    #[error("{what} on CPU {cpu} was asked for, accepted, and did not come: {advice}")]
    Silent {
        /// What.
        what: &'static str,
        /// Where.
        cpu: usize,
        /// What to do.
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

/// Does it, and returns when it is over or `goes_on` says no; looks at that ten times a second.
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
