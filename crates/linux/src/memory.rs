//! Keeping memory in RAM: a page fault in the middle of a job is a missed deadline.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::mm::MlockAllFlags;
use rustix::process::Resource;
use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};
use thiserror::Error;

use crate::host::privileges;

/// The reason memory cannot be locked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LockError {
    /// EPERM, ENOMEM or EAGAIN of mlockall(2): the limit on locked memory is too low.
    #[error(
        "memory cannot be locked: RLIMIT_MEMLOCK is {limit_bytes} bytes and this process has no \
         CAP_IPC_LOCK; add \"<user> - memlock unlimited\" to /etc/security/limits.conf and log in \
         again, or give the program the capability: setcap cap_ipc_lock+ep PROGRAM"
    )]
    OverLimit {
        /// The soft limit in bytes.
        limit_bytes: u64,
    },
    /// Another error of mlockall(2).
    #[error("mlockall(2) failed: {0}")]
    Failed(Errno),
}

/// Whether [`avoid_huge_pages`] changed this process, for its children.
static CHANGED: AtomicBool = AtomicBool::new(false);

/// Keeps the kernel from replacing pages of this process by huge ones (PR_SET_THP_DISABLE, prctl(2)).
///
/// Its thread khugepaged takes 2 MiB of ordinary memory out of use while it copies them, locked or
/// not, and a thread that touches them meanwhile waits for that, whatever its class: a real-time
/// thread of a channel waited for 5.3 ms in an emulated machine, whose processor copies slowly.
/// Programs that this process starts inherit it, unless
/// [`allow_huge_pages_on_exec`](crate::process::allow_huge_pages_on_exec) prevents that.
pub fn avoid_huge_pages() {
    // EINVAL means a kernel without huge pages, or one older than this.
    if matches!(transparent_huge_pages_are_disabled(), Ok(false))
        && disable_transparent_huge_pages(true).is_ok()
    {
        CHANGED.store(true, Ordering::Relaxed);
    }
}

/// Undoes [`avoid_huge_pages`]. Makes one system call at most and allocates nothing.
pub(crate) fn allow_huge_pages() {
    if CHANGED.load(Ordering::Relaxed) {
        // The same call has worked with `true`; if it fails, the child goes without huge pages.
        let _ = disable_transparent_huge_pages(false);
    }
}

/// Keeps all memory of this process in RAM until dropped.
#[derive(Debug)]
#[must_use = "dropping it unlocks the memory"]
pub struct Locked(());

/// Locks all pages of this process, present and future (mlockall(2), MCL_CURRENT | MCL_FUTURE), and
/// has them stay where they are ([`avoid_huge_pages`]), also when they are unlocked again.
///
/// The lock belongs to the process, not to the guard: dropping one of two guards unlocks
/// everything. A child does not inherit it. Without CAP_IPC_LOCK, a finite RLIMIT_MEMLOCK is
/// refused even where the kernel would allow the lock now, because a later allocation beyond the
/// limit would fail and end the process.
pub fn lock_all() -> Result<Locked, LockError> {
    let privileges = privileges();
    if let (Some(limit_bytes), false) = (privileges.memlock_bytes, privileges.capabilities.ipc_lock)
    {
        return Err(LockError::OverLimit { limit_bytes });
    }
    match rustix::mm::mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE) {
        Ok(()) => {
            avoid_huge_pages();
            Ok(Locked(()))
        }
        Err(Errno::PERM | Errno::NOMEM | Errno::AGAIN) => Err(LockError::OverLimit {
            limit_bytes: rustix::process::getrlimit(Resource::Memlock).current.unwrap_or(u64::MAX),
        }),
        Err(other) => Err(LockError::Failed(other)),
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // munlockall(2) has no error that a living process can meet.
        let _ = rustix::mm::munlockall();
    }
}

/// Held for writing by the test that locks the memory of the whole process, and for reading by
/// tests that distinguish resident pages from absent ones.
#[cfg(test)]
pub(crate) static LOCKED_BY_A_TEST: std::sync::RwLock<()> = std::sync::RwLock::new(());

#[cfg(test)]
mod tests {
    use super::*;

    fn locked_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").expect("mounted");
        let line = status.lines().find_map(|l| l.strip_prefix("VmLck:")).expect("always there");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    fn huge_pages() -> Option<String> {
        huge_pages_in(&std::fs::read_to_string("/proc/self/status").expect("mounted"))
    }

    /// Returns "1" if the kernel may use huge pages, `None` before Linux 5.0.
    fn huge_pages_in(status: &str) -> Option<String> {
        let line = status.lines().find_map(|l| l.strip_prefix("THP_enabled:"))?;
        Some(line.trim().to_owned())
    }

    #[test]
    fn memory_is_locked_until_the_guard_drops() {
        let _alone = LOCKED_BY_A_TEST.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        // A kernel without huge pages has none to avoid.
        let before = huge_pages();
        match lock_all() {
            Ok(guard) => {
                assert!(locked_kib() > 0);
                assert_eq!(huge_pages(), before.as_ref().map(|_| "0".to_owned()));
                drop(guard);
                assert_eq!(locked_kib(), 0);
                let mut child = std::process::Command::new("cat");
                child.arg("/proc/self/status");
                crate::process::allow_huge_pages_on_exec(&mut child);
                let status = child.output().expect("cat is there").stdout;
                let status = String::from_utf8(status).expect("text");
                assert_eq!(huge_pages_in(&status), before, "a child has them as before");
            }
            Err(refused) => println!("skipped: {refused}"),
        }
    }
}
