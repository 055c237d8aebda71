//! The sending host, as admission and the link scheduler both see it.

use super::costs::{Link, Packetisation, SendCosts};
use crate::reservation::Reservation;
use crate::time::{Duration, Service};

/// The context in which the link scheduler runs (real-time channels, §3.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkScheduling {
    /// O1: in the handler that finds the link idle, otherwise in the completion interrupt.
    InInterrupt,
    /// O2: in its own thread at top priority, which gets the processor when a handler yields.
    InThread,
}

impl LinkScheduling {
    /// Both choices with their names in a contract.
    pub const NAMES: [(&'static str, Self); 2] =
        [("interrupt", Self::InInterrupt), ("thread", Self::InThread)];
}

/// Messages without a promise, sent when the link is otherwise idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BestEffort {
    /// No such messages.
    None,
    /// Messages of a range of sizes, in bytes.
    Sized {
        /// The smallest, at least 1.
        least: u32,
        /// The largest.
        most: u32,
    },
}

impl BestEffort {
    /// Describes messages of exactly `bytes`, at least 1.
    pub fn fixed(bytes: u32) -> Self {
        Self::Sized { least: bytes.max(1), most: bytes.max(1) }
    }

    /// Describes messages of at most `bytes`, at least 1.
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

/// A sending host as a contract describes it. The processor's costs may be known elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderSpec {
    /// Its link.
    pub link: Link,
    /// Its processor's costs; `None`: those of the host's profile.
    pub costs: Option<SendCosts>,
    /// The size of packets and blocks.
    pub packetisation: Packetisation,
    /// The CPU reservation of the sending thread; `None`: half of a CPU, with a period of 25
    /// packets or a millisecond, whichever is longer.
    pub cpu: Option<Reservation>,
    /// The longest wake-up latency of that thread; each delay bound is shortened by it.
    pub allowance: Duration,
    /// The best-effort messages.
    pub best_effort: BestEffort,
    /// The most memory of all buffers together, in bytes; `None`: not limited.
    pub memory: Option<u64>,
}

impl SenderSpec {
    /// The default for the longest wake-up latency of the sending thread.
    pub const USUAL_ALLOWANCE: Duration = Duration::from_micros(300);

    /// Returns the CPU reservation of the sending thread, if a packet costs it `per_packet`.
    pub fn cpu_for(&self, per_packet: Service) -> Reservation {
        let micros =
            per_packet.as_nanos().saturating_mul(25).div_ceil(1_000).clamp(1_000, 1_000_000);
        let half =
            Reservation::new(Service::from_micros(micros / 2), Duration::from_micros(micros));
        self.cpu.unwrap_or_else(|| half.expect("a budget within its period"))
    }

    /// Returns the sender, with `measured` costs where the contract names none; `None` if there are
    /// neither. Link scheduling is a function call (O1).
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
    /// The size of packets and blocks.
    pub packetisation: Packetisation,
    /// The context in which the link scheduler runs.
    pub link_scheduling: LinkScheduling,
    /// The best-effort messages.
    pub best_effort: BestEffort,
}
