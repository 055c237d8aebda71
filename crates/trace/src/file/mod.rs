//! Defines the trace file: compact, versioned, robust against a crash, readable while it grows.
//!
//! ```text
//! file   = preamble block*
//! preamble = "PUNCTUAL" version:u16 zero:u16 crc:u32              16 bytes, little-endian as all here
//! block  = mark:u32 crc:u32 before length:u24 kind:u8 crc:u32 payload   28 bytes and the payload
//! before = blocks:u32 events:u32 subjects:u32                        of the file, before this block
//! ```
//!
//! A writer appends one block at a time. If it dies in the middle, the last block is shorter than
//! its header says. To a reader this looks like a block that is still being written, and all blocks
//! before it are whole. The checksums (CRC-32C; the first covers the rest of the header, the second
//! the payload) detect later damage. The reader reports where the damage is and continues at the
//! next whole block, whose counts tell how many blocks and events are missing. Each block can be
//! understood without the others, except for the subjects' names and promises, and blocks of events
//! are short, so damage costs only the block that it hits.
//!
//! Payloads use the wire format of the `postcard` crate, with integers of variable length. Events
//! are written as differences ([`events`](self)), 4 to 9 bytes each.

mod block;
mod events;
mod frame;
mod reader;
#[cfg(test)]
mod tests;
mod verdict;
mod writer;

pub use block::{Block, Lost, Run};
pub use frame::{Damage, Gap, HEADER, LONGEST, PREAMBLE, VERSION};
pub use reader::{Reader, Step};
pub use writer::Writer;
