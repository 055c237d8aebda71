//! Hands packets over: the transport trait, the network, and an emulated link.
//!
//! A [`Transport`] is handed packets, each with a header and a piece of a message, in any memory.
//! It never waits. [`NullDevice`] is an emulated link: it keeps to a bandwidth and uses only the
//! time that its caller passes, so it works in virtual time as on a real clock. [`Faulty`] wraps a
//! transport and loses, holds back or refuses packets by a script. [`Udp`] is the network.

mod emulated;
mod packet;
#[cfg(test)]
mod tests;
mod udp;

pub use emulated::{FarEnd, Fault, Faulty, NullDevice};
pub use packet::{HandedOver, NotTaken, Packet, Piece, Transport};
pub use udp::{Udp, Wire};
