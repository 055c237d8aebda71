//! Defines where and how upcalls run.

use std::ffi::c_void;
use std::mem::offset_of;

use punctual_model::{Duration, Reservation, Service};
use punctual_runtime::Placement;

use super::contract::within;
use super::notice::punctual_on_notice;
use crate::error::Failure;
use crate::sized::Record;

/// The placement of the upcalls of a handle (punctual_options.placement).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum punctual_placement {
    /// Real-time upcalls: SCHED_FIFO, each waiting at the priority of its rate, admitted together
    /// by the exact test.
    PUNCTUAL_UPCALLS = 0,
    /// Inside a CPU reservation (budget_ns every period_ns): SCHED_DEADLINE.
    PUNCTUAL_RESERVED = 1,
    /// An ordinary thread, for comparison: there is no promise at all, and everything is admitted.
    PUNCTUAL_ORDINARY = 2,
}

/// Additional options (punctual_options.flags), added up.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum punctual_flags {
    /// Handlers that do not return are not contained: they hold up every upcall of the host.
    PUNCTUAL_WITHOUT_CONTAINMENT = 1,
    /// Inside a reservation, an upcall is admitted only if it is proven to be in time. Without this
    /// flag the sum of the needed processor time must fit, which is necessary but not sufficient.
    PUNCTUAL_PROOF_INSIDE = 2,
}

/// Options for the upcalls of a handle. All zero but the size is a good choice.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_options {
    /// sizeof(punctual_options).
    pub size: usize,
    /// A punctual_placement.
    pub placement: u32,
    /// punctual_flags, added up.
    pub flags: u32,
    /// For PUNCTUAL_RESERVED: the processor time in each period.
    pub budget_ns: u64,
    /// For PUNCTUAL_RESERVED: the period.
    pub period_ns: u64,
    /// The time that an iteration may take beyond its quantum before it is contained; 0: 1 ms.
    pub grace_ns: u64,
    /// The time that admission charges for a switch between two upcalls, twice a job; 0: nothing.
    pub context_switch_ns: u64,
    /// The number of containments after which an upcall is closed; 0: 3.
    pub most_containments: u32,
    /// The number of upcalls that may be created while others run; 0: 64.
    pub room: u32,
    /// Called for each notice; null: notices wait for punctual_notices.
    pub on_notice: punctual_on_notice,
    /// Passed to on_notice.
    pub on_notice_arg: *mut c_void,
}

// SAFETY: integers, pointers and a nullable function, a size first.
unsafe impl Record for punctual_options {
    const NAME: &'static str = "punctual_options";
    const FIRST: usize = offset_of!(Self, on_notice_arg) + size_of::<*mut c_void>();
}

impl Default for punctual_options {
    fn default() -> Self {
        Self {
            size: size_of::<Self>(),
            placement: punctual_placement::PUNCTUAL_UPCALLS as u32,
            flags: 0,
            budget_ns: 0,
            period_ns: 0,
            grace_ns: 0,
            context_switch_ns: 0,
            most_containments: 0,
            room: 0,
            on_notice: None,
            on_notice_arg: std::ptr::null_mut(),
        }
    }
}

impl punctual_options {
    /// Returns the room for upcalls. Memory is allocated for each.
    pub(crate) fn room(&self) -> Result<usize, Failure> {
        const MOST: u32 = 1 << 16;
        if self.room > MOST {
            let room = self.room;
            return Err(Failure::invalid(format!("punctual_options.room is {room}, above {MOST}")));
        }
        Ok(self.room as usize)
    }

    pub(crate) fn placement(&self) -> Result<Placement, Failure> {
        const UPCALLS: u32 = punctual_placement::PUNCTUAL_UPCALLS as u32;
        const RESERVED: u32 = punctual_placement::PUNCTUAL_RESERVED as u32;
        const ORDINARY: u32 = punctual_placement::PUNCTUAL_ORDINARY as u32;
        let period = within(self.period_ns, "punctual_options.period_ns")?;
        let period = Duration::from_nanos(period);
        Ok(match self.placement {
            RESERVED => {
                let budget =
                    Service::from_nanos(within(self.budget_ns, "punctual_options.budget_ns")?);
                return Ok(Placement::Reserved(Reservation::new(budget, period)?));
            }
            _ if self.budget_ns != 0 || self.period_ns != 0 => {
                return Err(Failure::invalid(
                    "a budget and a period belong to the placement PUNCTUAL_RESERVED",
                ));
            }
            UPCALLS => Placement::Upcalls,
            ORDINARY => Placement::Ordinary,
            other => {
                return Err(Failure::invalid(format!(
                    "{other} is no placement; they are 0 to 2 (punctual_placement)"
                )));
            }
        })
    }

    pub(crate) fn flag(&self, flag: punctual_flags) -> Result<bool, Failure> {
        let known = punctual_flags::PUNCTUAL_WITHOUT_CONTAINMENT as u32
            | punctual_flags::PUNCTUAL_PROOF_INSIDE as u32;
        if self.flags & !known != 0 {
            return Err(Failure::invalid(format!(
                "{:#x} has flags that are none (punctual_flags)",
                self.flags
            )));
        }
        Ok(self.flags & flag as u32 != 0)
    }
}
