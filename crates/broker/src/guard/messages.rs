//! The messages between the broker and its guard.

use punctual_client::grant::GrantId;
use punctual_client::wire::GuardStatus;
use serde::{Deserialize, Serialize};

use crate::kernel::privileges::Account;
use crate::ledger::ProcessId;

/// The broker's orders to the guard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// The first order: the user as which to run; `None`: as it is.
    Begin { account: Option<Account> },
    /// The interval of wake-ups, and the time to go on without a broker, in nanoseconds.
    Settings { sample: u64, orphan: u64 },
    /// Watch a grant, or hold it to other terms.
    Watch(Watched),
    /// A grant is over.
    Forget(GrantId),
    /// To be answered when everything before it is done.
    Sync(u64),
}

/// A grant as the guard knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Watched {
    pub(crate) grant: GrantId,
    /// The id of the person that holds it.
    pub(crate) person: u32,
    pub(crate) process: ProcessId,
    pub(crate) thread: i32,
    /// The start of the thread, as [`ProcessId::start`].
    pub(crate) thread_start: u64,
    pub(crate) share_ppm: u64,
    /// In nanoseconds.
    pub(crate) burst: u64,
    /// The longest period in nanoseconds; zero if there is none.
    pub(crate) longest: u64,
    pub(crate) held: HeldBy,
    /// The kernel's number of the CPU that the thread must not leave.
    pub(crate) cpu: Option<u32>,
}

/// The mechanism that holds a thread to its grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum HeldBy {
    /// The kernel (SCHED_DEADLINE): the guard only observes.
    Kernel,
    /// The guard: the thread was put at this SCHED_FIFO priority.
    Level(u8),
    /// The guard: the thread may raise itself.
    LevelOrder,
}

/// The guard's news to the broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum News {
    /// A look has ended. `used` is the use of some grants in their last window, in parts per
    /// million of a CPU; `looks` is the lateness of all looks so far.
    Alive { used: Vec<(GrantId, u64)>, looks: GuardStatus },
    /// Everything before [`Order::Sync`] is done.
    Synced(u64),
    /// The use comes near to the grant.
    Near { grant: GrantId, used_ppm: u64 },
    /// More was used than granted.
    Over { grant: GrantId, used_ppm: u64, owed: u64, most: u64, within: u64 },
    /// The class was taken back.
    Taken { grant: GrantId, why: Breach },
    /// The thread has ended.
    Ended { grant: GrantId },
    /// The thread is alive, but its use cannot be measured: no descriptors are left.
    Unseen { grant: GrantId },
}

/// The reason why a class was taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Breach {
    /// Overuse was not paid back: `owed` nanoseconds beyond what may be used ahead.
    Overuse { used_ppm: u64, owed: u64 },
    /// The thread may run on other CPUs than the one where its upcalls were admitted.
    Moved,
}

impl News {
    /// Returns the key of news that must be delivered even if there is no room now, and only in its
    /// latest form.
    pub(super) fn key(&self) -> Option<(GrantId, u8)> {
        match self {
            Self::Alive { .. } | Self::Synced(_) => None,
            Self::Near { grant, .. } => Some((*grant, 0)),
            Self::Over { grant, .. } => Some((*grant, 1)),
            Self::Taken { grant, .. } => Some((*grant, 2)),
            Self::Ended { grant } | Self::Unseen { grant } => Some((*grant, 3)),
        }
    }
}
