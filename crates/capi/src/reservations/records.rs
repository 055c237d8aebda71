//! Defines the request for a reservation, and its state.

use std::mem::offset_of;

use punctual_model::{Duration, Enforcement, Reservation, Service};

use crate::error::Failure;
use crate::sized::Record;
use crate::upcalls::within;

/// The treatment of an owner that has used its budget (punctual_reserve.enforcement).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum punctual_enforcement {
    /// It goes on as an ordinary program.
    PUNCTUAL_SOFT = 0,
    /// It waits for its next period.
    PUNCTUAL_HARD = 1,
}

/// The back end of a reservation.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum punctual_backend {
    /// The kernel's SCHED_DEADLINE, enforced at scheduler ticks.
    PUNCTUAL_KERNEL = 0,
    /// A timetable that a thread of this process follows: X in every window of length Y.
    PUNCTUAL_TIMETABLE = 1,
    /// A deferrable server, for a program: up to X in each period, whenever it wakes.
    PUNCTUAL_SERVER = 2,
}

/// A request for a reservation of X every Y.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_reserve {
    /// sizeof(punctual_reserve).
    pub size: usize,
    /// X: the processor time in each period.
    pub budget_ns: u64,
    /// Y: the period.
    pub period_ns: u64,
    /// A punctual_enforcement.
    pub enforcement: u32,
    /// Not zero: the budget is enforced exactly, while SCHED_DEADLINE alone enforces it to within a
    /// tick or two.
    pub exact: u32,
}

// SAFETY: integers only, a size first.
unsafe impl Record for punctual_reserve {
    const NAME: &'static str = "punctual_reserve";
    const FIRST: usize = offset_of!(Self, exact) + size_of::<u32>();
}

/// The state of a reservation. Unknown values are all ones.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_reservation_info {
    /// sizeof(punctual_reservation_info).
    pub size: usize,
    /// X: the processor time in each period.
    pub budget_ns: u64,
    /// Y: the period.
    pub period_ns: u64,
    /// The processor time used: by a thread since its period began, by a process since it was
    /// admitted.
    pub used_ns: u64,
    /// For a thread: the rest of this period's budget.
    pub left_ns: u64,
    /// For a timetable: the start of the first promised window (CLOCK_MONOTONIC).
    pub since_ns: u64,
    /// For a timetable: the number of slots given so far.
    pub slots: u64,
    /// For a timetable: the number of times that the kernel refused to start or stop the owner. Not
    /// zero means that the promise is broken, because this process lost its rights, or the owner's
    /// control group was removed.
    pub failures: u64,
    /// A punctual_backend.
    pub backend: u32,
    /// For a timetable: the number of its CPU. SCHED_DEADLINE may use every CPU.
    pub cpu: u32,
}

// SAFETY: integers only, a size first.
unsafe impl Record for punctual_reservation_info {
    const NAME: &'static str = "punctual_reservation_info";
    const FIRST: usize = offset_of!(Self, cpu) + size_of::<u32>();
}

impl punctual_reserve {
    pub(super) fn parts(&self) -> Result<(Reservation, Enforcement), Failure> {
        const SOFT: u32 = punctual_enforcement::PUNCTUAL_SOFT as u32;
        const HARD: u32 = punctual_enforcement::PUNCTUAL_HARD as u32;
        let enforcement = match self.enforcement {
            SOFT => Enforcement::Soft,
            HARD => Enforcement::Hard,
            other => {
                return Err(Failure::invalid(format!(
                    "{other} is neither PUNCTUAL_SOFT nor _HARD"
                )));
            }
        };
        Ok((reservation(self.budget_ns, self.period_ns)?, enforcement))
    }
}

/// Validates X every Y.
pub(crate) fn reservation(budget_ns: u64, period_ns: u64) -> Result<Reservation, Failure> {
    let budget = Service::from_nanos(within(budget_ns, "the budget")?);
    let period = Duration::from_nanos(within(period_ns, "the period")?);
    Ok(Reservation::new(budget, period)?)
}
