//! Defines a stretch of a job's time, and the kinds of its use.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

use punctual_model::{Duration, Instant};

use crate::kernel::{Interrupt, Seen, softirq_name, syscall_name};

/// The mechanism that took a thread's CPU because a budget was exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Throttler {
    /// The kernel: SCHED_DEADLINE's budget, or the limit on real-time threads.
    Kernel,
    /// The kernel: the quota of a control group (cpu.max).
    Quota {
        /// The number of groups from the thread's own, 0, up to that one, if that is known.
        levels: Option<u8>,
    },
    /// Punctual's own enforcement.
    Punctual,
}

/// The use of a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Spent {
    /// The job's own work, outside system calls if those were observed.
    Own,
    /// The job's own work in system calls.
    System {
        /// The number of the system call, or `None` if there were several short ones.
        syscall: Option<u32>,
    },
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
    /// A signal had stopped its process.
    Stopped {
        /// The thread that sent the signal, if that is known.
        by: Option<Seen>,
    },
    /// A debugger held the thread.
    Traced,
    /// The thread's control group was frozen.
    Frozen,
    /// The thread was on its CPU by the scheduler's account while its execution time stood still:
    /// the host ran something else.
    Stolen,
    /// The thread was runnable and its CPU had nothing else to do: the time of a switch.
    Switching,
    /// Not observed.
    Unknown,
}

impl Spent {
    /// Returns true for the job's own work.
    pub fn is_own(&self) -> bool {
        matches!(self, Self::Own | Self::System { .. })
    }

    /// Returns one word for the kind of cause, as a key of tables and metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::System { .. } => "system",
            Self::Other(_) | Self::Subject(_) => "task",
            Self::HardIrq(_) => "hard-interrupt",
            Self::SoftIrq(_) => "softirq",
            Self::LateTimer => "late-timer",
            Self::Throttled(Throttler::Kernel) => "throttled-by-kernel",
            Self::Throttled(Throttler::Quota { .. }) => "throttled-by-quota",
            Self::Throttled(Throttler::Punctual) => "throttled",
            Self::PageFault => "page-fault",
            Self::Blocked { .. } => "blocked",
            Self::Stopped { .. } => "stopped",
            Self::Traced => "traced",
            Self::Frozen => "frozen",
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
    /// use punctual_trace::kernel::syscall_name;
    ///
    /// let blocked = Spent::Blocked { syscall: Some(202), uninterruptible: false, waker: None };
    /// assert_eq!(blocked.in_general(), format!("it slept in {}", syscall_name(202)));
    /// ```
    pub fn in_general(&self) -> String {
        match self {
            Self::Other(Seen { comm, class, .. }) => format!("{comm} ({class}) ran instead"),
            Self::Blocked { syscall: Some(number), .. } => {
                format!("it slept in {}", syscall_name(*number))
            }
            Self::Blocked { .. } => "it slept".into(),
            Self::Stopped { by: Some(Seen { comm, .. }) } => format!("{comm} stopped it"),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.write_str("its own work, beyond what was declared"),
            Self::System { syscall: Some(number) } => {
                write!(f, "its own work in {}, beyond what was declared", syscall_name(*number))
            }
            Self::System { syscall: None } => {
                f.write_str("its own work in short system calls, beyond what was declared")
            }
            Self::Other(Seen { tid, comm, class }) => {
                write!(f, "{comm} ({tid}, {class}) ran instead")
            }
            Self::Subject(number) => write!(f, "subject {number} of this trace ran instead"),
            Self::HardIrq(vector) => vector.fmt(f),
            Self::SoftIrq(vector) => write!(f, "softirq {}", softirq_name(*vector)),
            Self::LateTimer => f.write_str("its wake-up came late"),
            Self::Throttled(Throttler::Kernel) => f.write_str("the kernel throttled it"),
            Self::Throttled(Throttler::Quota { levels: None }) => {
                f.write_str("the CPU quota of its control group or of one above it was exhausted")
            }
            Self::Throttled(Throttler::Quota { levels: Some(0) }) => {
                f.write_str("the CPU quota of its control group was exhausted")
            }
            Self::Throttled(Throttler::Quota { levels: Some(levels) }) => {
                let plural = if *levels == 1 { "" } else { "s" };
                write!(
                    f,
                    "the CPU quota of the control group {levels} level{plural} above its own was \
                     exhausted"
                )
            }
            Self::Throttled(Throttler::Punctual) => f.write_str("its reservation was exhausted"),
            Self::PageFault => f.write_str("page faults"),
            Self::Blocked { syscall, uninterruptible, waker } => {
                f.write_str("it slept")?;
                if let Some(number) = syscall {
                    write!(f, " in {}", syscall_name(*number))?;
                }
                if *uninterruptible {
                    f.write_str(", waiting for a device or memory")?;
                }
                match waker {
                    Some(Seen { tid, comm, .. }) => write!(f, ", until {comm} ({tid}) woke it"),
                    None => f.write_str(", until an interrupt woke it"),
                }
            }
            Self::Stopped { by: Some(Seen { tid, comm, .. }) } => {
                write!(f, "{comm} ({tid}) had stopped it with a signal")
            }
            Self::Stopped { by: None } => f.write_str("a signal had stopped it"),
            Self::Traced => f.write_str("a debugger held it"),
            Self::Frozen => f.write_str("its control group was frozen"),
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
