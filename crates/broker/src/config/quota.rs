//! The quota of a user.

use std::collections::BTreeSet;

use punctual_model::Duration;

use punctual_client::want::Kind;

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
            allow: BTreeSet::from([Kind::Upcalls, Kind::Priority, Kind::Channels]),
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
