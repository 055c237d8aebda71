//! What the kernel did, as its tracepoints tell it: the evidence for why a job was late.
//!
//! One record each of `sched_switch`, `sched_waking`, entries and exits of interrupt handlers and of
//! softirqs, and of page faults. The records of one CPU come in the order of their instants.

use core::fmt;

use punctual_model::{Duration, Instant};

/// A thread's name as the kernel keeps it: at most 15 bytes, then zeros.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Comm(pub [u8; 16]);

impl Comm {
    /// The name, with what is no text replaced by `?`.
    pub fn chars(&self) -> impl Iterator<Item = char> + '_ {
        let printable = |&byte: &u8| if (b' '..0x7f).contains(&byte) { byte as char } else { '?' };
        self.0.iter().take_while(|&&byte| byte != 0).map(printable)
    }
}

impl From<&str> for Comm {
    fn from(name: &str) -> Self {
        let mut bytes = [0; 16];
        for (to, from) in bytes.iter_mut().take(15).zip(name.bytes()) {
            *to = from;
        }
        Self(bytes)
    }
}

impl fmt::Display for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.chars().try_for_each(|letter| fmt::Write::write_char(f, letter))
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// How a thread is scheduled, the most urgent last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The CPU has nothing to do.
    Idle,
    /// SCHED_OTHER, SCHED_BATCH or SCHED_IDLE.
    Ordinary,
    /// SCHED_FIFO or SCHED_RR, at this priority, 1 to 99.
    RealTime(u8),
    /// SCHED_DEADLINE.
    Deadline,
}

impl Class {
    /// From the number that the kernel's tracepoints give a thread (`task_struct::prio`): below 0
    /// SCHED_DEADLINE, 0 to 98 the real-time priorities 99 to 1, then the ordinary ones.
    ///
    /// ```
    /// use punctual_trace::kernel::Class;
    ///
    /// assert_eq!(Class::of_kernel_prio(9, 4711), Class::RealTime(90));
    /// assert_eq!(Class::of_kernel_prio(120, 0), Class::Idle);
    /// ```
    pub fn of_kernel_prio(prio: i32, tid: u32) -> Self {
        match prio {
            _ if tid == 0 => Self::Idle,
            i32::MIN..0 => Self::Deadline,
            0..=98 => Self::RealTime((99 - prio) as u8),
            _ => Self::Ordinary,
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => f.write_str("idle"),
            Self::Ordinary => f.write_str("ordinary"),
            Self::RealTime(priority) => write!(f, "real-time {priority}"),
            Self::Deadline => f.write_str("SCHED_DEADLINE"),
        }
    }
}

/// A thread that was seen on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seen {
    /// As gettid(2) says; 0 is a CPU's idle thread.
    pub tid: u32,
    /// Its name.
    pub comm: Comm,
    /// How it is scheduled.
    pub class: Class,
}

/// Why a thread left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Another was to run, or its budget was used up: it could go on.
    Preempted,
    /// It sleeps.
    Asleep {
        /// Signals do not wake it: it waits for a device or for memory.
        uninterruptible: bool,
        /// The system call it is in, by its number, if it is in one.
        syscall: Option<u32>,
    },
}

/// Something the kernel did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When (CLOCK_MONOTONIC).
    pub at: Instant,
    /// On which CPU.
    pub cpu: u16,
    /// What.
    pub what: What,
}

/// What the kernel did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A thread left the CPU and another came.
    Switch {
        /// Who left.
        prev: Seen,
        /// Why.
        left: Left,
        /// All its execution time so far, as the scheduler accounts it, in nanoseconds.
        prev_exec_ns: u64,
        /// Who came.
        next: Seen,
        /// The same of who came.
        next_exec_ns: u64,
    },
    /// A thread that slept can go on, where it ran last if it is not said to move.
    Waking {
        /// Which.
        tid: u32,
        /// The thread that woke it; none if an interrupt did.
        waker: Option<Seen>,
    },
    /// The handler of a hardware interrupt began or ended; `vector` is its number.
    HardIrq {
        /// Which interrupt.
        vector: Interrupt,
        /// It began; else it ended.
        enter: bool,
    },
    /// A softirq began or ended.
    SoftIrq {
        /// Its number, as in /proc/softirqs, from 0.
        vector: u8,
        /// It began; else it ended.
        enter: bool,
    },
    /// A thread that slept or waits is to run on another CPU than the one it ran on.
    Moves {
        /// Which.
        tid: u32,
        /// Where.
        on: u16,
    },
    /// A timer expires: whoever is woken next on this CPU by an interrupt was to be woken then.
    TimerDue {
        /// When it was due (CLOCK_MONOTONIC).
        due: Instant,
    },
    /// A thread was in page faults, of which the last ends now.
    PageFault {
        /// Which thread.
        tid: u32,
        /// So long, since this was last told, sleeps in them included.
        took: Duration,
    },
    /// A CPU's records before this one are incomplete: what is between is not known.
    Gap {
        /// How many are missing.
        records: u32,
    },
}

/// Which interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Interrupt {
    /// A device's, by its line in /proc/interrupts.
    Line(u32),
    /// The CPU's own timer.
    LocalTimer,
    /// From another CPU: a function to call, a thread to look at.
    FromCpu,
    /// Another of the CPU's own, by its vector.
    Vector(u8),
}

impl fmt::Display for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "interrupt {line}"),
            Self::LocalTimer => f.write_str("the local timer interrupt"),
            Self::FromCpu => f.write_str("an interrupt from another CPU"),
            Self::Vector(vector) => write!(f, "interrupt vector {vector}"),
        }
    }
}

/// The name of a softirq, as in /proc/softirqs.
///
/// ```
/// assert_eq!(punctual_trace::kernel::softirq_name(3), "NET_RX");
/// ```
pub fn softirq_name(vector: u8) -> &'static str {
    const NAMES: [&str; 10] = [
        "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER",
        "RCU",
    ];
    NAMES.get(usize::from(vector)).copied().unwrap_or("unknown")
}
