//! Error correction after ITU-T V.42: every byte arrives once and in order, or the link ends with a
//! reason.
//!
//! | part | turns | into |
//! |---|---|---|
//! | [`hdlc`] | bits | frames with a correct check sequence |
//! | [`frame`], [`xid`] | frames | their meaning |
//! | [`link`] | frames and the time | a stream of bytes each way: the protocol itself, LAPM |
//! | [`detect`] | bits | whether the far end corrects errors too |
//! | `stream` | bytes | bytes as the ends agreed to compress them ([`crate::v42bis`]) |
//! | [`session`] | bits | all of these, one after the other, or plain characters |
//!
//! All are pure: they take `now`, read no clock, and allocate nothing once created (except for the
//! XID frames of a call and the dictionaries that they agree on).
//!
//! # What is implemented
//! Detection (§7.2.1) or direct set-up; XID with N401, k and V.42bis; SABME, UA, DISC, DM; I, RR,
//! RNR and REJ modulo 128; T401 with N400; T403; flow control both ways. Not offered, and so never
//! agreed: selective reject, the 32-bit check sequence, the test frame. Break signals (UI) are
//! ignored.
//!
//! # What is not promised
//! A check sequence of 16 bits lets about one in 65,536 garbled frames pass. A file that matters
//! needs a checksum of its own.

pub mod detect;
pub mod frame;
pub mod hdlc;
pub mod link;
pub mod session;
mod stream;
pub mod xid;

pub use link::{Closed, Link, LinkState, LinkStats, Parameters};
pub use session::{Outcome, Session, Start};
pub use xid::{DEFAULT_K, DEFAULT_N401, MAX_K, MAX_N401};
