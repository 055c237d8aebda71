//! The ingress of a communication server: it decides which channel is read next, how much of it, and
//! which messages conform.
//!
//! One thread reads the messages of many channels. [`Order`] selects the next channel: channels
//! with a delay bound first, by the deadlines of their waiting messages, then all others in turn.
//! The [`Regulator`] of a channel with a delay bound limits what is read
//! of it to what admission charges, whatever comes. [`Police`] judges whether a message that was
//! read conforms.
//!
//! The order is that of Druschel and Banga, "Lazy Receiver Processing",
//! OSDI 1996, section 3, with one thread for all channels instead of one per process.

mod order;
mod police;
mod regulator;

pub use order::{Order, Urgency};
pub use police::Police;
pub use regulator::{QUANTUM, Regulator, Terms, UNEVENNESS};
