//! Defines the contracts of upcalls, and limits their arguments, so that sums of them never
//! overflow 64 bits of nanoseconds.

use std::ffi::c_char;
use std::mem::offset_of;

use punctual_linux::clock;
use punctual_model::{
    BestEffort, BestEffortSpec, Duration, Instant, Overrun, Service, Upcall, UpcallSpec,
};

use crate::error::Failure;
use crate::sized::{Record, text};

/// The longest time. A longer one is a mistake in units, or a -1.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// The treatment of late jobs (punctual_contract.overrun).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum punctual_overrun {
    /// Every late job still runs, the oldest first.
    PUNCTUAL_CATCH_UP = 0,
    /// Jobs whose deadline passes before they begin are dropped. A job that has begun runs to its
    /// end.
    PUNCTUAL_SKIP = 1,
    /// As PUNCTUAL_SKIP; in addition, a job that has begun ends at its first yield point after its
    /// deadline.
    PUNCTUAL_ABORT = 2,
    /// Late jobs run only when no other real-time upcall wants the CPU.
    PUNCTUAL_DEMOTE = 3,
    /// As PUNCTUAL_CATCH_UP, with an urgent notice.
    PUNCTUAL_NOTIFY = 4,
}

/// The contract of a real-time upcall: what it is promised, and what it promises.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_contract {
    /// sizeof(punctual_contract).
    pub size: usize,
    /// A name for people, which appears in refusals. It is copied; null: "".
    pub name: *const c_char,
    /// The time between two releases, which is also the relative deadline of each job.
    pub period_ns: u64,
    /// The most processor time that one PDU (packet, sample, frame) takes.
    pub time_per_pdu_ns: u64,
    /// The number of PDUs processed each period.
    pub batch: u32,
    /// The most PDUs that each call of `iterate` processes, between two yield points.
    pub quantum: u32,
    /// A punctual_overrun.
    pub overrun: u32,
    /// Must be zero.
    pub reserved: u32,
}

// SAFETY: integers and a pointer, a size first.
unsafe impl Record for punctual_contract {
    const NAME: &'static str = "punctual_contract";
    const FIRST: usize = offset_of!(Self, reserved) + size_of::<u32>();
}

impl punctual_contract {
    /// Validates the contract.
    ///
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

/// The contract of a best-effort (virtual-time) upcall, which gets a share of what real-time work
/// leaves.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_best_effort {
    /// sizeof(punctual_best_effort).
    pub size: usize,
    /// A name for people. It is copied; null: "".
    pub name: *const c_char,
    /// The most processor time that one PDU takes.
    pub time_per_pdu_ns: u64,
    /// The time after which `iterate` is called again when it had nothing to do.
    pub poll_ns: u64,
    /// The weight, 1 to 100. The share among best-effort upcalls is proportional to it.
    pub weight: u32,
    /// The most PDUs that each call of `iterate` processes.
    pub quantum: u32,
}

// SAFETY: integers and a pointer, a size first.
unsafe impl Record for punctual_best_effort {
    const NAME: &'static str = "punctual_best_effort";
    const FIRST: usize = offset_of!(Self, quantum) + size_of::<u32>();
}

impl punctual_best_effort {
    /// Validates the contract.
    ///
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

/// Checks a length of time or of work.
pub(crate) fn within(ns: u64, name: &str) -> Result<u64, Failure> {
    if ns > LONGEST.as_nanos() {
        return Err(Failure::invalid(format!("{name} is {ns} ns, which is more than a year")));
    }
    Ok(ns)
}

/// Returns an instant to begin at, which is now if it has passed or is zero.
pub(crate) fn from_now_on(ns: u64, name: &str) -> Result<Instant, Failure> {
    let now = clock::now();
    let at = Instant::from_nanos(ns).max(now);
    within((at - now).as_nanos(), &format!("{name}, from now,"))?;
    Ok(at)
}

/// Returns the end of a time-out. All ones never ends.
pub(crate) fn after(timeout_ns: u64) -> Instant {
    clock::now().saturating_add(Duration::from_nanos(timeout_ns))
}
