//! What one user may have.

use std::collections::BTreeSet;

use punctual_model::Duration;

use crate::want::Kind;

/// What each user may have to whom it applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Of a CPU, in parts per million: all grants of the user together. Above a million where several
    /// CPUs may be used.
    pub share_ppm: u64,
    /// Of the link, in parts per million: what is promised to all channels of the user together.
    pub link_ppm: u64,
    /// Bytes of the queues of all channels of the user together: memory that the broker makes.
    pub queue_memory: u64,
    /// As `share_ppm`, for all members of a group together; none: no such limit.
    pub together_ppm: Option<u64>,
    /// Grants at a time; and as many channels.
    pub max_grants: u32,
    /// Shorter periods cost the host more switches than they are charged.
    pub shortest_period: Duration,
    /// Of a CPU, in parts per million: smaller reservations are refused. A kernel that ends budgets at its
    /// tick lets them run over by up to that, and the thread then waits until its share has paid for it,
    /// inside the kernel too, with what it has locked there, and after a kill.
    pub least_reservation_ppm: u64,
    /// What may be asked for.
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
    /// The numbers.
    pub quota: Quota,
    /// The group whose it is.
    pub group: Option<u32>,
}
