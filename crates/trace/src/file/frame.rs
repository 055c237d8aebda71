//! Lays out blocks in the file, whatever they contain.

use core::fmt;

use alloc::vec::Vec;
use crc::{CRC_32_ISCSI, Crc, Table};

/// The version of the format that is written. Others are refused, because a block does not describe
/// its own layout. A new version gets a new mark too, so that a file whose preamble is damaged can
/// be read.
pub const VERSION: u16 = 2;
/// The length of the preamble, in bytes.
pub const PREAMBLE: usize = 16;
/// The length of a block's header, in bytes.
pub const HEADER: usize = 28;
/// The longest payload, so that a damaged length does not cost memory.
pub const LONGEST: usize = 1 << 20;

const MAGIC: [u8; 8] = *b"PUNCTUAL";
/// The first bytes of a block. They are neither text nor a small number, so they are rare in
/// payloads.
const MARK: [u8; 4] = [0xB2, 0x0C, 0xF0, 0x9F];
const CHECK: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);

/// A defect of a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The file does not begin like a trace.
    NoTrace,
    /// The file was written by another version of this program.
    Version {
        /// The version in the file.
        found: u16,
    },
    /// Something other than a block is where a block should begin.
    NoBlock,
    /// A block claims to be longer than any block can be.
    TooLong {
        /// The claimed length, in bytes.
        length: u32,
    },
    /// A block's checksum does not match its bytes.
    CheckSum,
    /// An intact block lies among blocks that were written later.
    OutOfOrder,
    /// The contents of an intact block are not valid.
    Senseless {
        /// The kind of the block.
        kind: u8,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NoTrace => f.write_str("not a trace file: it does not begin as one"),
            Self::Version { found } => {
                write!(f, "a trace of format version {found}; this program reads version {VERSION}")
            }
            Self::NoBlock => f.write_str("no block begins where one should"),
            Self::TooLong { length } => {
                write!(f, "a block says it has {length} bytes; the most is {LONGEST}")
            }
            Self::CheckSum => f.write_str("a block's bytes are not those that were written"),
            Self::OutOfOrder => f.write_str("a block lies behind those that were written after it"),
            Self::Senseless { kind } => {
                write!(f, "a block of kind {kind} is whole and makes no sense")
            }
        }
    }
}

impl core::error::Error for Damage {}

/// Returns the first bytes of a file.
pub(super) fn preamble() -> [u8; PREAMBLE] {
    preamble_of(VERSION)
}

/// Returns the first bytes of a file of another version.
pub(super) fn preamble_of(version: u16) -> [u8; PREAMBLE] {
    let mut bytes = [0; PREAMBLE];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&version.to_le_bytes());
    let check = CHECK.checksum(&bytes[..12]);
    bytes[12..].copy_from_slice(&check.to_le_bytes());
    bytes
}

/// Checks that these are the first bytes of a trace that this version reads.
pub(super) fn check_preamble(bytes: &[u8; PREAMBLE]) -> Result<(), Damage> {
    let found = u16::from_le_bytes([bytes[8], bytes[9]]);
    let is_whole = CHECK.checksum(&bytes[..12]).to_le_bytes() == bytes[12..];
    if bytes[..8] != MAGIC {
        Err(Damage::NoTrace)
    } else if is_whole && found != VERSION {
        Err(Damage::Version { found })
    } else if *bytes == preamble() {
        Ok(())
    } else {
        Err(Damage::CheckSum)
    }
}

/// What precedes a block in its file, from which the reader computes how much is missing. All
/// counts are modulo 2³².
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Before {
    pub(super) blocks: u32,
    pub(super) events: u32,
    pub(super) subjects: u32,
}

impl Before {
    /// Returns what is missing if `self` was expected and `found` came.
    pub(super) fn gap_to(self, found: Self) -> Gap {
        Gap {
            blocks: found.blocks.wrapping_sub(self.blocks),
            events: found.events.wrapping_sub(self.events),
            subjects: found.subjects.wrapping_sub(self.subjects),
        }
    }

    /// Returns whether `found` was written before the expected block.
    pub(super) fn is_behind(self, found: Self) -> bool {
        found.blocks.wrapping_sub(self.blocks) > u32::MAX / 2
    }

    /// Returns what precedes the block after this one.
    pub(super) fn and(self, events: usize, subjects: u32) -> Self {
        Self {
            blocks: self.blocks.wrapping_add(1),
            events: self.events.wrapping_add(events as u32),
            subjects: self.subjects.wrapping_add(subjects),
        }
    }
}

/// Blocks that were written and are missing or damaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// The number of blocks.
    pub blocks: u32,
    /// The number of events in them.
    pub events: u32,
    /// The number of subjects in them, whose promises are unknown or have changed.
    pub subjects: u32,
}

/// Appends a block of this kind, whose payload `fill` appends.
///
/// # Panics
///
/// If the payload is longer than [`LONGEST`]. Writers split longer ones before.
pub(super) fn append(out: &mut Vec<u8>, kind: u8, before: Before, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER]);
    fill(out);
    let (header, payload) = out[start..].split_at_mut(HEADER);
    assert!(payload.len() <= LONGEST, "a block of {} bytes", payload.len());
    header[..4].copy_from_slice(&MARK);
    header[8..12].copy_from_slice(&before.blocks.to_le_bytes());
    header[12..16].copy_from_slice(&before.events.to_le_bytes());
    header[16..20].copy_from_slice(&before.subjects.to_le_bytes());
    // At most 2²⁰, which takes three bytes.
    header[20..24].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    header[23] = kind;
    header[24..28].copy_from_slice(&CHECK.checksum(payload).to_le_bytes());
    let check = CHECK.checksum(&header[8..]);
    header[4..8].copy_from_slice(&check.to_le_bytes());
}

/// The block at the beginning of some bytes.
pub(super) enum Found<'a> {
    /// A whole block, and its length.
    Block { kind: u8, before: Before, payload: &'a [u8], bytes: usize },
    /// The beginning of a block: more bytes may follow.
    Beginning,
}

/// The reason why no whole block lies at the beginning of some bytes, and the number of bytes that
/// cannot belong to another block.
pub(super) struct Broken {
    pub(super) damage: Damage,
    pub(super) bytes: usize,
}

/// Reads the block at the beginning of `bytes`.
pub(super) fn find(bytes: &[u8]) -> Result<Found<'_>, Broken> {
    let broken = |damage| Err(Broken { damage, bytes: 1 });
    let known = bytes.len().min(MARK.len());
    if bytes[..known] != MARK[..known] {
        return broken(Damage::NoBlock);
    }
    let Some(header) = bytes.get(..HEADER) else {
        return Ok(Found::Beginning);
    };
    let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| header[at + i]));
    // A damaged length must not make the bytes that follow look like one long block that is still
    // being written.
    if CHECK.checksum(&header[8..]) != word(4) {
        return broken(Damage::CheckSum);
    }
    let (kind, length) = (header[23], word(20) & 0x00FF_FFFF);
    let payload_bytes = length as usize;
    if payload_bytes > LONGEST {
        return broken(Damage::TooLong { length });
    }
    let bytes_of_block = HEADER + payload_bytes;
    let Some(block) = bytes.get(..bytes_of_block) else {
        return Ok(Found::Beginning);
    };
    let payload = &block[HEADER..];
    if CHECK.checksum(payload) != word(24) {
        // The header is intact, so no other block begins within this one. Even a file full of
        // deliberately broken blocks is therefore read only once.
        return Err(Broken { damage: Damage::CheckSum, bytes: bytes_of_block });
    }
    let before = Before { blocks: word(8), events: word(12), subjects: word(16) };
    Ok(Found::Block { kind, before, payload, bytes: bytes_of_block })
}

/// Returns the position of the first mark, or of a partial one at the end.
pub(super) fn next_mark(bytes: &[u8]) -> Option<usize> {
    (0..bytes.len()).find(|&at| {
        let rest = &bytes[at..];
        let known = rest.len().min(MARK.len());
        rest[..known] == MARK[..known]
    })
}
