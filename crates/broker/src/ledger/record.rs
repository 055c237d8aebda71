//! What the ledger says of one grant.

use punctual_linux::thread::Tid;
use serde::{Deserialize, Serialize};

use crate::grant::{GrantId, Token};
use crate::want::{RawChannel, RawWant};

/// A process by what tells it from a later one with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessId {
    /// The kernel's id.
    pub pid: i32,
    /// When it started, in clock ticks since the boot (field 22 of /proc/PID/stat, proc_pid_stat(5)).
    pub start: u64,
}

/// The limits that a process had before its first grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OldLimits {
    /// `RLIMIT_RTPRIO`, soft and hard; none: unlimited.
    pub rtprio: (Option<u64>, Option<u64>),
    /// `RLIMIT_RTTIME`, in microseconds.
    pub rttime: (Option<u64>, Option<u64>),
}

/// A grant, with everything that a broker needs that knows nothing else of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its number.
    pub id: GrantId,
    /// What its holder was told.
    pub token: Token,
    /// The user.
    pub uid: u32,
    /// The groups, the first being the process's own.
    pub gids: Vec<u32>,
    /// The process.
    pub process: ProcessId,
    /// When the thread started, as [`ProcessId::start`].
    pub thread_start: u64,
    /// For what, with the thread's id.
    pub want: RawWant,
    /// To be put back at the end; none where no limit was touched.
    pub old_limits: Option<OldLimits>,
    /// The CPUs that the thread of upcalls could use before; none where they were not changed.
    #[serde(default)]
    pub old_cpus: Option<Vec<usize>>,
    /// Seconds since 1970.
    pub since: u64,
    /// The grant has ended, and its thread has not left SCHED_DEADLINE yet.
    pub residual: bool,
}

impl Record {
    /// What is left of the grant, with `thread` that started then.
    pub fn left_by(&self, thread: Tid, thread_start: u64) -> Self {
        let want = self.want.clone().of(thread.as_raw());
        Self { residual: true, want, thread_start, ..self.clone() }
    }
}

/// A channel, with everything that a broker needs that knows nothing else of it. Its queue is its
/// holder's, who hands it over again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelRecord {
    /// Its number, from the same count as those of grants.
    pub id: GrantId,
    /// What its holder was told.
    pub token: Token,
    /// The user.
    pub uid: u32,
    /// The groups, the first being the process's own.
    pub gids: Vec<u32>,
    /// The process.
    pub process: ProcessId,
    /// What was granted.
    pub channel: RawChannel,
    /// Seconds since 1970.
    pub since: u64,
}
