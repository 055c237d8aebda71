//! Identifies the places in a program at which its threads wait.

use core::fmt;

use punctual_model::{Duration, Instant};

use crate::kernel::{Place, known_syscall, syscall_name};

/// A place at which a thread waits: the more of its fields are set, the more precise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wait {
    /// The number of the system call.
    pub syscall: u32,
    /// The object waited for, as far as the first arguments tell: a file descriptor, a futex, a
    /// clock.
    pub object: Option<u64>,
    /// The low half of the stack pointer.
    pub stack: Option<u32>,
}

/// The meaning of a system call's first arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Object {
    /// The address of a futex. A condition variable of glibc uses two words in turn.
    Futex,
    /// A clock, and as second argument whether the time is absolute.
    Clock,
    Descriptor,
    /// Memory of the caller, which may be elsewhere each time.
    Memory,
    Unknown,
}

/// Returns what a call waits for (syscalls(2)).
fn object_of(call: Option<&str>) -> Object {
    match call {
        Some("futex" | "futex_wait") => Object::Futex,
        Some("clock_nanosleep") => Object::Clock,
        Some(
            "read" | "write" | "readv" | "writev" | "ioctl" | "accept" | "accept4" | "sendto"
            | "sendmsg" | "recvfrom" | "recvmsg" | "recvmmsg" | "epoll_wait" | "epoll_pwait"
            | "epoll_pwait2" | "io_uring_enter",
        ) => Object::Descriptor,
        Some(
            "poll" | "ppoll" | "select" | "pselect6" | "pause" | "nanosleep" | "wait4" | "waitid"
            | "rt_sigtimedwait" | "rt_sigsuspend" | "io_getevents" | "futex_waitv",
        ) => Object::Memory,
        _ => Object::Unknown,
    }
}

impl Wait {
    /// Returns the most precise description of a sleep in a system call.
    pub fn of(syscall: u32, place: Place) -> Self {
        let object = match object_of(known_syscall(syscall)) {
            Object::Futex => Some(place.first & !7),
            Object::Clock => Some(place.first ^ u64::from(place.second) << 32),
            Object::Memory => None,
            Object::Descriptor | Object::Unknown => Some(place.first),
        };
        Self { syscall, object, stack: Some(place.stack) }
    }

    /// Returns whether the call waits for nothing but time. Whatever else ends it is no release.
    pub(super) fn is_for_time(&self) -> bool {
        matches!(known_syscall(self.syscall), Some("nanosleep" | "clock_nanosleep"))
    }

    /// Returns this wait without what distinguishes it from others in the same system call: at 0
    /// nothing, at 1 the stack pointer, at 2 the object, too.
    pub(super) fn coarse(self, level: u8) -> Self {
        let object = self.object.filter(|_| level < 2);
        Self { object, stack: self.stack.filter(|_| level < 1), ..self }
    }

    /// Returns whether `other`, a most precise description, is of this wait.
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.syscall == other.syscall
            && (self.object.is_none() || self.object == other.object)
            && (self.stack.is_none() || self.stack == other.stack)
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        syscall_name(self.syscall).fmt(f)?;
        match (object_of(known_syscall(self.syscall)), self.object) {
            (Object::Descriptor, Some(descriptor)) => write!(f, "({descriptor})"),
            (Object::Futex, Some(futex)) => write!(f, "({futex:#x})"),
            _ => Ok(()),
        }
    }
}

/// One sleep of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nap {
    pub(super) sleeps: Instant,
    pub(super) wakes: Instant,
    /// The instant at which the timer that woke it was due, if a timer did.
    pub(super) due: Option<Instant>,
    /// Its place; `None` if it was no wait of the program's, or if it was over before it began.
    pub(super) wait: Option<Wait>,
    /// Records are missing between the previous sleep and this one.
    pub(super) after_gap: bool,
}

impl Nap {
    /// Returns the release if the wake-up is one. A timer is never due after it expired.
    pub(super) fn release(&self) -> Instant {
        self.due.map_or(self.wakes, |due| due.min(self.wakes))
    }

    pub(super) fn length(&self) -> Duration {
        self.wakes.saturating_since(self.sleeps)
    }
}
