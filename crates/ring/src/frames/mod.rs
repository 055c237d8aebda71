//! A queue of messages between two processes that do not trust each other, in memory that both have
//! mapped and either may scribble over at any time.
//!
//! One process produces, one consumes. Messages lie in slots of one size, made once; they are
//! written and read in place. Nothing here allocates, locks, waits or calls the kernel, and no loop
//! depends on what the other side writes.
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
//! - Each side keeps its own index to itself and only tells the other. What it reads of the other's
//!   it reads once, and checks what it read: an index that goes back or too far, or a length beyond
//!   the slot, is [`Corrupt`] and ends the queue, for whoever found it and for nobody else.
//! - So what each side writes may be mapped for the other to read only, and should be. Safety does
//!   not rest on it: whoever scribbles over the other's side can make this queue lose, repeat or
//!   delay messages, or end it.
//! - The bytes of a message are only to be had as a copy, or as an address for the kernel.
//! - A producer that dies at any step leaves what it published, whole. A consumer that dies leaves a
//!   producer that finds no room. The next to [attach](Consumer::attach) goes on after what was
//!   released (or published): what was taken and not released is taken again.
//! - Who has nothing to do [rests](Consumer::rest) and waits for a bell that the other rings when
//!   told to ([`Wake::Ring`]). Which bell is not said here: it must also sound, or end the wait,
//!   when the other side dies, because it may die between publishing and ringing. The order is:
//!   rest; wait for the bell; silence it; rise; take all there is. A bell silenced between resting
//!   and waiting is a wake-up lost.
//!
//! The shared rings and the payload used in place are those of L4ATM's data path (Borriss and Härtig,
//! "Design and Implementation of a Real-Time ATM-Based Protocol Server", 1998, section 2.2), for processes that cannot revoke each other's pages.

mod consumer;
mod error;
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
pub use error::{AttachError, Corrupt};
pub use geometry::{Geometry, GeometryError};
pub use memory::{Addressed, OwnWords, Words};
pub use producer::Producer;
pub use sleep::{Rest, Wake};
pub use slots::{Slot, Slots};

/// Whether this is as large as a consumer's page.
fn is_consumers(memory: &impl Words) -> Result<(), AttachError> {
    let (words, expected) = (memory.count(), Geometry::CONSUMER_BYTES / geometry::WORD);
    if words == expected { Ok(()) } else { Err(AttachError::WrongSize { words, expected }) }
}
