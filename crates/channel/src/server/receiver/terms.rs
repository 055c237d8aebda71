//! The terms of a channel that receives, and the reasons why they cannot be met.

use std::num::NonZeroU16;

use punctual_linux::net::{OptionError, ReceiveError};
use punctual_model::Duration;
use punctual_model::channel::{
    AtmContract, Framing, LinearBounded, ReadLimit, ServiceClass, Traffic, TrafficError,
    TrafficSpec,
};
use punctual_policy::ingress;
use punctual_ring::frames::Corrupt;
use rustix::io::Errno;
use thiserror::Error;

use crate::fragment::{HEADER_BYTES, Limits};

/// The time after a newer message at which an incomplete one of best effort is given up.
const BEST_EFFORT_PATIENCE: Duration = Duration::from_millis(100);

/// The bytes that the kernel charges a socket for a datagram besides its payload, roughly.
const OVERHEAD: u64 = 1_024;

/// The contract of a channel that receives, and the framing of its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The sender's traffic contract.
    pub traffic: Traffic,
    /// The longest time that a message may be under way after its logical arrival; `None` for best
    /// effort.
    pub delay_bound: Option<Duration>,
    /// The framing of its messages.
    pub framing: Framing,
    /// For fragments: the number in their headers.
    pub number: u32,
    /// For fragments: the smallest fragments into which longer messages are cut.
    pub least_fragment: NonZeroU16,
    /// For fragments: the packets into which admission counted messages to be cut. Smaller ones are
    /// read too, but no more of them.
    pub packet_bytes: u32,
    /// The longest time under way less the shortest: the network may bunch messages by so much more
    /// than their sender. Messages that come earlier than that and the contract allow are
    /// discarded.
    pub unevenness: Duration,
    /// True if the stamps in headers are of this host's CLOCK_MONOTONIC, as they are if the sender
    /// is on this host.
    pub shared_clock: bool,
}

impl Terms {
    /// Returns the bounds on its sender's traffic, also for best effort.
    ///
    /// # Errors
    /// Returns an error if its bursts have more messages than 32 bits can count.
    pub fn arrivals(&self) -> Result<LinearBounded, TrafficError> {
        match self.traffic {
            Traffic::Atm(contract) if contract.spec().class == ServiceClass::Ubr => {
                // Policed like the others, but without a promise.
                let spec = TrafficSpec { class: ServiceClass::RtVbr, ..contract.spec() };
                AtmContract::new(spec)?.to_linear_bounded()
            }
            traffic => traffic.to_linear_bounded(),
        }
    }

    /// Returns the limits of its fragments.
    pub(super) fn limits(&self, arrivals: LinearBounded) -> Limits {
        Limits {
            channel: self.number,
            arrivals,
            delay_bound: self.delay_bound.unwrap_or(BEST_EFFORT_PATIENCE),
            least_fragment: self.least_fragment,
        }
    }

    /// Returns the most datagrams of a message.
    pub(super) fn datagrams(&self, arrivals: LinearBounded) -> u32 {
        match self.framing {
            Framing::Datagram => 1,
            Framing::Fragments => arrivals.max_message().div_ceil(self.least_fragment.get().into()),
        }
    }

    /// Returns the terms by which the ingress policy serves it.
    pub(super) fn ingress(&self, arrivals: LinearBounded) -> ingress::Terms {
        let Self { delay_bound, unevenness, framing, packet_bytes, .. } = *self;
        let datagrams = self.datagrams(arrivals);
        let reads = ReadLimit::of(arrivals, framing, packet_bytes);
        ingress::Terms { arrivals, delay_bound, unevenness, datagrams, reads }
    }

    /// Returns the bytes that its socket must be able to hold.
    pub(super) fn socket_bytes(&self, arrivals: LinearBounded) -> usize {
        let each = match self.framing {
            Framing::Datagram => arrivals.max_message().into(),
            Framing::Fragments => HEADER_BYTES as u64 + u64::from(self.least_fragment.get()),
        };
        let bytes = self.ingress(arrivals).kept() * (each + OVERHEAD);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

/// The reason why a channel cannot be opened for receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// Its traffic cannot be policed.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// The socket cannot be set up.
    #[error("its socket cannot be set up: {0}")]
    Option(#[from] OptionError),
    /// The ring's slots are too small for the messages.
    #[error(
        "its ring has slots of {bytes} bytes and its messages may have {wanted}: make a ring of \
         slots as large as max_message"
    )]
    SlotsTooSmall {
        /// The size of a slot.
        bytes: u32,
        /// The longest message.
        wanted: u32,
    },
    /// There is a channel with this number already.
    #[error("there is a channel {id} already: close it first")]
    Taken {
        /// The number.
        id: u64,
    },
    /// No more sockets can be watched.
    #[error(
        "the socket cannot be waited for: epoll_ctl(2) failed: {0}; fs.epoll.max_user_watches limits \
         how many can be"
    )]
    Watch(Errno),
}

/// The reason why a channel ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Ended {
    /// Its ring is inconsistent.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// Its socket does not receive any more.
    #[error(transparent)]
    Socket(#[from] ReceiveError),
}
