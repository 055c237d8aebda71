//! Scheduling classes: ordinary, SCHED_FIFO, and reservations through SCHED_DEADLINE (sched(7)).

mod error;
mod limits;
mod raw;
mod restore;
#[cfg(test)]
mod tests;

use punctual_model::reservation::Reservation;
use punctual_model::time::Duration;
use rustix::io::Errno;

use crate::clock;
use crate::thread::{self, Tid};

pub use error::SchedError;
pub(crate) use error::of_child;
pub use limits::{KernelLimits, LEAST_BUDGET, bandwidth_cap};
pub(crate) use raw::{SchedAttr, set_current};
pub use restore::Restore;

/// For how long [`set`] asks again when the kernel has no bandwidth: that of a thread that left
/// SCHED_DEADLINE or was killed stays on the account until the deadline it had, so for up to its
/// period. This covers all but reservations with periods of a second and more.
pub const LINGER: Duration = Duration::from_millis(300);

/// The pause between two such tries.
pub(crate) const LINGER_PAUSE: Duration = Duration::from_micros(500);

/// A scheduling class with its parameters.
///
/// The priority of `Fifo` is the kernel's: 99 is the most urgent. It is the one place where a
/// larger number wins, because it is Linux's own; `model` says the direction for everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// SCHED_OTHER: a fair share, with the nice value, −20 (most) to 19 (least).
    Other {
        /// The nice value.
        nice: i32,
    },
    /// SCHED_FIFO: runs until it sleeps or a higher priority wants the CPU.
    Fifo {
        /// 1 (lowest) to 99.
        priority: u8,
    },
    /// SCHED_DEADLINE with the relative deadline equal to the period.
    Deadline {
        /// Budget and period.
        reservation: Reservation,
        /// Threads and processes it makes start as ordinary ones. Without it, it can make none:
        /// clone(2) fails with EAGAIN.
        reset_on_fork: bool,
    },
}

/// How a thread is scheduled, with everything needed to schedule it so again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduling(SchedAttr);

impl Scheduling {
    /// The class, if it is one of [`Class`]; none for SCHED_RR, SCHED_BATCH, SCHED_IDLE,
    /// SCHED_EXT, and for a SCHED_DEADLINE thread whose deadline is not its period.
    pub fn class(&self) -> Option<Class> {
        self.0.class()
    }

    /// The policy as the manual page calls it.
    pub fn policy_name(&self) -> &'static str {
        self.0.policy_name()
    }
}

/// How `thread` is scheduled now (sched_getattr(2)). Needs no privilege.
pub fn get(thread: Tid) -> Result<Scheduling, SchedError> {
    raw::get(thread).map(Scheduling).map_err(|errno| error::of_get(thread, errno))
}

/// Puts `thread` into `class` (sched_setattr(2)).
///
/// A reservation is first held against the kernel's own limits, so that the refusal can name the
/// one it breaks, and is asked for again for up to [`LINGER`] while the kernel says EBUSY: so
/// this may block that long, and is not for the hot path.
///
/// A thread leaves SCHED_DEADLINE only by itself ([`SchedError::MustLeaveItself`] says why).
pub fn set(thread: Tid, class: Class) -> Result<(), SchedError> {
    let attr = SchedAttr::of(class)?;
    let Class::Deadline { reservation, .. } = class else {
        if thread != thread::current() && raw::get(thread).is_ok_and(|now| now.is_deadline()) {
            return Err(SchedError::MustLeaveItself { thread });
        }
        return raw::set(thread, &attr).map_err(|errno| error::of_set(thread, class, errno));
    };
    KernelLimits::read().check(reservation)?;
    let until = clock::now() + LINGER;
    loop {
        match raw::set(thread, &attr) {
            Ok(()) => return Ok(()),
            Err(Errno::BUSY) if clock::now() < until => clock::sleep(LINGER_PAUSE),
            Err(errno) => return Err(error::of_set(thread, class, errno)),
        }
    }
}

/// Whether this process may use `class`, found by trying: a scratch thread with the caller's CPUs
/// enters and leaves it.
pub fn try_out(class: Class) -> Result<(), SchedError> {
    let body = move || {
        let restore = Restore::current()?;
        set(thread::current(), class)?;
        restore.restore()
    };
    let scratch = std::thread::Builder::new().name("punctual-probe".to_owned()).spawn(body);
    let joined = scratch.map_err(|_| SchedError::CannotFork)?.join();
    joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// [`set`] that takes the first EBUSY for an answer.
pub(crate) fn set_without_retry(thread: Tid, class: Class) -> Result<(), SchedError> {
    let attr = SchedAttr::of(class)?;
    raw::set(thread, &attr).map_err(|errno| error::of_set(thread, class, errno))
}

/// Changes the priority of a thread that is under SCHED_FIFO already: one system call, some
/// 1.2 µs, nothing else on the way of success.
///
/// By sched_setparam(2), which leaves the policy alone: an id that meanwhile belongs to an
/// ordinary thread gives an error instead of a real-time thread nobody asked for.
pub fn set_fifo_priority(thread: Tid, priority: u8) -> Result<(), SchedError> {
    raw::set_priority(thread, priority)
        .map_err(|errno| error::of_set(thread, Class::Fifo { priority }, errno))
}
