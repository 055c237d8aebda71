//! Identifies the places in a program at which its threads wait.

use core::fmt;

use punctual_model::{Duration, Instant};

use crate::kernel::Place;

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
}

/// The system calls in which programs wait: their numbers on x86-64 and on arm64, their names
/// (syscalls(2)), and what they wait for.
const CALLS: [(u32, u32, &str, Object); 31] = [
    (0, 63, "read", Object::Descriptor),
    (1, 64, "write", Object::Descriptor),
    (7, NONE, "poll", Object::Memory),
    (16, 29, "ioctl", Object::Descriptor),
    (19, 65, "readv", Object::Descriptor),
    (20, 66, "writev", Object::Descriptor),
    (23, NONE, "select", Object::Memory),
    (34, NONE, "pause", Object::Memory),
    (35, 101, "nanosleep", Object::Memory),
    (43, 202, "accept", Object::Descriptor),
    (44, 206, "sendto", Object::Descriptor),
    (45, 207, "recvfrom", Object::Descriptor),
    (46, 211, "sendmsg", Object::Descriptor),
    (47, 212, "recvmsg", Object::Descriptor),
    (61, 260, "wait4", Object::Memory),
    (128, 137, "rt_sigtimedwait", Object::Memory),
    (130, 133, "rt_sigsuspend", Object::Memory),
    (202, 98, "futex", Object::Futex),
    (208, 4, "io_getevents", Object::Memory),
    (230, 115, "clock_nanosleep", Object::Clock),
    (232, NONE, "epoll_wait", Object::Descriptor),
    (247, 95, "waitid", Object::Memory),
    (270, 72, "pselect6", Object::Memory),
    (271, 73, "ppoll", Object::Memory),
    (281, 22, "epoll_pwait", Object::Descriptor),
    (288, 242, "accept4", Object::Descriptor),
    (299, 243, "recvmmsg", Object::Descriptor),
    (426, 426, "io_uring_enter", Object::Descriptor),
    (441, 441, "epoll_pwait2", Object::Descriptor),
    (449, 449, "futex_waitv", Object::Memory),
    (455, 455, "futex_wait", Object::Futex),
];

/// The number of a call that an architecture does not have.
const NONE: u32 = u32::MAX;

fn call(syscall: u32) -> Option<(&'static str, Object)> {
    let arm64 = cfg!(target_arch = "aarch64");
    let found = CALLS.iter().find(|&&(x86, arm, ..)| syscall == if arm64 { arm } else { x86 });
    found.map(|&(_, _, name, object)| (name, object))
}

impl Wait {
    /// Returns the most precise description of a sleep in a system call.
    pub fn of(syscall: u32, place: Place) -> Self {
        let object = match call(syscall) {
            Some((_, Object::Futex)) => Some(place.first & !7),
            Some((_, Object::Clock)) => Some(place.first ^ u64::from(place.second) << 32),
            Some((_, Object::Memory)) => None,
            Some((_, Object::Descriptor)) | None => Some(place.first),
        };
        Self { syscall, object, stack: Some(place.stack) }
    }

    /// Returns whether the call waits for nothing but time. Whatever else ends it is no release.
    pub(super) fn is_for_time(&self) -> bool {
        matches!(call(self.syscall), Some(("nanosleep" | "clock_nanosleep", _)))
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
        let Some((name, object)) = call(self.syscall) else {
            return write!(f, "system call {}", self.syscall);
        };
        f.write_str(name)?;
        match (object, self.object) {
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
