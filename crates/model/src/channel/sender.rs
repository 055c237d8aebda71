//! The sending host: what admission and the link scheduler must agree on.

use super::costs::{Link, Packetisation, SendCosts};
use crate::reservation::Reservation;
use crate::time::{Duration, Service};

/// Where the link scheduler runs (real-time channels, §3.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkScheduling {
    /// O1: in the handler that finds the link idle, else in the completion interrupt.
    InInterrupt,
    /// O2: in a thread of its own at top priority, which gets the processor when a handler yields.
    InThread,
}

impl LinkScheduling {
    /// Both with the names they have in a contract.
    pub const NAMES: [(&'static str, Self); 2] =
        [("interrupt", Self::InInterrupt), ("thread", Self::InThread)];
}

/// Messages without a promise, sent whenever there is nothing else to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BestEffort {
    /// There are none.
    None,
    /// Each of so many bytes.
    Sized {
        /// The smallest, at least 1.
        least: u32,
        /// The largest.
        most: u32,
    },
}

impl BestEffort {
    /// Describes messages of exactly so many bytes; of one, if it says none.
    pub fn fixed(bytes: u32) -> Self {
        Self::Sized { least: bytes.max(1), most: bytes.max(1) }
    }

    /// Describes messages of at most so many bytes; of one, if it says none.
    pub fn up_to(bytes: u32) -> Self {
        Self::Sized { least: 1, most: bytes.max(1) }
    }

    /// Returns the bytes of the smallest message; `None` if there are none.
    pub fn least(self) -> Option<u32> {
        match self {
            Self::None => None,
            Self::Sized { least, .. } => Some(least),
        }
    }

    /// Returns the bytes of the largest message; `None` if there are none.
    pub fn most(self) -> Option<u32> {
        match self {
            Self::None => None,
            Self::Sized { most, .. } => Some(most),
        }
    }
}

/// A sending host as a contract describes it: what its processor does may be known elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderSpec {
    /// Its link.
    pub link: Link,
    /// Its processor's costs; `None`: those of the host's profile.
    pub costs: Option<SendCosts>,
    /// How messages are cut.
    pub packetisation: Packetisation,
    /// What the thread that sends may take of a CPU; `None`: half of one, by periods of 25 packets or a millisecond,
    /// whichever is longer.
    pub cpu: Option<Reservation>,
    /// How late that thread may wake up; each delay bound is shorter by it.
    pub allowance: Duration,
    /// What else is sent.
    pub best_effort: BestEffort,
    /// The most memory that all buffers together may take, in bytes; `None`: not limited.
    pub memory: Option<u64>,
}

impl SenderSpec {
    /// How late the thread that sends may wake up where nothing else is said.
    pub const USUAL_ALLOWANCE: Duration = Duration::from_micros(300);

    /// Returns what the thread that sends may take of a CPU, where a packet costs it `per_packet`.
    pub fn cpu_for(&self, per_packet: Service) -> Reservation {
        let micros =
            per_packet.as_nanos().saturating_mul(25).div_ceil(1_000).clamp(1_000, 1_000_000);
        let half =
            Reservation::new(Service::from_micros(micros / 2), Duration::from_micros(micros));
        self.cpu.unwrap_or_else(|| half.expect("a budget within its period"))
    }

    /// With `measured` costs where the contract names none; `None` if there are neither. Link scheduling is a function
    /// call (O1).
    pub fn sender(self, measured: Option<SendCosts>) -> Option<Sender> {
        let Self { link, costs, packetisation, best_effort, .. } = self;
        let (costs, link_scheduling) = (costs.or(measured)?, LinkScheduling::InInterrupt);
        Some(Sender { link, costs, packetisation, link_scheduling, best_effort })
    }
}

/// A sending host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Its link.
    pub link: Link,
    /// Its processor's costs.
    pub costs: SendCosts,
    /// How messages are cut.
    pub packetisation: Packetisation,
    /// Where the link scheduler runs.
    pub link_scheduling: LinkScheduling,
    /// What else is sent.
    pub best_effort: BestEffort,
}
