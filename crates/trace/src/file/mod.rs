//! The trace file: compact, versioned, safe against a crash, readable while it grows.
//!
//! ```text
//! file   = preamble block*
//! preamble = "PUNCTUAL" version:u16 zero:u16 crc:u32              16 bytes, little-endian as all here
//! block  = mark:u32 kind:u8 crc:u24 length:u32 crc:u32 payload      16 bytes and the payload
//! ```
//!
//! A writer appends a block at a time. One that died in the middle leaves a block that is shorter
//! than it says, at the end of the file, which reads like one that is still being written: all
//! before it is whole. The check sums (CRC-32C; the first, three bytes of it, is that of kind and
//! length, the second that of the payload) find what was damaged later; the reader tells where, and goes on at the next mark that begins a whole block.
//! Each block can be understood without those before it, but for the subjects' names.
//!
//! Payloads are in the wire format of the `postcard` crate: integers of variable length. Events
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
pub use frame::{Damage, HEADER, LONGEST, PREAMBLE, VERSION};
pub use reader::{Reader, Step};
pub use writer::Writer;
