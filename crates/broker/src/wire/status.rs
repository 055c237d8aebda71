//! What those are told who look.

use punctual_model::Duration;
use serde::{Deserialize, Serialize};

use crate::grant::GrantId;
use crate::want::Kind;

/// A page of what is granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Of the whole host.
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
    /// Of each CPU, in parts per million.
    pub reservable_ppm: u64,
    /// Charged for each of the two switches of a job.
    pub context_switch_ns: u64,
    /// Whose figure that is, in words.
    pub context_switch_from: String,
    /// Granted, all CPUs together.
    pub granted_ppm: u64,
    /// Grants that live.
    pub grants: u64,
    /// Connections.
    pub connections: u64,
    /// What the asking user may have.
    pub quota_ppm: u64,
    /// What the asking user has.
    pub yours_ppm: u64,
    /// Refused since the broker started.
    pub refused: u64,
    /// How late the guard was.
    pub guard: GuardStatus,
}

/// How late the looks of the guard at what is used were, since it started: each from when it was due until it was
/// over. The bound on overuse ([`punctual_policy::overuse`]) is longer by as much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardStatus {
    /// How many there were.
    pub looks: u64,
    /// How many were more than [`LATE`](Self::LATE) late.
    pub late: u64,
    /// The latest of all.
    pub worst_ns: u64,
}

impl GuardStatus {
    /// A look that ends later than that is counted.
    pub const LATE: Duration = Duration::from_millis(1);

    /// Counts a look that was over so long after it was due.
    pub(crate) fn count(&mut self, lateness: Duration) {
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
    /// What kind of guarantee.
    pub kind: Kind,
    /// Of whom.
    pub uid: u32,
    /// The process.
    pub pid: i32,
    /// The thread.
    pub thread: i32,
    /// In words.
    pub what: String,
    /// Of a CPU.
    pub share_ppm: u64,
    /// Processor time of each job; none where the grant is of no job or of several.
    pub budget_ns: Option<u64>,
    /// Between two jobs, and for each of them; none as for `budget_ns`.
    pub period_ns: Option<u64>,
    /// Over the last second or more; none while it is not known.
    pub used_ppm: Option<u64>,
    /// Where upcalls run.
    pub cpu: Option<u32>,
    /// Seconds since 1970.
    pub since: u64,
    /// Whether its holder is connected.
    pub connected: bool,
}

/// A request that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedStatus {
    /// Seconds since 1970.
    pub at: u64,
    /// Who asked.
    pub uid: u32,
    /// From which process.
    pub pid: i32,
    /// For what, in words.
    pub what: String,
    /// Why not.
    pub why: String,
}
