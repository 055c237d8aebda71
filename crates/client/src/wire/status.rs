//! The status messages.

use punctual_model::Duration;
use serde::{Deserialize, Serialize};

use crate::grant::GrantId;
use crate::want::Kind;

/// A page of the grants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The sums of the whole host.
    pub totals: Totals,
    /// In ascending order of their numbers.
    pub grants: Vec<GrantStatus>,
    /// Whether there are more with greater numbers.
    pub more: bool,
    /// The latest refusals, the newest first.
    pub refusals: Vec<RefusedStatus>,
}

/// The host's sums.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// CPUs that may be promised.
    pub cpus: u32,
    /// The reservable part of each CPU, in parts per million.
    pub reservable_ppm: u64,
    /// The charge for each of the two switches of a job.
    pub context_switch_ns: u64,
    /// The source of that figure, in words.
    pub context_switch_from: String,
    /// The granted share of all CPUs together.
    pub granted_ppm: u64,
    /// Live grants.
    pub grants: u64,
    /// Connections.
    pub connections: u64,
    /// The quota of the asking user.
    pub quota_ppm: u64,
    /// The granted share of the asking user.
    pub yours_ppm: u64,
    /// Requests refused since the broker started.
    pub refused: u64,
    /// The lateness of the guard.
    pub guard: GuardStatus,
}

/// The lateness of the guard's looks at use since it started: each from its due time to its end.
/// The bound on overuse ([`punctual_policy::overuse`]) is longer by this much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardStatus {
    /// The number of looks.
    pub looks: u64,
    /// The number that were more than [`LATE`](Self::LATE) late.
    pub late: u64,
    /// The greatest lateness.
    pub worst_ns: u64,
}

impl GuardStatus {
    /// A look that ends later than this after its due time is counted as late.
    pub const LATE: Duration = Duration::from_millis(1);

    /// Counts a look that ended this long after it was due.
    pub fn count(&mut self, lateness: Duration) {
        self.looks += 1;
        self.late += u64::from(lateness > Self::LATE);
        self.worst_ns = self.worst_ns.max(lateness.as_nanos());
    }
}

/// One grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantStatus {
    /// Its number.
    pub grant: GrantId,
    /// The kind of guarantee.
    pub kind: Kind,
    /// The user that holds it.
    pub uid: u32,
    /// The process.
    pub pid: i32,
    /// The thread.
    pub thread: i32,
    /// The guarantee, in words.
    pub what: String,
    /// The share of a CPU.
    pub share_ppm: u64,
    /// Processor time of each job; `None` if the grant is for no job or for several.
    pub budget_ns: Option<u64>,
    /// The period and relative deadline of each job; `None` as for `budget_ns`.
    pub period_ns: Option<u64>,
    /// The use over the last second or more; `None` while it is not known.
    pub used_ppm: Option<u64>,
    /// The CPU of upcalls.
    pub cpu: Option<u32>,
    /// The start of the grant, in seconds since 1970.
    pub since: u64,
    /// Whether its holder is connected.
    pub connected: bool,
}

/// A request that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedStatus {
    /// The time, in seconds since 1970.
    pub at: u64,
    /// The user that asked.
    pub uid: u32,
    /// The process that asked.
    pub pid: i32,
    /// The request, in words.
    pub what: String,
    /// The reason.
    pub why: String,
}
