//! The ledger's record of one grant.

use std::time::{SystemTime, UNIX_EPOCH};

use punctual_linux::thread::Tid;
use serde::{Deserialize, Serialize};

use punctual_client::grant::{GrantId, Token};
use punctual_client::want::{RawChannel, RawWant};

/// The identity of a process, which distinguishes it from a later one with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessId {
    /// The kernel's id.
    pub pid: i32,
    /// Its start, in clock ticks since the boot (field 22 of /proc/PID/stat, proc_pid_stat(5)).
    pub start: u64,
}

/// The limits that a process had before its first grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OldLimits {
    /// `RLIMIT_RTPRIO`, soft and hard; `None`: unlimited.
    pub rtprio: (Option<u64>, Option<u64>),
    /// `RLIMIT_RTTIME`, in microseconds.
    pub rttime: (Option<u64>, Option<u64>),
}

/// A grant, with everything that a new broker needs to adopt it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its number.
    pub id: GrantId,
    /// The secret that its holder was given.
    pub token: Token,
    /// The user.
    pub uid: u32,
    /// The groups, the first being the process's own.
    pub gids: Vec<u32>,
    /// The process.
    pub process: ProcessId,
    /// The start of the thread, as [`ProcessId::start`].
    pub thread_start: u64,
    /// The request, with the thread's id.
    pub want: RawWant,
    /// The limits to restore at the end; `None` if no limit was changed.
    pub old_limits: Option<OldLimits>,
    /// The CPUs that the thread of upcalls could use before; `None` if they were not changed.
    #[serde(default)]
    pub old_cpus: Option<Vec<usize>>,
    /// The start of the grant, in seconds since 1970.
    pub since: u64,
    /// Whether the grant has ended while its thread has not left SCHED_DEADLINE yet.
    pub residual: bool,
}

impl Record {
    /// Returns the record of the grant's residual, held by `thread` with this start.
    pub fn left_by(&self, thread: Tid, thread_start: u64) -> Self {
        let want = self.want.clone().of(thread.as_raw());
        Self { residual: true, want, thread_start, ..self.clone() }
    }
}

/// A channel, with everything that a new broker needs to adopt it. Its queue is its holder's, which
/// hands it over again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelRecord {
    /// Its number, from the same count as those of grants.
    pub id: GrantId,
    /// The secret that its holder was given.
    pub token: Token,
    /// The user.
    pub uid: u32,
    /// The groups, the first being the process's own.
    pub gids: Vec<u32>,
    /// The process.
    pub process: ProcessId,
    /// The request that was granted.
    pub channel: RawChannel,
    /// The start of the grant, in seconds since 1970.
    pub since: u64,
}

/// Returns the present second since 1970, for records.
#[allow(clippy::disallowed_methods, reason = "a date for people to read, nothing waits for it")]
pub(crate) fn since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
