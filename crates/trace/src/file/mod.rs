//! The trace file: compact, versioned, safe against a crash, readable while it grows.
//!
//! ```text
//! file   = preamble block*
//! preamble = "PUNCTUAL" version:u16 zero:u16 crc:u32              16 bytes, little-endian as all here
//! block  = mark:u32 crc:u32 before length:u24 kind:u8 crc:u32 payload   28 bytes and the payload
//! before = blocks:u32 events:u32 subjects:u32                        of the file, before this block
//! ```
//!
//! A writer appends a block at a time. One that died in the middle leaves a block that is shorter
//! than it says, at the end of the file, which reads like one that is still being written: all
//! before it is whole. The check sums (CRC-32C; the first is that of the header behind it, the second that
//! of the payload) find what was damaged later; the reader tells where, and goes on at the next whole
//! block. What that block says of those before it tells how many blocks and events are missing. Each block
//! can be understood without the others, but for the subjects' names and promises, and blocks of events
//! are short: a damage costs what it lies in.
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
pub use frame::{Damage, Gap, HEADER, LONGEST, PREAMBLE, VERSION};
pub use reader::{Reader, Step};
pub use writer::Writer;
