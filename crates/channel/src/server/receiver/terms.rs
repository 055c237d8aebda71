//! What a receiver is told of a channel.

use std::num::NonZeroU16;

use punctual_model::Duration;
use punctual_model::channel::{
    AtmContract, Framing, LinearBounded, ServiceClass, Traffic, TrafficError, TrafficSpec,
};
use punctual_policy::ingress;

use crate::fragment::{HEADER_BYTES, Limits};

/// How long after a newer message an incomplete one of best effort is given up.
const BEST_EFFORT_PATIENCE: Duration = Duration::from_millis(100);

/// What the kernel charges a socket for a datagram besides its bytes, roughly.
const OVERHEAD: u64 = 1_024;

/// The contract of a channel that receives, and how its messages come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// What its sender promised.
    pub traffic: Traffic,
    /// How long after its logical arrival a message may be on its way; `None`: best effort.
    pub delay_bound: Option<Duration>,
    /// How its messages come.
    pub framing: Framing,
    /// Of fragments: the number in their headers.
    pub number: u32,
    /// Of fragments: the smallest pieces that longer messages are cut into.
    pub least_fragment: NonZeroU16,
    /// By how much more than its sender the network may bunch messages: the longest time on the way
    /// less the shortest. What comes earlier than that and the contract allow is discarded.
    pub unevenness: Duration,
    /// Whether the stamps in headers are of this host's CLOCK_MONOTONIC, as they are where the sender is
    /// on this host too.
    pub shared_clock: bool,
}

impl Terms {
    /// What its sender promised, best effort included.
    ///
    /// # Errors
    /// If its bursts have more messages than 32 bits can count.
    pub fn arrivals(&self) -> Result<LinearBounded, TrafficError> {
        match self.traffic {
            Traffic::Atm(contract) if contract.spec().class == ServiceClass::Ubr => {
                // Policed like the others, promised nothing.
                let spec = TrafficSpec { class: ServiceClass::RtVbr, ..contract.spec() };
                AtmContract::new(spec)?.to_linear_bounded()
            }
            traffic => traffic.to_linear_bounded(),
        }
    }

    /// What is known of its fragments.
    pub(super) fn limits(&self, arrivals: LinearBounded) -> Limits {
        Limits {
            channel: self.number,
            arrivals,
            delay_bound: self.delay_bound.unwrap_or(BEST_EFFORT_PATIENCE),
            least_fragment: self.least_fragment,
        }
    }

    /// The most datagrams of a message.
    pub(super) fn datagrams(&self, arrivals: LinearBounded) -> u32 {
        match self.framing {
            Framing::Datagram => 1,
            Framing::Fragments => arrivals.max_message().div_ceil(self.least_fragment.get().into()),
        }
    }

    /// What the thread that receives knows of it.
    pub(super) fn ingress(&self, arrivals: LinearBounded) -> ingress::Terms {
        let Self { delay_bound, unevenness, .. } = *self;
        ingress::Terms { arrivals, delay_bound, unevenness, datagrams: self.datagrams(arrivals) }
    }

    /// Bytes that its socket is to keep.
    pub(super) fn socket_bytes(&self, arrivals: LinearBounded) -> usize {
        let each = match self.framing {
            Framing::Datagram => arrivals.max_message().into(),
            Framing::Fragments => HEADER_BYTES as u64 + u64::from(self.least_fragment.get()),
        };
        let bytes = self.ingress(arrivals).kept() * (each + OVERHEAD);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}
