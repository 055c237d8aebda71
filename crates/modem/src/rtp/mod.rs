//! A telephone line over UDP: RTP (RFC 3550) with G.711 audio (RFC 3551), 20 ms a packet.
//!
//! - [`packet`]: headers, parsed and written.
//! - [`g711`]: 8-bit samples, µ-law and A-law.
//! - [`sequence`]: decides which packets belong to the stream (RFC 3550 A.1).
//! - [`jitter`]: plays packets at the pace of the local clock, whenever they come.
//! - [`Receiver`], [`Sender`]: all of these together, one for each direction.
//!
//! [`crate::trunk`] builds calls on it. Pure: `now` in, samples out. Nothing here opens a socket,
//! and only the packets that [`Sender`] fills are allocated after creation.

pub mod g711;
pub mod jitter;
pub mod packet;
pub mod sequence;

mod receiver;
mod sender;

pub use g711::Law;
pub use receiver::{Receiver, ReceiverStats, Refused};
pub use sender::Sender;

/// Samples in a packet: 20 ms (RFC 3551 §4.2).
pub const SAMPLES_PER_PACKET: usize = 160;
