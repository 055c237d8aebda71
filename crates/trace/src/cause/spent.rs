//! What a stretch of a job's time was spent on.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

use crate::kernel::{Interrupt, Seen, softirq_name};

/// Who took a thread's CPU from it because a budget was used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Throttler {
    /// The kernel: SCHED_DEADLINE's budget, the limit on real-time threads, a control group's quota.
    Kernel,
    /// Our own enforcement.
    Punctual,
}

/// What a stretch of time was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Spent {
    /// The job's own work.
    Own,
    /// Another thread ran on its CPU.
    Other(Seen),
    /// Another subject of the same trace ran on its CPU: it is known by its events alone.
    Subject(u32),
    /// The handler of a hardware interrupt.
    HardIrq(Interrupt),
    /// A softirq, by its number.
    SoftIrq(u8),
    /// It was released and still asleep: what was to wake it came late.
    LateTimer,
    /// It could run, and was not let.
    Throttled(Throttler),
    /// The kernel brought a page it touched.
    PageFault,
    /// It slept in the middle of its job.
    Blocked {
        /// In this system call, if in one.
        syscall: Option<u32>,
        /// It waited for a device or for memory.
        uninterruptible: bool,
        /// This thread woke it; an interrupt did if none.
        waker: Option<Seen>,
    },
    /// It was on its CPU by the scheduler's account, and its execution time stood still: the host ran
    /// something else there.
    Stolen,
    /// It could run and its CPU had nothing else to do: the time it takes to switch.
    Switching,
    /// Not seen.
    Unknown,
}

impl Spent {
    /// One word for the kind of cause: keys of tables and metrics.
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

    /// A clause for what causes of many jobs are added up with: threads by their names, not their
    /// numbers, and a sleep without who ended it.
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
