//! Keeping memory in RAM: a page fault in the middle of a job is a missed deadline.

use rustix::io::Errno;
use rustix::mm::MlockAllFlags;
use rustix::process::Resource;
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

/// Keeps all memory of this process in RAM until dropped.
#[derive(Debug)]
#[must_use = "dropping it unlocks the memory"]
pub struct Locked(());

/// Locks all pages of this process, present and future (mlockall(2), MCL_CURRENT | MCL_FUTURE).
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
        Ok(()) => Ok(Locked(())),
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

    #[test]
    fn memory_is_locked_until_the_guard_drops() {
        let _alone = LOCKED_BY_A_TEST.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        match lock_all() {
            Ok(guard) => {
                assert!(locked_kib() > 0);
                drop(guard);
                assert_eq!(locked_kib(), 0);
            }
            Err(refused) => println!("skipped: {refused}"),
        }
    }
}
