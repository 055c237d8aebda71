//! Messages in fragments: the header before each fragment, and their reassembly.
//!
//! A message of a channel with `framing = "fragments"` travels as several datagrams, each with a
//! header of 32 bytes, big-endian:
//!
//! ```text
//!  0        1        2        3        4        5        6        7
//! ├────────┼────────┼────────┴────────┼────────┴────────┴────────┴────────┤
//! │ 'P'    │version │ fragment bytes  │ channel                           │
//! ├────────┴────────┴─────────────────┴───────────────────────────────────┤
//! │ message number, counted from the channel's first                      │
//! ├───────────────────────────────────┬───────────────────────────────────┤
//! │ offset of this piece              │ length of the whole message       │
//! ├───────────────────────────────────┴───────────────────────────────────┤
//! │ when it was sent, ns of a clock that both share, or 0                 │
//! ├────────────────────────────────────────────────────────────────────── ┄
//! │ the piece
//! ```
//!
//! The *piece* is the fragment's part of the message. Every piece but a message's last has exactly
//! *fragment bytes*, and each begins at a multiple of them. So each fragment says by itself which
//! bytes of the message it carries, two fragments are the same or disjoint, and one bit records
//! each of them. IP fragments are not used: one lost fragment would cost the kernel's time and
//! memory for the others, uncounted.
//!
//! [`Fragments`] cuts, [`Header`] reads and writes, [`Reassembly`] reassembles.

mod cut;
mod header;
mod history;
#[cfg(test)]
mod oracle;
mod outcome;
mod reassembly;
mod slot;
#[cfg(test)]
mod tests;

pub use cut::{Fragment, Fragments};
pub use header::{HEADER_BYTES, Header, HeaderError};
pub use history::MOST_IN_FLIGHT;
pub use outcome::{Counts, Message, Refused, Taken};
pub use reassembly::Reassembly;
pub use slot::Limits;
