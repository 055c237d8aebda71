//! Encodes why a job was late. The types here copy those of [`crate::cause`], so that those may
//! change while files stay readable.

use alloc::string::String;
use alloc::vec::Vec;

use punctual_model::{Duration, Instant, JobId, Service};
use serde::{Deserialize, Serialize};

use crate::cause::{LateJob, Share, Spent, Throttler, Verdict};
use crate::kernel::{Class, Comm, Interrupt, Seen};

/// The number of causes of one job that are written. Beyond it, the smallest shares are left out.
pub(super) const MOST_CAUSES: usize = 1 << 12;
/// The number of levels in the wire format if it is not known.
const NO_LEVEL: u8 = u8::MAX;

/// A verdict in the wire format.
#[derive(Serialize, Deserialize)]
pub(super) struct WireVerdict {
    task: u32,
    index: u64,
    release_ns: u64,
    absolute_deadline_ns: u64,
    end_ns: u64,
    wcet_ns: Option<u64>,
    own_ns: u64,
    shares: Vec<WireShare>,
}

#[derive(Serialize, Deserialize)]
struct WireShare {
    cause: WireSpent,
    took_ns: u64,
    times: u32,
    longest_at_ns: u64,
    share_ns: u64,
}

/// The order of the variants is part of the format.
#[derive(Serialize, Deserialize)]
enum WireSpent {
    Own,
    Other(WireSeen),
    HardIrq(WireInterrupt),
    SoftIrq(u8),
    LateTimer,
    ThrottledByKernel,
    ThrottledByPunctual,
    PageFault,
    Blocked { syscall: Option<u32>, uninterruptible: bool, waker: Option<WireSeen> },
    Stolen,
    Switching,
    Unknown,
    Subject(u32),
    System { syscall: Option<u32> },
    ThrottledByQuota { levels: u8 },
    Stopped { by: Option<WireSeen> },
    Traced,
    Frozen,
}

#[derive(Serialize, Deserialize)]
struct WireSeen {
    tid: u32,
    comm: String,
    class: WireClass,
}

#[derive(Serialize, Deserialize)]
enum WireClass {
    Idle,
    Ordinary,
    RealTime(u8),
    Deadline,
}

#[derive(Serialize, Deserialize)]
enum WireInterrupt {
    Line(u32),
    LocalTimer,
    FromCpu,
    Vector(u8),
}

impl WireVerdict {
    pub(super) fn of(verdict: &Verdict) -> Self {
        let late = verdict.late;
        Self {
            task: late.job.task,
            index: late.job.index,
            release_ns: late.release.as_nanos(),
            absolute_deadline_ns: late.absolute_deadline.as_nanos(),
            end_ns: late.end.as_nanos(),
            wcet_ns: late.wcet.map(Service::as_nanos),
            own_ns: verdict.own.as_nanos(),
            shares: verdict.shares.iter().take(MOST_CAUSES).map(WireShare::of).collect(),
        }
    }

    pub(super) fn verdict(self) -> Verdict {
        let at = Instant::from_nanos;
        let late = LateJob {
            job: JobId { task: self.task, index: self.index },
            release: at(self.release_ns),
            absolute_deadline: at(self.absolute_deadline_ns),
            end: at(self.end_ns),
            wcet: self.wcet_ns.map(Service::from_nanos),
        };
        let shares = self.shares.into_iter().map(WireShare::share).collect();
        Verdict { late, own: Duration::from_nanos(self.own_ns), shares }
    }
}

impl WireShare {
    fn of(share: &Share) -> Self {
        Self {
            cause: WireSpent::of(share.cause),
            took_ns: share.took.as_nanos(),
            times: share.times,
            longest_at_ns: share.longest_at.as_nanos(),
            share_ns: share.share.as_nanos(),
        }
    }

    fn share(self) -> Share {
        Share {
            cause: self.cause.spent(),
            took: Duration::from_nanos(self.took_ns),
            times: self.times,
            longest_at: Instant::from_nanos(self.longest_at_ns),
            share: Duration::from_nanos(self.share_ns),
        }
    }
}

impl WireSpent {
    fn of(spent: Spent) -> Self {
        match spent {
            Spent::Own => Self::Own,
            Spent::Other(seen) => Self::Other(WireSeen::of(seen)),
            Spent::HardIrq(vector) => Self::HardIrq(WireInterrupt::of(vector)),
            Spent::SoftIrq(vector) => Self::SoftIrq(vector),
            Spent::LateTimer => Self::LateTimer,
            Spent::Throttled(Throttler::Kernel) => Self::ThrottledByKernel,
            Spent::Throttled(Throttler::Punctual) => Self::ThrottledByPunctual,
            Spent::PageFault => Self::PageFault,
            Spent::Blocked { syscall, uninterruptible, waker } => {
                Self::Blocked { syscall, uninterruptible, waker: waker.map(WireSeen::of) }
            }
            Spent::Stolen => Self::Stolen,
            Spent::Switching => Self::Switching,
            Spent::Unknown => Self::Unknown,
            Spent::Subject(number) => Self::Subject(number),
            Spent::System { syscall } => Self::System { syscall },
            Spent::Throttled(Throttler::Quota { levels }) => {
                Self::ThrottledByQuota { levels: levels.unwrap_or(NO_LEVEL) }
            }
            Spent::Stopped { by } => Self::Stopped { by: by.map(WireSeen::of) },
            Spent::Traced => Self::Traced,
            Spent::Frozen => Self::Frozen,
        }
    }

    fn spent(self) -> Spent {
        match self {
            Self::Own => Spent::Own,
            Self::Other(seen) => Spent::Other(seen.seen()),
            Self::HardIrq(vector) => Spent::HardIrq(vector.interrupt()),
            Self::SoftIrq(vector) => Spent::SoftIrq(vector),
            Self::LateTimer => Spent::LateTimer,
            Self::ThrottledByKernel => Spent::Throttled(Throttler::Kernel),
            Self::ThrottledByPunctual => Spent::Throttled(Throttler::Punctual),
            Self::PageFault => Spent::PageFault,
            Self::Blocked { syscall, uninterruptible, waker } => {
                Spent::Blocked { syscall, uninterruptible, waker: waker.map(WireSeen::seen) }
            }
            Self::Stolen => Spent::Stolen,
            Self::Switching => Spent::Switching,
            Self::Unknown => Spent::Unknown,
            Self::Subject(number) => Spent::Subject(number),
            Self::System { syscall } => Spent::System { syscall },
            Self::ThrottledByQuota { levels } => {
                let levels = Some(levels).filter(|&levels| levels != NO_LEVEL);
                Spent::Throttled(Throttler::Quota { levels })
            }
            Self::Stopped { by } => Spent::Stopped { by: by.map(WireSeen::seen) },
            Self::Traced => Spent::Traced,
            Self::Frozen => Spent::Frozen,
        }
    }
}

impl WireSeen {
    fn of(seen: Seen) -> Self {
        let class = match seen.class {
            Class::Idle => WireClass::Idle,
            Class::Ordinary => WireClass::Ordinary,
            Class::RealTime(priority) => WireClass::RealTime(priority),
            Class::Deadline => WireClass::Deadline,
        };
        Self { tid: seen.tid, comm: seen.comm.chars().collect(), class }
    }

    fn seen(self) -> Seen {
        let class = match self.class {
            WireClass::Idle => Class::Idle,
            WireClass::Ordinary => Class::Ordinary,
            WireClass::RealTime(priority) => Class::RealTime(priority),
            WireClass::Deadline => Class::Deadline,
        };
        Seen { tid: self.tid, comm: Comm::from(&*self.comm), class }
    }
}

impl WireInterrupt {
    fn of(interrupt: Interrupt) -> Self {
        match interrupt {
            Interrupt::Line(line) => Self::Line(line),
            Interrupt::LocalTimer => Self::LocalTimer,
            Interrupt::FromCpu => Self::FromCpu,
            Interrupt::Vector(vector) => Self::Vector(vector),
        }
    }

    fn interrupt(self) -> Interrupt {
        match self {
            Self::Line(line) => Interrupt::Line(line),
            Self::LocalTimer => Interrupt::LocalTimer,
            Self::FromCpu => Interrupt::FromCpu,
            Self::Vector(vector) => Interrupt::Vector(vector),
        }
    }
}
