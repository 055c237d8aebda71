//! Records what the kernel did, as its tracepoints report it: the evidence for why a job was late.
//!
//! There is one record for each `sched_switch`, `sched_waking`, entry and exit of an interrupt
//! handler or a softirq, and for page faults. The records of one CPU come in the order of their
//! instants.

use core::fmt;

use punctual_model::{Duration, Instant};

/// A thread's name as the kernel stores it: at most 15 bytes, then zeros.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Comm(pub [u8; 16]);

impl Comm {
    /// Returns the name, with `?` in place of unprintable bytes.
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

/// The scheduling class of a thread, the most urgent last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The CPU is idle.
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
    /// The thread id, as gettid(2) returns it; 0 is a CPU's idle thread.
    pub tid: u32,
    /// Its name.
    pub comm: Comm,
    /// The scheduling class.
    pub class: Class,
}

/// The reason why a thread left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Another thread was to run, or the budget was exhausted: the thread could have gone on.
    Preempted,
    /// The thread sleeps.
    Asleep {
        /// Signals do not wake it: it waits for a device or for memory.
        uninterruptible: bool,
        /// The number of the system call in which it sleeps, if it is in one.
        syscall: Option<u32>,
        /// The place in the program at which it sleeps.
        place: Place,
    },
    /// The thread could have gone on, but the quota of a control group was exhausted.
    Throttled {
        /// The number of groups from the thread's own, 0, up to that one, if that is known.
        levels: Option<u8>,
    },
    /// A signal stopped its process.
    Stopped {
        /// The process id.
        process: u32,
    },
    /// A debugger holds it.
    Traced,
    /// Its control group is frozen.
    Frozen,
}

/// What a wake-up is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// What the thread waited for has come.
    ToRun,
    /// The same came, perhaps earlier, while the thread's control group was frozen.
    OfFrozen,
    /// A signal or the freezer is to stop it: the thread goes on to sleep later.
    ToStop,
}

/// What tells the waits of a program apart that are in the same system call. All fields are zero
/// outside of system calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The first argument of the system call: a file descriptor, a clock, the address of a futex.
    pub first: u64,
    /// The low half of the second argument.
    pub second: u32,
    /// The low half of the stack pointer. It is the same each time one loop waits.
    pub stack: u32,
}

/// Something the kernel did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The instant, of CLOCK_MONOTONIC.
    pub at: Instant,
    /// The CPU.
    pub cpu: u16,
    /// The event.
    pub what: KernelEvent,
}

/// An event in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelEvent {
    /// A thread left the CPU and another took it.
    Switch {
        /// The thread that left.
        prev: Seen,
        /// The reason why it left.
        left: Left,
        /// The whole execution time of the thread that left, as the scheduler accounts it, in
        /// nanoseconds.
        prev_exec_ns: u64,
        /// The thread that came.
        next: Seen,
        /// The whole execution time of the thread that came, in nanoseconds.
        next_exec_ns: u64,
    },
    /// A sleeping thread can run again, on its last CPU unless a [`KernelEvent::Moves`] says otherwise.
    Waking {
        /// The thread id.
        tid: u32,
        /// The thread that woke it, or `None` if an interrupt did.
        waker: Option<Seen>,
        /// What the wake-up is for.
        wake: Wake,
    },
    /// A thread was woken while the quota of a control group was exhausted.
    WokenThrottled {
        /// The thread id.
        tid: u32,
        /// As in [`Left::Throttled`].
        levels: Option<u8>,
    },
    /// The handler of a hardware interrupt began or ended.
    HardIrq {
        /// The interrupt.
        vector: Interrupt,
        /// True if it began, false if it ended.
        enter: bool,
    },
    /// A softirq began or ended.
    SoftIrq {
        /// The number, as in /proc/softirqs, from 0.
        vector: u8,
        /// True if it began, false if it ended.
        enter: bool,
    },
    /// A sleeping or waiting thread is to run on another CPU than its last one.
    Moves {
        /// The thread id.
        tid: u32,
        /// The new CPU.
        on: u16,
    },
    /// A timer expires. The next thread that an interrupt wakes on this CPU was due to wake at
    /// `due`.
    TimerDue {
        /// The instant at which the timer was due, of CLOCK_MONOTONIC.
        due: Instant,
        /// The thread that sleeps for the timer, if that is known.
        of: Option<u32>,
    },
    /// A thread executed system calls.
    InSystemCall {
        /// The thread id.
        tid: u32,
        /// The number of the system call, or `None` if there were several short ones.
        syscall: Option<u32>,
        /// The time in the system calls.
        took: Duration,
        /// The time is the last before this record, and includes interrupts and sleep. Otherwise
        /// it is some time since the previous such record, and includes neither.
        until_now: bool,
    },
    /// A signal that stops a process was sent to it.
    StopSignal {
        /// The process id.
        process: u32,
        /// The sender, or the thread that was interrupted when the kernel sent it.
        sender: Seen,
    },
    /// A thread was in page faults, the last of which ends now.
    PageFault {
        /// The thread id.
        tid: u32,
        /// The time in page faults since the previous record of the thread, including sleeps in
        /// them.
        took: Duration,
    },
    /// Records of a CPU before this one are missing.
    Gap {
        /// The number of missing records.
        records: u32,
    },
}

/// The source of an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Interrupt {
    /// A device, by its line in /proc/interrupts.
    Line(u32),
    /// The CPU's own timer.
    LocalTimer,
    /// Another CPU, with a function to call or a thread to look at.
    FromCpu,
    /// Another source of the CPU's own, by its vector.
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

/// Returns the name of a system call of this architecture, or "system call N" if N is not known.
///
/// ```
/// assert_eq!(punctual_trace::kernel::syscall_name(60_000).to_string(), "system call 60000");
/// ```
pub fn syscall_name(number: u32) -> impl fmt::Display {
    SyscallName(number)
}

/// Returns the name of a system call of this architecture, if its number is known.
pub(crate) fn known_syscall(number: u32) -> Option<&'static str> {
    syscalls::Sysno::new(usize::try_from(number).ok()?).map(|known| known.name())
}

struct SyscallName(u32);

impl fmt::Display for SyscallName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match known_syscall(self.0) {
            Some(name) => f.write_str(name),
            None => write!(f, "system call {}", self.0),
        }
    }
}
