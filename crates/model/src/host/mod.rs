//! The capacity of a host and the costs of its operations.
//!
//! [`HostProfile`] is the host as admission sees it. [`Calibration`] holds the measurements of a
//! host, with the distribution of each figure. Its file form is in `file`, its JSON in `serialize`, and
//! [`Calibration::profile`] converts it to a profile.

mod calibration;
mod file;
mod limits;
mod operation;
mod receiving;
mod sending;
mod serialize;
mod spread;

use crate::channel::SendCosts;
use crate::time::Service;

pub use calibration::{
    Absent, CacheRefill, Calibration, Figure, HostIdentity, Run, Sampled, StepCharge, SwitchCharge,
    Under,
};
pub use file::MAX_ENTRIES;
pub use limits::DeadlineLimits;
pub use operation::Operation;
pub use receiving::{ArrivalCost, ReceiveCharge, ReceiveCosts};
pub use sending::{MessageCost, SendCharge};
pub use spread::{Percentile, Spread, SpreadError};

/// The host as admission sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostProfile {
    /// The number of CPUs that may be promised.
    pub cpus: u16,
    /// The part of each CPU that may be promised to reservations, in parts per million.
    ///
    /// Linux keeps 5 % from all real-time classes (`sched_rt_runtime_us`) and up to 5 % for its
    /// fair server, so it is 900,000 unless the host is configured otherwise.
    pub reservable_ppm: u64,
    /// Processor time lost at each switch between two tasks. Each job is charged two switches: one
    /// when it starts to run and one when it stops. A job that is preempted charges its preemptor.
    pub context_switch: Service,
    /// The longest time from the timer of an idle thread until the thread runs. It is lost once in
    /// a busy period of a CPU, at its start. Zero: not measured.
    pub wake_up: Service,
    /// The time by which a timetable slot exceeds its budget. The dispatcher's wake-up, the switch
    /// and the thaw are lost at the start of the slot.
    pub slot_allowance: Service,
    /// The costs of sending; `None`: not measured.
    pub send_costs: Option<SendCosts>,
    /// The costs of receiving; `None`: not measured.
    pub receive_costs: Option<ReceiveCosts>,
    /// The kernel's limits on reservations.
    pub deadline_limits: DeadlineLimits,
}

impl HostProfile {
    /// The value of [`Self::slot_allowance`] without a measurement: the time from the timer to the
    /// first instruction of a thawed process, found by trial on a loaded virtual machine.
    pub const ASSUMED_SLOT_ALLOWANCE: Service = Service::from_micros(100);

    /// Returns a host of `cpus` CPUs with free switches and wake-ups, as textbooks and published
    /// task sets assume. A measured profile replaces it.
    pub const fn ideal(cpus: u16) -> Self {
        Self {
            cpus,
            reservable_ppm: 900_000,
            context_switch: Service::ZERO,
            wake_up: Service::ZERO,
            slot_allowance: Service::ZERO,
            send_costs: None,
            receive_costs: None,
            deadline_limits: DeadlineLimits::DEFAULT,
        }
    }
}
