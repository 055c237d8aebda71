//! The raw system calls, and the structure they share.
#![allow(unsafe_code)]

use punctual_model::reservation::Reservation;
use punctual_model::time::{Duration, Service};
use rustix::io::Errno;

use super::{Class, SchedError};
use crate::thread::Tid;

const OTHER: u32 = libc::SCHED_OTHER as u32;
const FIFO: u32 = libc::SCHED_FIFO as u32;
const RR: u32 = libc::SCHED_RR as u32;
const BATCH: u32 = libc::SCHED_BATCH as u32;
const IDLE: u32 = libc::SCHED_IDLE as u32;
const DEADLINE: u32 = libc::SCHED_DEADLINE as u32;

const RESET_ON_FORK: u64 = libc::SCHED_FLAG_RESET_ON_FORK as u64;

/// `struct sched_attr` of sched_setattr(2), first version: 48 bytes. Later versions append fields;
/// `size` says which version this is, so it stays valid.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

const SIZE: u32 = size_of::<SchedAttr>() as u32;
const _: () = assert!(SIZE == 48);

impl SchedAttr {
    /// Returns SCHED_IDLE, for a thread that runs only when no other wants the CPU.
    pub(crate) fn idle() -> Self {
        Self { size: SIZE, policy: IDLE, ..Self::default() }
    }

    /// Converts `class`, and checks the kernel's ranges of priority and nice, which the model's
    /// types do not.
    pub(crate) fn of(class: Class) -> Result<Self, SchedError> {
        let mut attr = Self { size: SIZE, ..Self::default() };
        match class {
            Class::Other { nice } => {
                // The kernel would clamp it silently.
                if !(-20..=19).contains(&nice) {
                    return Err(SchedError::NiceOutOfRange { nice });
                }
                (attr.policy, attr.nice) = (OTHER, nice);
            }
            Class::Fifo { priority } => {
                if !(1..=99).contains(&priority) {
                    return Err(SchedError::PriorityOutOfRange { priority });
                }
                (attr.policy, attr.priority) = (FIFO, u32::from(priority));
            }
            Class::Deadline { reservation, reset_on_fork } => {
                attr.policy = DEADLINE;
                attr.flags = if reset_on_fork { RESET_ON_FORK } else { 0 };
                attr.runtime = reservation.budget().as_nanos();
                attr.deadline = reservation.period().as_nanos();
                attr.period = reservation.period().as_nanos();
            }
        }
        Ok(attr)
    }

    pub(super) fn class(&self) -> Option<Class> {
        match self.policy {
            OTHER => Some(Class::Other { nice: self.nice }),
            FIFO => u8::try_from(self.priority).ok().map(|priority| Class::Fifo { priority }),
            DEADLINE if self.deadline == self.period => {
                let budget = Service::from_nanos(self.runtime);
                let reservation =
                    Reservation::new(budget, Duration::from_nanos(self.period)).ok()?;
                let reset_on_fork = self.flags & RESET_ON_FORK != 0;
                Some(Class::Deadline { reservation, reset_on_fork })
            }
            _ => None,
        }
    }

    pub(super) fn policy_name(&self) -> &'static str {
        match self.policy {
            OTHER => "SCHED_OTHER",
            FIFO => "SCHED_FIFO",
            RR => "SCHED_RR",
            BATCH => "SCHED_BATCH",
            IDLE => "SCHED_IDLE",
            DEADLINE => "SCHED_DEADLINE",
            _ => "an unknown policy",
        }
    }

    /// Returns true for a fair class, for which `runtime` is its slice (Linux 6.12 and later).
    pub(super) fn is_fair(&self) -> bool {
        matches!(self.policy, OTHER | BATCH | IDLE)
    }

    pub(super) fn is_deadline(&self) -> bool {
        self.policy == DEADLINE
    }

    /// Returns the same with reset_on_fork.
    pub(super) fn with_reset(self) -> Self {
        Self { flags: self.flags | RESET_ON_FORK, ..self }
    }

    /// Returns the same, with reset_on_fork if `now` has it, unless `now` is SCHED_DEADLINE: there
    /// the flag was part of the class.
    pub(super) fn with_reset_of(self, now: Self) -> Self {
        let kept = if now.is_deadline() { 0 } else { now.flags & RESET_ON_FORK };
        Self { flags: self.flags | kept, ..self }
    }

    /// Returns the same with the kernel's default slice.
    pub(super) fn with_default_slice(self) -> Self {
        Self { runtime: 0, ..self }
    }
}

/// Calls sched_getattr(2).
pub(super) fn get(thread: Tid) -> Result<SchedAttr, Errno> {
    let mut attr = SchedAttr::default();
    // SAFETY: the kernel writes at most `SIZE` bytes to `attr`, which is that large, outlives the
    // call and is not aliased; any bytes are a valid `SchedAttr`.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_getattr, thread.as_raw(), &raw mut attr, SIZE, 0u32)
    };
    check(result)?;
    attr.size = SIZE;
    Ok(attr)
}

/// Calls sched_setattr(2). It makes no other call and allocates nothing, so a child may call it
/// after fork(2).
pub(super) fn set(thread: Tid, attr: &SchedAttr) -> Result<(), Errno> {
    set_raw(thread.as_raw(), attr)
}

/// Does the same for the calling thread (id 0).
pub(crate) fn set_current(attr: &SchedAttr) -> Result<(), Errno> {
    set_raw(0, attr)
}

fn set_raw(thread: i32, attr: &SchedAttr) -> Result<(), Errno> {
    // SAFETY: the kernel only reads `attr.size` = 48 bytes, which `attr` has.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const *attr, 0u32) };
    check(result)
}

/// Calls sched_setparam(2) directly: musl's wrapper only returns ENOSYS.
pub(super) fn set_priority(thread: Tid, priority: u8) -> Result<(), Errno> {
    let param = libc::c_int::from(priority);
    // SAFETY: the kernel reads a `struct sched_param`, which is this one int, and writes nothing.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_setparam, thread.as_raw(), &raw const param) };
    check(result)
}

/// Converts the result of the last system call; the error branch is cold.
fn check(result: libc::c_long) -> Result<(), Errno> {
    if result >= 0 {
        return Ok(());
    }
    let errno = std::io::Error::last_os_error();
    // `last_os_error` always carries a raw error; EIO stands for "no reason given".
    Err(Errno::from_io_error(&errno).unwrap_or(Errno::IO))
}
