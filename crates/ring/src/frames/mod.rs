//! A queue of messages between two processes that do not trust each other, in memory that both have
//! mapped and either may overwrite at any time.
//!
//! One process produces, one consumes. Messages lie in slots of one size, made once; they are
//! written and read in place. The code allocates nothing, takes no lock, never waits, makes no
//! system call, and no loop depends on what the other side writes.
//!
//! ```text
//! producer's memory: it alone writes       consumer's memory: it alone writes
//! ┌ page ───────────────────────────┐      ┌ page ───────────────────────────┐
//! │ magic │ slots │ max_message     │      │ released │ withheld             │
//! │ pushed                          │      │ sleeps: odd while it sleeps     │
//! │ sleeps: odd while it sleeps     │      └─────────────────────────────────┘
//! ├ pages, one descriptor a slot ───┤
//! │ length │ user's word            │      message i lies in slot i mod slots,
//! ├ pages, max_message bytes a slot ┤      so that no place need be believed
//! │ bytes …                         │
//! └─────────────────────────────────┘
//! released ≤ taken ≤ pushed ≤ released + slots: counts of messages, modulo 2⁶⁴
//! ```
//!
//! - Each side keeps its own index privately and only publishes it. It reads the other side's words
//!   once, and checks what it read: an index that goes back or too far, or a length beyond the
//!   slot, is [`Corrupt`] and ends the queue for the side that found it, and for no other queue.
//! - So what each side writes may be mapped read-only for the other, and should be. Safety does not
//!   rest on it: a process that overwrites the other's side can make this queue lose, repeat or
//!   delay messages, or end it, and no more.
//! - The bytes of a message are only available as a copy, or as an address for the kernel.
//! - A producer that dies at any step leaves whole messages: those that it published. A consumer
//!   that dies leaves a producer that finds no room. The next to [attach](Consumer::attach) goes on
//!   after what was released (or published): messages that were taken and not released are taken
//!   again.
//! - A side with nothing to do [rests](Consumer::rest) and waits for a bell, which the other side
//!   rings when [`Wake::Ring`] says so. The bell is the caller's. It must also sound, or end the
//!   wait, when the other side dies, because that may happen between publishing and ringing. The
//!   order is: rest; wait for the bell; silence it; rise; take all there is. Silencing the bell
//!   between resting and waiting loses a wake-up.
//!
//! The shared rings and the payload used in place are those of L4ATM's data path (Borriss and
//! Härtig, "Design and Implementation of a Real-Time ATM-Based Protocol Server", 1998, section
//! 2.2), for processes that cannot revoke each other's pages.

mod consumer;
mod geometry;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod interleavings;
mod memory;
mod producer;
#[cfg(test)]
mod refusals;
mod sleep;
mod slots;
#[cfg(test)]
mod tests;

pub use consumer::{Consumer, Frame};
pub use geometry::{AttachError, Corrupt, Geometry, GeometryError};
pub use memory::{Addressed, OwnWords, Words};
pub use producer::Producer;
pub use sleep::{Rest, Wake};
pub use slots::{Slot, Slots};
