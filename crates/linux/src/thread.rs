//! Threads: their ids, the CPUs they may use, and how precisely their timers fire.

use std::num::NonZeroU64;

use punctual_model::time::Duration;
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::CpuSet;
use thiserror::Error;

/// A thread of this host by its kernel id (gettid(2)).
///
/// The kernel reuses the id of a dead thread, so keep a `Tid` only while its thread lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tid(Pid);

impl Tid {
    /// Returns the thread with this kernel id, or `None` if the id is not positive.
    pub fn from_raw(id: i32) -> Option<Self> {
        if id < 0 { None } else { Pid::from_raw(id).map(Self) }
    }

    /// Returns the kernel id, which is positive.
    pub fn as_raw(self) -> i32 {
        self.0.as_raw_nonzero().get()
    }
}

impl std::fmt::Display for Tid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.as_raw())
    }
}

/// Returns the calling thread. This is a system call of some 160 ns: call it once and keep the
/// result.
pub fn current() -> Tid {
    Tid(rustix::thread::gettid())
}

/// Returns the CPU that the calling thread runs on, numbered from 0 (getcpu(2)). Unless the thread
/// is pinned, it may have moved by the time this returns. This makes no system call and takes some
/// 20 ns.
pub fn current_cpu() -> usize {
    rustix::thread::sched_getcpu()
}

/// Returns true if `thread` has our effective user id, by /proc/TID/status (proc_pid_status(5)).
/// The owner of the /proc directory itself would not do: it differs if the program has capabilities
/// of its own. Returns false if there is no such thread, or /proc does not show it.
pub fn is_of_this_user(thread: Tid) -> bool {
    let status = crate::procfs::text(format!("/proc/{thread}/status")).unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    // The fields are the real, effective, saved and file system ids.
    let effective = ids.and_then(|ids| ids.split_whitespace().nth(1));
    effective.and_then(|id| id.parse().ok()) == Some(rustix::process::geteuid().as_raw())
}

/// Returns whether `thread` may run on `cpu` alone; `None` if it has ended. Allocates nothing.
pub fn is_pinned_to(thread: Tid, cpu: usize) -> Option<bool> {
    let set = rustix::thread::sched_getaffinity(Some(thread.0)).ok()?;
    Some(set.count() == 1 && set.is_set(cpu))
}

/// The reason a thread cannot use the requested CPUs.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AffinityError {
    /// None of the CPUs is both online and in the thread's cpuset.
    #[error("CPU {cpus:?} is not one this thread may use; it may use {allowed:?}")]
    NotAllowed {
        /// The requested CPUs.
        cpus: Vec<usize>,
        /// The CPUs that the thread may use now.
        allowed: Vec<usize>,
    },
    /// The thread is under SCHED_DEADLINE, which admits it for its whole root domain (sched(7)).
    #[error(
        "a thread under SCHED_DEADLINE may not be pinned: the kernel admits it for all CPUs of \
         its cpuset; pin it inside an exclusive cpuset, or before it enters the class with \
         kernel.sched_rt_runtime_us = -1"
    )]
    Reserved,
    /// Another error of sched_setaffinity(2).
    #[error("sched_setaffinity(2) failed: {0}")]
    Failed(Errno),
}

/// Restricts the calling thread to `cpu` (sched_setaffinity(2)).
///
/// CPUs are numbered as the kernel does, from 0. The previous affinity is not saved:
/// [`crate::sched::Restore`] does that.
pub fn pin_to(cpu: usize) -> Result<(), AffinityError> {
    set_affinity(&[cpu])
}

/// Restricts the calling thread to these CPUs.
pub fn set_affinity(cpus: &[usize]) -> Result<(), AffinityError> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        // `CpuSet::set` panics beyond its size; the kernel would return EINVAL.
        if cpu >= CpuSet::MAX_CPU {
            return Err(not_allowed(cpus));
        }
        set.set(cpu);
    }
    rustix::thread::sched_setaffinity(None, &set).map_err(|errno| match errno {
        Errno::INVAL => not_allowed(cpus),
        Errno::BUSY => AffinityError::Reserved,
        other => AffinityError::Failed(other),
    })
}

fn not_allowed(cpus: &[usize]) -> AffinityError {
    AffinityError::NotAllowed { cpus: cpus.to_vec(), allowed: affinity() }
}

/// Returns the CPUs that the calling thread may use, ascending.
///
/// Empty if the kernel has more CPUs than a `CpuSet` counts (1,024).
pub fn affinity() -> Vec<usize> {
    affinity_of_raw(None)
}

/// Returns the CPUs that `thread` may use, ascending; empty if there is no such thread.
pub fn affinity_of(thread: Tid) -> Vec<usize> {
    affinity_of_raw(Some(thread.0))
}

fn affinity_of_raw(thread: Option<Pid>) -> Vec<usize> {
    match rustix::thread::sched_getaffinity(thread) {
        // It ends at the last of them, because most sets have few CPUs and room for many.
        Ok(set) => {
            (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).take(set.count() as usize).collect()
        }
        Err(_) => Vec::new(),
    }
}

/// Returns how late the kernel may wake the calling thread in order to wake several threads at once
/// (PR_GET_TIMERSLACK, prctl(2)): 50 µs by default, zero for real-time threads.
pub fn timer_slack() -> Duration {
    Duration::from_nanos(rustix::thread::current_timer_slack().unwrap_or(0))
}

/// Sets the calling thread's timer slack (PR_SET_TIMERSLACK).
///
/// Zero becomes 1 ns, the minimum, because zero means the default to the kernel. A thread under
/// SCHED_FIFO, SCHED_RR or SCHED_DEADLINE has no slack and ignores this.
pub fn set_timer_slack(slack: Duration) {
    // This cannot fail: PR_SET_TIMERSLACK takes any value for the calling thread.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(slack.as_nanos().max(1)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_can_be_pinned_to_each_cpu_it_has() {
        std::thread::spawn(|| {
            let before = affinity();
            assert!(!before.is_empty());
            for &cpu in &before {
                pin_to(cpu).expect("one of our own CPUs");
                assert_eq!(affinity(), [cpu]);
                set_affinity(&before).expect("what we had");
            }
            assert_eq!(affinity_of(current()), before);
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn a_cpu_that_is_not_there_is_refused_by_name() {
        for cpu in [CpuSet::MAX_CPU - 1, CpuSet::MAX_CPU, usize::MAX] {
            let refused = pin_to(cpu).expect_err("no such CPU");
            assert!(matches!(refused, AffinityError::NotAllowed { .. }), "{refused}");
            assert!(refused.to_string().contains(&cpu.to_string()), "{refused}");
        }
    }

    #[test]
    fn timer_slack_is_set_for_this_thread() {
        std::thread::spawn(|| {
            set_timer_slack(Duration::from_micros(7));
            assert_eq!(timer_slack(), Duration::from_micros(7));
            set_timer_slack(Duration::ZERO);
            assert_eq!(timer_slack(), Duration::from_nanos(1));
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn a_thread_knows_its_cpu_and_its_user() {
        assert!(is_of_this_user(current()));
        assert!(!is_of_this_user(Tid::from_raw(i32::MAX).expect("positive")), "nobody's");
        std::thread::spawn(|| {
            for cpu in affinity() {
                pin_to(cpu).expect("one of our own CPUs");
                assert_eq!(current_cpu(), cpu);
            }
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn a_thread_id_is_positive() {
        assert_eq!(Tid::from_raw(0), None);
        assert_eq!(Tid::from_raw(-1), None);
        assert_eq!(Tid::from_raw(current().as_raw()), Some(current()));
    }
}
