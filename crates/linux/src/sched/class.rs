//! A scheduling class, the kernel's limits on it, and the meanings of the kernel's errors with what
//! would help.

use punctual_model::reservation::Reservation;
use punctual_model::time::{Duration, Service};
use rustix::io::Errno;
use rustix::process::Resource;
use thiserror::Error;

use crate::host::{self, KernelLimits, Throttling};
use crate::thread;
use crate::thread::Tid;

/// The smallest budget of SCHED_DEADLINE: 2^10 ns, the granularity of the kernel's bandwidth
/// arithmetic (sched_setattr(2), EINVAL).
pub const LEAST_BUDGET: Service = Service::from_nanos(1024);

/// A scheduling class with its parameters.
///
/// The priority of `Fifo` is the kernel's: 99 is the most urgent. It is the one place where a
/// larger number wins, because the number is Linux's own; `model` defines the direction for
/// everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// SCHED_OTHER: a fair share, weighted by the nice value, −20 (most) to 19 (least).
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
        /// Threads and processes that it makes start under SCHED_OTHER. Without this flag it can
        /// make none: clone(2) fails with EAGAIN.
        reset_on_fork: bool,
    },
}

/// The reason a thread cannot be scheduled as requested, as a sentence that says what would help.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SchedError {
    /// EPERM for SCHED_FIFO.
    #[error(
        "no privilege for SCHED_FIFO priority {priority}: RLIMIT_RTPRIO is {rtprio_limit} and \
         CAP_SYS_NICE is missing; add \"<user> - rtprio 99\" to /etc/security/limits.conf and log \
         in again, or give the program the capability: setcap cap_sys_nice+ep PROGRAM"
    )]
    NoFifoPrivilege {
        /// The requested priority.
        priority: u8,
        /// The soft limit.
        rtprio_limit: u64,
    },
    /// EPERM for SCHED_DEADLINE without the capability. No resource limit can replace it.
    #[error(
        "no privilege for SCHED_DEADLINE: CAP_SYS_NICE is missing; run as root, or give the \
         program the capability: setcap cap_sys_nice+ep PROGRAM"
    )]
    NoDeadlinePrivilege,
    /// EPERM or EACCES for a nice value.
    #[error(
        "no privilege for the nice value {nice}: CAP_SYS_NICE is missing and RLIMIT_NICE allows \
         less; add \"<user> - nice -20\" to /etc/security/limits.conf and log in again"
    )]
    NoNicePrivilege {
        /// The requested value.
        nice: i32,
    },
    /// EPERM for a real-time class although the privilege is there, under RT_GROUP_SCHED.
    #[error(
        "the control group {cgroup} has no real-time budget (CONFIG_RT_GROUP_SCHED): write one, \
         such as 950000, to its cpu.rt_runtime_us (its parents first), or move to the root group"
    )]
    CgroupWithoutRealTime {
        /// The directory of the group.
        cgroup: String,
    },
    /// EPERM for SCHED_DEADLINE although the privilege is there.
    #[error(
        "SCHED_DEADLINE needs every CPU of the root domain, and this thread may use only {allowed:?} \
         of {online} online: lift the pinning (taskset, cpuset), or make an exclusive cpuset of \
         its CPUs"
    )]
    AffinityTooNarrow {
        /// The CPUs that the thread may use.
        allowed: Vec<usize>,
        /// The number of CPUs online.
        online: usize,
    },
    /// EPERM for a reason that we cannot find.
    #[error(
        "the kernel forbids it although CAP_SYS_NICE is there: the thread may belong to another \
         user, or a security module or container may refuse sched_setattr(2)"
    )]
    Forbidden,
    /// EBUSY for SCHED_DEADLINE, still after [`super::LINGER`] of retries.
    #[error(
        "no processor bandwidth is left for {reservation} ({:.1} % of a CPU): {}; end other \
         SCHED_DEADLINE threads or ask for less (that of a thread which ended is free some \
         milliseconds later)", 100.0 * reservation.utilisation(), cap_text(*.cap_ppm)
    )]
    NoBandwidth {
        /// The requested reservation.
        reservation: Reservation,
        /// The cap per CPU for all real-time classes together, in parts per million; `None` if
        /// unlimited.
        cap_ppm: Option<u32>,
    },
    /// The budget is below the kernel's granularity.
    #[error("the budget {budget} is below the {LEAST_BUDGET} that SCHED_DEADLINE can enforce")]
    BudgetTooShort {
        /// The requested budget.
        budget: Service,
    },
    /// The period is below kernel.sched_deadline_period_min_us.
    #[error(
        "the period {period} is below this kernel's least, {shortest} \
         (kernel.sched_deadline_period_min_us)"
    )]
    PeriodTooShort {
        /// The requested period.
        period: Duration,
        /// The kernel's bound.
        shortest: Duration,
    },
    /// The period is above kernel.sched_deadline_period_max_us.
    #[error(
        "the period {period} is above this kernel's longest, {longest} \
         (kernel.sched_deadline_period_max_us)"
    )]
    PeriodTooLong {
        /// The requested period.
        period: Duration,
        /// The kernel's bound.
        longest: Duration,
    },
    /// The priority is not one of SCHED_FIFO's.
    #[error("SCHED_FIFO has the priorities 1 to 99, and {priority} is none of them")]
    PriorityOutOfRange {
        /// The requested priority.
        priority: u8,
    },
    /// The value is not a nice value.
    #[error("nice values are -20 to 19, and {nice} is none of them")]
    NiceOutOfRange {
        /// The requested value.
        nice: i32,
    },
    /// EINVAL of [`super::set_fifo_priority`].
    #[error("thread {thread} is not under SCHED_FIFO, so it has no priority {priority} to take")]
    NotFifo {
        /// The thread to be changed.
        thread: Tid,
        /// The requested priority.
        priority: u8,
    },
    /// A refusal of our own, not the kernel's. If another thread moves a sleeping thread out of
    /// SCHED_DEADLINE, the kernel never gives the bandwidth back, not even when the thread ends
    /// (seen on Linux 6.18: `switched_from_dl()` returns it only for a runnable thread). After a
    /// few of those the host admits no reservation until its root domains are rebuilt.
    #[error(
        "thread {thread} is under SCHED_DEADLINE and must leave that class itself: moved out by \
         another while it sleeps, the kernel would never give its bandwidth back"
    )]
    MustLeaveItself {
        /// The thread to be changed.
        thread: Tid,
    },
    /// ESRCH.
    #[error("there is no thread {thread}; it has ended")]
    NoSuchThread {
        /// The thread to be changed.
        thread: Tid,
    },
    /// EAGAIN: a thread could not be made, because its creator is under SCHED_DEADLINE.
    #[error(
        "a thread under SCHED_DEADLINE cannot make threads or processes unless it has \
         reset_on_fork (sched(7)), or the limit on threads is reached (RLIMIT_NPROC)"
    )]
    CannotFork,
    /// Any other error.
    #[error("sched_setattr(2) failed: {0}")]
    Failed(Errno),
}

impl SchedError {
    /// Returns true if the host or the user's rights must change, rather than the request.
    pub fn is_privilege(&self) -> bool {
        matches!(
            self,
            Self::NoFifoPrivilege { .. }
                | Self::NoDeadlinePrivilege
                | Self::NoNicePrivilege { .. }
                | Self::CgroupWithoutRealTime { .. }
                | Self::AffinityTooNarrow { .. }
                | Self::Forbidden
        )
    }
}

fn cap_text(cap_ppm: Option<u32>) -> String {
    match cap_ppm {
        Some(ppm) => format!(
            "this kernel gives real-time work {:.1} % of each CPU at most, less what its fair \
             server keeps (kernel.sched_rt_runtime_us)",
            f64::from(ppm) / 10_000.0
        ),
        None => "although kernel.sched_rt_runtime_us sets no limit".to_owned(),
    }
}

/// Explains an error of sched_setattr(2) or sched_setparam(2).
pub(super) fn of_set(thread: Tid, class: Class, errno: Errno) -> SchedError {
    match (errno, class) {
        (Errno::SRCH, _) => SchedError::NoSuchThread { thread },
        (Errno::PERM | Errno::ACCESS, class) => of_denied(Some(thread), class),
        (Errno::INVAL, Class::Fifo { priority }) => SchedError::NotFifo { thread, priority },
        (errno, Class::Deadline { reservation, .. }) => of_deadline(reservation, errno),
        (errno, _) => SchedError::Failed(errno),
    }
}

/// Explains an error of a reservation that a child requested for itself; the child has ended since.
pub(crate) fn of_child(reservation: Reservation, errno: Errno) -> SchedError {
    match errno {
        Errno::PERM | Errno::ACCESS => {
            of_denied(None, Class::Deadline { reservation, reset_on_fork: true })
        }
        errno => of_deadline(reservation, errno),
    }
}

fn of_deadline(reservation: Reservation, errno: Errno) -> SchedError {
    match errno {
        Errno::BUSY => SchedError::NoBandwidth { reservation, cap_ppm: bandwidth_cap() },
        Errno::AGAIN => SchedError::CannotFork,
        Errno::INVAL => match KernelLimits::read().check(reservation) {
            Err(limit) => limit,
            Ok(()) => SchedError::Failed(errno),
        },
        errno => SchedError::Failed(errno),
    }
}

/// Explains EPERM: either privilege is missing, or something else forbids the class. `None` is the
/// calling thread.
fn of_denied(thread: Option<Tid>, class: Class) -> SchedError {
    if let (Class::Other { nice }, false) = (class, host::has_cap_sys_nice()) {
        return SchedError::NoNicePrivilege { nice };
    }
    let privileged = host::has_cap_sys_nice();
    let cgroup = host::rt_group().filter(|group| group.budget.is_zero()).map(|group| group.path);
    match (class, privileged, cgroup) {
        (Class::Deadline { .. }, false, _) => SchedError::NoDeadlinePrivilege,
        (Class::Fifo { priority }, false, None) => {
            let limit = rustix::process::getrlimit(Resource::Rtprio).current.unwrap_or(u64::MAX);
            SchedError::NoFifoPrivilege { priority, rtprio_limit: limit }
        }
        (Class::Fifo { .. }, _, Some(cgroup)) => SchedError::CgroupWithoutRealTime { cgroup },
        (Class::Deadline { .. }, true, _) => {
            let allowed = thread.map_or_else(thread::affinity, thread::affinity_of);
            let online = host::cpus_online();
            if allowed.len() < online {
                SchedError::AffinityTooNarrow { allowed, online }
            } else {
                SchedError::Forbidden
            }
        }
        (Class::Other { .. } | Class::Fifo { .. }, true, _) => SchedError::Forbidden,
        (Class::Other { nice }, false, _) => SchedError::NoNicePrivilege { nice },
    }
}

/// Explains an error of sched_getattr(2).
pub(super) fn of_get(thread: Tid, errno: Errno) -> SchedError {
    if errno == Errno::SRCH {
        SchedError::NoSuchThread { thread }
    } else {
        SchedError::Failed(errno)
    }
}

impl KernelLimits {
    /// Checks `reservation` against these limits and the smallest budget.
    pub fn check(&self, reservation: Reservation) -> Result<(), SchedError> {
        let (budget, period) = (reservation.budget(), reservation.period());
        if budget < LEAST_BUDGET {
            Err(SchedError::BudgetTooShort { budget })
        } else if period < self.shortest_period {
            Err(SchedError::PeriodTooShort { period, shortest: self.shortest_period })
        } else if period > self.longest_period {
            Err(SchedError::PeriodTooLong { period, longest: self.longest_period })
        } else {
            Ok(())
        }
    }
}

/// Returns the part of each CPU that real-time classes may have together, in parts per million
/// (kernel.sched_rt_runtime_us of sched_rt_period_us, sched(7)), or `None` if it is unlimited or
/// unreadable.
///
/// The kernel admits less to SCHED_DEADLINE if a fair server keeps 5 % for ordinary work.
pub fn bandwidth_cap() -> Option<u32> {
    let Throttling::Capped { budget, period } = host::throttling()? else { return None };
    u32::try_from(budget.as_nanos().checked_mul(1_000_000)?.checked_div(period.as_nanos())?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_of_the_kernel_is_named() {
        let check = |text: &str| KernelLimits::DEFAULT.check(text.parse().expect("well-formed"));
        assert_eq!(check("2ms/8ms"), Ok(()));
        assert_eq!(check("1024ns/100us"), Ok(()));
        assert_eq!(check("4.194304s/4.194304s"), Ok(()));
        for (text, limit) in [
            ("1023ns/1ms", "1.024us"),
            ("10us/99us", "sched_deadline_period_min_us"),
            ("1ms/5s", "sched_deadline_period_max_us"),
        ] {
            let refused = check(text).expect_err(text).to_string();
            assert!(refused.contains(limit), "{refused}");
        }
    }
}
