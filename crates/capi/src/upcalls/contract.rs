//! What an upcall is promised, and promises.

use std::ffi::c_char;
use std::mem::offset_of;

use punctual_model::{BestEffort, BestEffortSpec, Duration, Overrun, Service, Upcall, UpcallSpec};

use super::limits::within;
use crate::error::Failure;
use crate::sized::{Record, text};

/// What becomes of jobs that are late (punctual_contract.overrun).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum punctual_overrun {
    /// Every late job still runs, the oldest first.
    PUNCTUAL_CATCH_UP = 0,
    /// Jobs whose deadline has passed before they began are dropped. One that has begun goes on.
    PUNCTUAL_SKIP = 1,
    /// As PUNCTUAL_SKIP; and a job that has begun ends at its first yield point after its deadline.
    PUNCTUAL_ABORT = 2,
    /// Late jobs run only when no other real-time upcall wants the CPU.
    PUNCTUAL_DEMOTE = 3,
    /// As PUNCTUAL_CATCH_UP, and the notice of it is urgent.
    PUNCTUAL_NOTIFY = 4,
}

/// What a real-time upcall is promised, and promises.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_contract {
    /// sizeof(punctual_contract).
    pub size: usize,
    /// What people call it: it stands in refusals. Copied; null: "".
    pub name: *const c_char,
    /// The time between two releases; also the relative deadline of each job.
    pub period_ns: u64,
    /// The most processor time that one PDU (packet, sample, frame) takes.
    pub time_per_pdu_ns: u64,
    /// PDUs processed each period.
    pub batch: u32,
    /// PDUs processed in each call of `iterate`, at most: between two yield points.
    pub quantum: u32,
    /// A punctual_overrun.
    pub overrun: u32,
    /// Zero.
    pub reserved: u32,
}

// SAFETY: integers and a pointer, a size first.
unsafe impl Record for punctual_contract {
    const NAME: &'static str = "punctual_contract";
    const FIRST: usize = offset_of!(Self, reserved) + size_of::<u32>();
}

impl punctual_contract {
    /// # Safety
    /// `name` is null or ends with a zero.
    pub(crate) unsafe fn upcall(&self) -> Result<Upcall, Failure> {
        use punctual_overrun::*;
        let policies = [
            (PUNCTUAL_CATCH_UP, Overrun::CatchUp),
            (PUNCTUAL_SKIP, Overrun::Skip),
            (PUNCTUAL_ABORT, Overrun::Abort),
            (PUNCTUAL_DEMOTE, Overrun::Demote),
            (PUNCTUAL_NOTIFY, Overrun::Notify),
        ];
        let policy = policies.iter().find(|(number, _)| *number as u32 == self.overrun);
        let Some((_, overrun)) = policy else {
            let overrun = self.overrun;
            return Err(Failure::invalid(format!(
                "{overrun} is no overrun policy; they are 0 to 4"
            )));
        };
        if self.reserved != 0 {
            return Err(Failure::invalid("punctual_contract.reserved is not zero"));
        }
        let upcall = Upcall::new(UpcallSpec {
            // SAFETY: as promised.
            name: unsafe { text(self.name) },
            period: Duration::from_nanos(within(self.period_ns, "punctual_contract.period_ns")?),
            batch: self.batch,
            quantum: self.quantum,
            time_per_pdu: Service::from_nanos(self.time_per_pdu_ns),
        })?;
        Ok(upcall.with_overrun(*overrun))
    }
}

/// What a best-effort (virtual-time) upcall asks for: a share of what real-time work leaves.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_best_effort {
    /// sizeof(punctual_best_effort).
    pub size: usize,
    /// What people call it. Copied; null: "".
    pub name: *const c_char,
    /// The most processor time that one PDU takes.
    pub time_per_pdu_ns: u64,
    /// When `iterate` had nothing to do, it is asked again after this.
    pub poll_ns: u64,
    /// Its share among best-effort upcalls is proportional to this: 1 to 100.
    pub weight: u32,
    /// PDUs processed in each call of `iterate`, at most.
    pub quantum: u32,
}

// SAFETY: integers and a pointer, a size first.
unsafe impl Record for punctual_best_effort {
    const NAME: &'static str = "punctual_best_effort";
    const FIRST: usize = offset_of!(Self, quantum) + size_of::<u32>();
}

impl punctual_best_effort {
    /// # Safety
    /// `name` is null or ends with a zero.
    pub(crate) unsafe fn best_effort(&self) -> Result<BestEffort, Failure> {
        let poll = within(self.poll_ns, "punctual_best_effort.poll_ns")?;
        let quantum = self.time_per_pdu_ns.saturating_mul(u64::from(self.quantum));
        within(quantum, "the quantum times the time per PDU")?;
        Ok(BestEffort::new(BestEffortSpec {
            // SAFETY: as promised.
            name: unsafe { text(self.name) },
            weight: self.weight,
            quantum: self.quantum,
            time_per_pdu: Service::from_nanos(self.time_per_pdu_ns),
            poll: Duration::from_nanos(poll),
        })?)
    }
}
