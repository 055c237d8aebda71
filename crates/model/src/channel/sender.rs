//! The sending host: what admission and the link scheduler must agree on.

use super::costs::{Link, Packetisation, SendCosts};

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
    /// Where the link scheduler runs.
    pub link_scheduling: LinkScheduling,
    /// What else is sent.
    pub best_effort: BestEffort,
    /// The most memory that all buffers together may take, in bytes; `None`: not limited.
    pub memory: Option<u64>,
}

impl SenderSpec {
    /// With `measured` costs where the contract names none; `None` if there are neither.
    pub fn sender(self, measured: Option<SendCosts>) -> Option<Sender> {
        let Self { link, costs, packetisation, link_scheduling, best_effort, .. } = self;
        let costs = costs.or(measured)?;
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
