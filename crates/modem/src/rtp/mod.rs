//! A telephone line over UDP: RTP (RFC 3550) with G.711 audio (RFC 3551), 20 ms a packet.
//!
//! - [`packet`]: headers, read and written.
//! - [`g711`]: 8-bit samples, µ-law and A-law.
//! - [`sequence`]: which packets belong to the stream (RFC 3550 A.1).
//! - [`jitter`]: packets that come when they come, played as the local clock asks.
//! - [`Receiver`], [`Sender`]: all of it together, one for each direction.
//!
//! [`crate::trunk`] makes calls of it. Pure: `now` in, samples out. Nothing here opens a socket, and
//! nothing allocates once it is made but the packets that [`Sender`] fills.

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
