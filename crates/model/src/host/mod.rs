//! What a host can give and what its operations cost.
//!
//! [`HostProfile`] is what admission needs of it. [`Calibration`] is what was measured there, with the
//! spread of each figure; its file form is in `file`, and [`Calibration::profile`] leads from the one
//! to the other.

mod calibration;
mod file;
mod limits;
mod operation;
mod receiving;
mod sending;
mod spread;

use crate::channel::SendCosts;
use crate::time::Service;

pub use calibration::{
    Absent, CacheRefill, Calibration, Figure, HostIdentity, Run, SwitchCharge, Under,
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
    /// CPUs that may be promised.
    pub cpus: u16,
    /// The part of each CPU that may be promised to reservations, in parts per million.
    ///
    /// Linux keeps 5 % from all real-time classes (`sched_rt_runtime_us`) and up to 5 % for its
    /// fair server, so 900,000 unless the host says otherwise.
    pub reservable_ppm: u64,
    /// Processor time lost at each switch between two tasks. Each job is charged two of them, one
    /// when it starts to run and one when it stops; a job that is preempted charges its preemptor.
    pub context_switch: Service,
    /// How long after its timer a thread runs that had nothing to do, at most. It is lost once in a busy period of a
    /// CPU, at its start. Zero: not measured.
    pub wake_up: Service,
    /// By how much a slot of a timetable is longer than the budget that it gives: the dispatcher's wake-up, the
    /// switch and the thaw are lost at its start.
    pub slot_allowance: Service,
    /// What sending costs; `None`: not measured.
    pub send_costs: Option<SendCosts>,
    /// What receiving costs; `None`: not measured.
    pub receive_costs: Option<ReceiveCosts>,
    /// What the kernel asks of reservations.
    pub deadline_limits: DeadlineLimits,
}

impl HostProfile {
    /// What is taken for [`Self::slot_allowance`] where nobody has measured it: from the timer to the first
    /// instruction of a thawed process, on a loaded virtual machine, by trying.
    pub const ASSUMED_SLOT_ALLOWANCE: Service = Service::from_micros(100);

    /// A host of `cpus` CPUs on which switching and waking up are free: what textbooks and published task sets
    /// assume. A measured profile replaces it.
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
