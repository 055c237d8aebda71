//! `broker.toml`: the host's promises, and the quota of each user.
//!
//! ```toml
//! [host]
//! reservable = "80%"            # of each CPU
//!
//! [channels]                    # without it, no channels
//! link = "1gbit/s"
//!
//! [default]                     # every user not named below
//! share = "10%"                 # of one CPU, all grants of a user together
//! allow = ["upcalls", "priority"]
//!
//! [[user]]
//! name = "studio"
//! share = "120%"
//! shortest_period = "500us"
//! allow = ["upcalls", "reservations", "priority"]
//! ```
//!
//! Every key, with unit and default, is in `docs/broker.md`. Unknown keys are refused; an error
//! names file, line and column.

mod channels;
mod raw;
#[cfg(test)]
mod tests;
mod validate;

use std::collections::BTreeSet;

use punctual_client::want::Kind;
use punctual_model::{Duration, Service};

pub use channels::{ChannelsConfig, EarlyDiscard, WireKind};

/// The longest configuration, in bytes.
pub const MAX_CONFIG: usize = 1 << 20;

/// The way in which upcall threads get their priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpcallMode {
    /// The way that can be watched completely: [`Self::FixedLevel`].
    Auto,
    /// `RLIMIT_RTPRIO` is raised, and the thread follows the level order itself. Takes
    /// CAP_SYS_RESOURCE. The limit applies to the whole process while only the thread of the grant
    /// is watched: use it only for trusted users.
    LevelOrder,
    /// The broker puts the thread at the level of its shortest period, for good. Takes only
    /// CAP_SYS_NICE, and leaves the client no limit to pass on to its children.
    FixedLevel,
}

impl UpcallMode {
    /// All of them with the names they have in the configuration.
    pub const NAMES: [(&'static str, Self); 3] = [
        ("auto", Self::Auto),
        ("level-order", Self::LevelOrder),
        ("fixed-level", Self::FixedLevel),
    ];
}

/// A valid configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// CPUs that may be promised; `None`: all that are online.
    pub cpus: Option<u16>,
    /// The reservable part of each CPU, in parts per million; `None`: what the kernel leaves to
    /// reservations.
    pub reservable_ppm: Option<u64>,
    /// The charge for a context switch, made twice a job, whatever was measured.
    pub context_switch: Option<Service>,
    /// The way in which upcall threads get their priority.
    pub upcalls: UpcallMode,
    /// The time for which a process without a connection keeps its grants.
    pub grace: Duration,
    /// The time that a user has to give back what the host can no longer promise.
    pub choose: Duration,
    /// The time for which a user is refused everything after one of their grants was revoked for
    /// overuse.
    pub penalty: Duration,
    /// The time for which a SCHED_FIFO thread may run without sleeping (`RLIMIT_RTTIME`).
    pub run_limit: Duration,
    /// The interval at which a part of the grants is looked at.
    pub sample: Duration,
    /// The time for which the guard goes on policing without a broker, before it takes back the
    /// grants that only it polices.
    pub orphan: Duration,
    /// The most connections of one user.
    pub max_connections: u32,
    /// The link that channels share; `None`: this broker carries no channels.
    pub channels: Option<ChannelsConfig>,
    /// The quotas of users and groups.
    pub quotas: Quotas,
}

/// The quotas of all users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quotas {
    pub(crate) default: Quota,
    pub(crate) users: Vec<(u32, Quota)>,
    pub(crate) groups: Vec<(u32, Quota)>,
}

impl Quotas {
    /// Returns whether anybody may have grants of this kind.
    pub fn allow(&self, kind: Kind) -> bool {
        let named = self.users.iter().chain(&self.groups).map(|(_, quota)| quota);
        named.chain([&self.default]).any(|quota| quota.allow.contains(&kind))
    }

    /// Returns the quota of a user in these groups: the user's own; else that of the first group of
    /// the file that the user is in; else the default.
    pub fn of(&self, uid: u32, gids: &[u32]) -> QuotaOf {
        if let Some((_, quota)) = self.users.iter().find(|(user, _)| *user == uid) {
            return QuotaOf { quota: quota.clone(), group: None };
        }
        if let Some((gid, quota)) = self.groups.iter().find(|(gid, _)| gids.contains(gid)) {
            return QuotaOf { quota: quota.clone(), group: Some(*gid) };
        }
        QuotaOf { quota: self.default.clone(), group: None }
    }
}

/// The configuration without a file: a tenth of a CPU for each user, no reservations.
impl Default for Config {
    fn default() -> Self {
        Self {
            cpus: None,
            reservable_ppm: None,
            context_switch: None,
            upcalls: UpcallMode::Auto,
            grace: Duration::from_secs(5),
            choose: Duration::from_secs(10),
            penalty: Duration::from_secs(10),
            run_limit: Duration::from_millis(500),
            sample: Duration::from_millis(100),
            orphan: Duration::from_secs(10),
            max_connections: 64,
            channels: None,
            quotas: Quotas { default: Quota::default(), users: Vec::new(), groups: Vec::new() },
        }
    }
}

/// The limits on each user to whom the quota applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The share of a CPU, in parts per million, of all grants of the user together. Above a
    /// million if several CPUs may be used.
    pub share_ppm: u64,
    /// The share of the link, in parts per million, that is promised to all channels of the user
    /// together.
    pub link_ppm: u64,
    /// Bytes of the queues of all channels of the user together: memory that the broker makes.
    pub queue_memory: u64,
    /// Like `share_ppm`, for all members of a group together; `None`: no such limit.
    pub together_ppm: Option<u64>,
    /// The most grants at a time, and the most channels.
    pub max_grants: u32,
    /// The shortest period. Shorter ones cost the host more switches than they are charged.
    pub shortest_period: Duration,
    /// The least share of a CPU for a reservation, in parts per million; smaller ones are refused.
    /// A kernel that ends budgets at its tick lets them run over by up to a tick. The thread then
    /// waits until its share has paid for that: inside the kernel too, with the locks it holds
    /// there, and after a kill.
    pub least_reservation_ppm: u64,
    /// The kinds of guarantee that may be requested.
    pub allow: BTreeSet<Kind>,
}

impl Default for Quota {
    fn default() -> Self {
        Self {
            share_ppm: 100_000,
            link_ppm: 100_000,
            queue_memory: 64 << 20,
            together_ppm: None,
            max_grants: 16,
            shortest_period: Duration::from_millis(1),
            // A tick of 4 ms is paid for within a second.
            least_reservation_ppm: 4_000,
            allow: BTreeSet::from([Kind::Upcalls, Kind::Priority, Kind::Channels, Kind::Program]),
        }
    }
}

/// The quota that applies to a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaOf {
    /// The limits.
    pub quota: Quota,
    /// The group from which the quota comes.
    pub group: Option<u32>,
}
