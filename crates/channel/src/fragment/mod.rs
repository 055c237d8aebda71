//! Messages in pieces: the header before each piece, and what puts them together again.
//!
//! A message of a channel with `framing = "fragments"` travels as datagrams of their own, each with
//! a header of 32 bytes, big-endian:
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
//! Every piece but a message's last has exactly *fragment bytes*, and each begins at a multiple of
//! them. So each piece says by itself which bytes of how many it is, two pieces are the same or
//! disjoint, and what is there is one bit for each piece. IP fragments are not used: one lost piece
//! would cost the kernel's time and memory for the others, uncounted.
//!
//! [`Fragments`] cuts, [`Header`] reads and writes, [`Reassembly`] puts together.

mod cut;
mod header;
mod history;
mod limits;
#[cfg(test)]
mod oracle;
mod outcome;
mod reassembly;
mod refused;
mod slot;
#[cfg(test)]
mod tests;

pub use cut::{Fragment, Fragments};
pub use header::{HEADER_BYTES, Header, HeaderError};
pub use history::MOST_IN_FLIGHT;
pub use limits::Limits;
pub use outcome::{Counts, Message, Taken};
pub use reassembly::Reassembly;
pub use refused::Refused;
