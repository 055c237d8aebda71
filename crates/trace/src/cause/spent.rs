//! Defines a stretch of a job's time, and the kinds of its use.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

use punctual_model::{Duration, Instant};

use crate::kernel::{Interrupt, Seen, softirq_name};

/// The mechanism that took a thread's CPU because a budget was exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Throttler {
    /// The kernel: SCHED_DEADLINE's budget, the limit on real-time threads, or a control group's
    /// quota.
    Kernel,
    /// Punctual's own enforcement.
    Punctual,
}

/// The use of a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Spent {
    /// The job's own work.
    Own,
    /// Another thread ran on its CPU.
    Other(Seen),
    /// Another subject of the same trace ran on its CPU. Only its events are known.
    Subject(u32),
    /// The handler of a hardware interrupt ran.
    HardIrq(Interrupt),
    /// A softirq ran, given by its number.
    SoftIrq(u8),
    /// The job was released but its thread still slept, because its wake-up came late.
    LateTimer,
    /// The thread was runnable and not allowed to run.
    Throttled(Throttler),
    /// The kernel brought in a page that the job touched.
    PageFault,
    /// The thread slept in the middle of its job.
    Blocked {
        /// The system call in which it slept, if any.
        syscall: Option<u32>,
        /// True if it waited for a device or for memory.
        uninterruptible: bool,
        /// The thread that woke it, or `None` if an interrupt did.
        waker: Option<Seen>,
    },
    /// The thread was on its CPU by the scheduler's account while its execution time stood still:
    /// the host ran something else.
    Stolen,
    /// The thread was runnable and its CPU had nothing else to do: the time of a switch.
    Switching,
    /// Not observed.
    Unknown,
}

impl Spent {
    /// Returns one word for the kind of cause, as a key of tables and metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Other(_) | Self::Subject(_) => "task",
            Self::HardIrq(_) => "hard-interrupt",
            Self::SoftIrq(_) => "softirq",
            Self::LateTimer => "late-timer",
            Self::Throttled(Throttler::Kernel) => "throttled-by-kernel",
            Self::Throttled(Throttler::Punctual) => "throttled",
            Self::PageFault => "page-fault",
            Self::Blocked { .. } => "blocked",
            Self::Stolen => "stolen",
            Self::Switching => "switching",
            Self::Unknown => "unknown",
        }
    }

    /// Returns a clause under which causes of many jobs are added up: threads appear by name
    /// instead of number, and a sleep does not say which thread ended it.
    ///
    /// ```
    /// use punctual_trace::cause::Spent;
    ///
    /// let blocked = Spent::Blocked { syscall: Some(202), uninterruptible: false, waker: None };
    /// assert_eq!(blocked.in_general(), "it slept in system call 202");
    /// ```
    pub fn in_general(&self) -> String {
        match self {
            Self::Other(Seen { comm, class, .. }) => format!("{comm} ({class}) ran instead"),
            Self::Blocked { syscall: Some(number), .. } => {
                format!("it slept in system call {number}")
            }
            Self::Blocked { .. } => "it slept".into(),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.write_str("its own work, beyond what was declared"),
            Self::Other(Seen { tid, comm, class }) => {
                write!(f, "{comm} ({tid}, {class}) ran instead")
            }
            Self::Subject(number) => write!(f, "subject {number} of this trace ran instead"),
            Self::HardIrq(vector) => vector.fmt(f),
            Self::SoftIrq(vector) => write!(f, "softirq {}", softirq_name(*vector)),
            Self::LateTimer => f.write_str("its wake-up came late"),
            Self::Throttled(Throttler::Kernel) => f.write_str("the kernel throttled it"),
            Self::Throttled(Throttler::Punctual) => f.write_str("its reservation was exhausted"),
            Self::PageFault => f.write_str("page faults"),
            Self::Blocked { syscall, uninterruptible, waker } => {
                f.write_str("it slept")?;
                if let Some(number) = syscall {
                    write!(f, " in system call {number}")?;
                }
                if *uninterruptible {
                    f.write_str(", waiting for a device or memory")?;
                }
                match waker {
                    Some(Seen { tid, comm, .. }) => write!(f, ", until {comm} ({tid}) woke it"),
                    None => f.write_str(", until an interrupt woke it"),
                }
            }
            Self::Stolen => f.write_str("the host ran something else on this CPU"),
            Self::Switching => f.write_str("switching to it"),
            Self::Unknown => f.write_str("not known"),
        }
    }
}

/// A half-open stretch `[start, end)` of a thread's time that was spent on one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The first instant.
    pub start: Instant,
    /// The first instant after it.
    pub end: Instant,
    /// The use of the time.
    pub spent: Spent,
}

impl Stretch {
    /// Returns the length.
    pub fn length(&self) -> Duration {
        self.end.saturating_since(self.start)
    }
}
