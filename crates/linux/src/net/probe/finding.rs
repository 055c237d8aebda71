//! The features that are probed, the outcome of a probe, and two sockets on the loopback to try
//! them with.

use std::fmt;
use std::num::NonZeroU16;

use punctual_model::time::Duration;

use crate::clock;
use crate::net::{Inbox, Outgoing, Place, Readiness, SendError, Setup, UdpSocket};

/// The longest that a probe waits for a result that should come at once.
pub(super) const PATIENCE: Duration = Duration::from_millis(150);

/// A probed feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    /// UDP_SEGMENT: many datagrams with one walk through the stack.
    Trains,
    /// UDP_GRO: many datagrams received as one.
    ReceivedTrains,
    /// SO_TIMESTAMPING of received datagrams.
    ReceiveStamps,
    /// SO_TIMESTAMPING of sent datagrams.
    SentStamps,
    /// SO_RXQ_OVFL and SO_MEMINFO: the number of dropped datagrams.
    Drops,
    /// SO_ATTACH_FILTER: discards before the socket.
    Filter,
    /// The discipline tbf.
    Tbf,
    /// The discipline htb.
    Htb,
    /// SO_TXTIME with the discipline fq.
    DepartureTimes,
    /// SO_MAX_PACING_RATE of UDP with the discipline fq.
    Pacing,
    /// The discipline etf.
    Etf,
    /// XDP in the kernel's generic code.
    XdpGeneric,
    /// XDP in the interface's driver.
    XdpNative,
    /// AF_XDP with a copy of each frame.
    AfXdpCopy,
    /// AF_XDP without copies.
    AfXdpZeroCopy,
}

impl Feature {
    /// Returns its name in the kernel's documentation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Trains => "UDP_SEGMENT",
            Self::ReceivedTrains => "UDP_GRO",
            Self::ReceiveStamps => "receive stamps",
            Self::SentStamps => "send stamps",
            Self::Drops => "drop counts",
            Self::Filter => "socket filter",
            Self::Tbf => "tbf",
            Self::Htb => "htb",
            Self::DepartureTimes => "SO_TXTIME with fq",
            Self::Pacing => "pacing with fq",
            Self::Etf => "etf",
            Self::XdpGeneric => "XDP, generic",
            Self::XdpNative => "XDP, native",
            Self::AfXdpCopy => "AF_XDP, copying",
            Self::AfXdpZeroCopy => "AF_XDP, zero-copy",
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The outcome of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The feature works; with the observation.
    Works(String),
    /// The kernel accepted it without effect; with the observation.
    Ignored(String),
    /// The kernel does not have it, or refused it; with the reason.
    Missing(String),
    /// It was not tried; with the reason.
    Untried(String),
}

/// One feature, and the outcome of its probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The feature.
    pub feature: Feature,
    /// The outcome.
    pub seen: Seen,
}

impl Finding {
    pub(super) fn new(feature: Feature, seen: Seen) -> Self {
        Self { feature, seen }
    }

    /// Returns true if the feature was seen to work.
    pub fn works(&self) -> bool {
        matches!(self.seen, Seen::Works(_))
    }
}

/// The outcome of a probe, or the error of a refused call, which says what is missing.
pub(super) type Attempt = Result<Seen, Box<dyn std::error::Error>>;

pub(super) fn attempt(probe: impl FnOnce() -> Attempt) -> Seen {
    probe().unwrap_or_else(|refused| Seen::Missing(refused.to_string()))
}

/// Two sockets on the loopback.
pub(super) struct Loop {
    pub(super) sender: UdpSocket,
    pub(super) receiver: UdpSocket,
    pub(super) inbox: Inbox,
}

impl Loop {
    pub(super) fn open() -> Result<Self, Box<dyn std::error::Error>> {
        let receiver = UdpSocket::open(&Setup::at(([127, 0, 0, 1], 0).into()))?;
        let sender = UdpSocket::open(&Setup::to(receiver.local_address()?).on("lo"))
            // Binding to an interface takes CAP_NET_RAW on old kernels; the address leads to the
            // loopback anyway.
            .or_else(|_| UdpSocket::open(&Setup::to(receiver.local_address()?)))?;
        Ok(Self { sender, receiver, inbox: Inbox::new(64, 65_536) })
    }

    pub(super) fn send(&self, payload: &[u8]) -> Result<(), SendError> {
        self.sender.send(&Outgoing::new(&[Place::of(payload)]))
    }

    pub(super) fn send_train(&self, payload: &[u8], segment: NonZeroU16) -> Result<(), SendError> {
        self.sender.send(&Outgoing::new(&[Place::of(payload)]).in_segments(segment))
    }

    /// Waits for `count` datagrams, but not for longer than `patience`; returns their payloads.
    pub(super) fn receive(
        &mut self,
        count: usize,
        patience: Duration,
    ) -> Result<Vec<Vec<u8>>, Box<dyn std::error::Error>> {
        let until = clock::now().saturating_add(patience);
        let mut got = Vec::new();
        while got.len() < count && self.receiver.wait(Readiness::Readable, until)? {
            self.receiver.receive(&mut self.inbox)?;
            got.extend(self.inbox.datagrams().map(|datagram| datagram.bytes.to_vec()));
        }
        Ok(got)
    }
}
