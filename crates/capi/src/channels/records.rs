//! Defines the request for a channel, and its state.

use std::ffi::c_char;
use std::mem::offset_of;
use std::net::SocketAddr;

use punctual_client::want::{RawChannel, WantedChannel};
use punctual_model::Duration;
use punctual_model::channel::{Direction, Framing, LinearBounded, Sensitivity, TooEarly};

use crate::error::Failure;
use crate::sized::{Record, text};
use crate::upcalls::within;

/// The direction of the messages of a channel (punctual_channel_request.direction).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum punctual_direction {
    /// The program sends.
    PUNCTUAL_SEND = 0,
    /// The program receives.
    PUNCTUAL_RECEIVE = 1,
}

/// The form of messages on the network (punctual_channel_request.framing).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum punctual_framing {
    /// Each message is one datagram as it is, for peers without Punctual.
    PUNCTUAL_DATAGRAM = 0,
    /// Messages are sent in fragments with a header of 32 bytes, for peers that use channels too.
    PUNCTUAL_FRAGMENTS = 1,
}

/// The treatment of messages beyond the burst (punctual_channel_request.too_early).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum punctual_too_early {
    /// They wait until the contract allows them.
    PUNCTUAL_WAIT = 0,
    /// They are dropped, and counted.
    PUNCTUAL_LOSE = 1,
}

/// The rule that says which messages are beyond the burst (punctual_channel_request.policing).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum punctual_policing {
    /// The spacing since the previous message, and the burst.
    PUNCTUAL_GCRA = 0,
    /// Interval credits for 2 messages, for traffic that is sensitive to jitter. They let a burst
    /// of 4 pass.
    PUNCTUAL_CREDITS_HIGH = 1,
    /// Interval credits for 10 messages. They let a burst of 20 pass.
    PUNCTUAL_CREDITS_MEDIUM = 2,
    /// Interval credits for 50 messages, for traffic that is not sensitive to jitter. They let a
    /// burst of 100 pass.
    PUNCTUAL_CREDITS_LOW = 3,
}

/// A request for a channel. In any time T it sends or receives at most burst + T / spacing_ns
/// messages.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_channel_request {
    /// sizeof(punctual_channel_request).
    pub size: usize,
    /// A name for people.
    pub name: *const c_char,
    /// The address to send to or to listen on: "192.0.2.7:4000", "[2001:db8::7]:4000".
    pub address: *const c_char,
    /// The path of the broker's socket; null: the default.
    pub broker: *const c_char,
    /// The average time between two messages.
    pub spacing_ns: u64,
    /// The bound on the time from the arrival of a message, as the contract counts it, to the end
    /// of its transmission; 0: best effort, without any promise.
    pub delay_bound_ns: u64,
    /// The most bytes of a message.
    pub max_message: u32,
    /// The least bytes of a message; 0: 1.
    pub min_message: u32,
    /// The most messages at once; 0: 1.
    pub burst: u32,
    /// A punctual_direction.
    pub direction: u32,
    /// A punctual_framing.
    pub framing: u32,
    /// A punctual_too_early.
    pub too_early: u32,
    /// The number of the channel in the headers of fragments, on which sender and receiver agree.
    pub number: u32,
    /// The number of messages that fit between program and server, a power of two; 0: enough for
    /// two bursts.
    pub slots: u32,
    /// A punctual_policing. With credits the burst must be at least the one that they let pass; 0:
    /// that one.
    pub policing: u32,
}

// SAFETY: integers and pointers, a size first.
unsafe impl Record for punctual_channel_request {
    const NAME: &'static str = "punctual_channel_request";
    const FIRST: usize = offset_of!(Self, slots) + size_of::<u32>();
}

impl punctual_channel_request {
    /// Returns the sensitivity of interval credits, or `None` without credits.
    fn sensitivity(&self) -> Result<Option<Sensitivity>, Failure> {
        const GCRA: u32 = punctual_policing::PUNCTUAL_GCRA as u32;
        const HIGH: u32 = punctual_policing::PUNCTUAL_CREDITS_HIGH as u32;
        const MEDIUM: u32 = punctual_policing::PUNCTUAL_CREDITS_MEDIUM as u32;
        const LOW: u32 = punctual_policing::PUNCTUAL_CREDITS_LOW as u32;
        match self.policing {
            GCRA => Ok(None),
            HIGH => Ok(Some(Sensitivity::Sensitive)),
            MEDIUM => Ok(Some(Sensitivity::Usual)),
            LOW => Ok(Some(Sensitivity::Insensitive)),
            other => Err(Failure::invalid(format!(
                "policing is {other}, and must be one of punctual_policing"
            ))),
        }
    }

    /// Validates the request.
    ///
    /// # Safety
    /// The texts are null or end with a zero.
    pub(super) unsafe fn want(&self) -> Result<WantedChannel, Failure> {
        const SEND: u32 = punctual_direction::PUNCTUAL_SEND as u32;
        const RECEIVE: u32 = punctual_direction::PUNCTUAL_RECEIVE as u32;
        const DATAGRAM: u32 = punctual_framing::PUNCTUAL_DATAGRAM as u32;
        const FRAGMENTS: u32 = punctual_framing::PUNCTUAL_FRAGMENTS as u32;
        const WAIT: u32 = punctual_too_early::PUNCTUAL_WAIT as u32;
        const LOSE: u32 = punctual_too_early::PUNCTUAL_LOSE as u32;
        // SAFETY: as promised.
        let (name, address) = unsafe { (text(self.name), text(self.address)) };
        let address: SocketAddr = address.parse().map_err(|_| {
            Failure::invalid(format!(
                "the address \"{address}\" is none; write 192.0.2.7:4000 or [2001:db8::7]:4000"
            ))
        })?;
        let spacing = Duration::from_nanos(within(self.spacing_ns, "spacing_ns")?);
        let (min, burst) = (self.min_message.max(1), self.burst.max(1));
        let arrivals = LinearBounded::new(min, self.max_message, spacing, burst)
            .map_err(|why| Failure::invalid(format!("the channel cannot be: {why}")))?;
        let bound = within(self.delay_bound_ns, "delay_bound_ns")?;
        let bound = (bound > 0).then(|| Duration::from_nanos(bound));
        let mut want = WantedChannel::sending(name, arrivals, bound, address);
        let none = |value, member, names| {
            Err(Failure::invalid(format!("{member} is {value}, and must be one of {names}")))
        };
        want.direction = match self.direction {
            SEND => Direction::Send,
            RECEIVE => Direction::Receive,
            other => return none(other, "direction", "punctual_direction"),
        };
        want.framing = match self.framing {
            DATAGRAM => Framing::Datagram,
            FRAGMENTS => Framing::Fragments,
            other => return none(other, "framing", "punctual_framing"),
        };
        want.too_early = match self.too_early {
            WAIT => TooEarly::Wait,
            LOSE => TooEarly::Discard,
            other => return none(other, "too_early", "punctual_too_early"),
        };
        if let Some(sensitivity) = self.sensitivity()? {
            let credited = want.clone().with_credits(sensitivity);
            // A requested burst stays, and is refused below if it is too short.
            want = match self.burst {
                0 => credited,
                _ => WantedChannel { arrivals, slots: want.slots, ..credited },
            };
        }
        want.number = self.number;
        if self.slots > 0 {
            want.slots = self.slots;
        }
        // Checks what the broker checks.
        WantedChannel::try_from(RawChannel::from(&want))
            .map_err(|why| Failure::invalid(format!("the channel cannot be: {why}")))
    }
}

/// The state of a channel.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_channel_info {
    /// sizeof(punctual_channel_info).
    pub size: usize,
    /// The number of the grant, as `punctual status` shows it.
    pub grant: u64,
    /// The promised bound on the time from the arrival of a message, as the contract counts it, to
    /// the end of its transmission. 0: none, because the channel is best effort.
    pub delay_bound_ns: u64,
    /// For best effort: its share in bits a second when it was last opened or rejoined. 0: the
    /// channel has a promise.
    pub share_bps: u64,
    /// For a channel that sends: the number of messages that were sent and have not left yet.
    pub unreleased: u64,
    /// The most bytes of a message.
    pub max_message: u32,
    /// The number of messages that fit between program and server.
    pub slots: u32,
}

// SAFETY: integers only, a size first.
unsafe impl Record for punctual_channel_info {
    const NAME: &'static str = "punctual_channel_info";
    const FIRST: usize = offset_of!(Self, slots) + size_of::<u32>();
}

/// A message that was received.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_received {
    /// sizeof(punctual_received).
    pub size: usize,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its number, counted from the channel's first message without gaps.
    pub number: u64,
    /// The time at which it arrived at this host (CLOCK_MONOTONIC).
    pub arrived_ns: u64,
}

// SAFETY: integers only, a size first.
unsafe impl Record for punctual_received {
    const NAME: &'static str = "punctual_received";
    const FIRST: usize = offset_of!(Self, arrived_ns) + size_of::<u64>();
}
