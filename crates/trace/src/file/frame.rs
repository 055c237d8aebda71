//! How blocks lie in the file, whatever is in them.

use core::fmt;

use alloc::vec::Vec;
use crc::{CRC_32_ISCSI, Crc, Table};

/// The version of the format that is written. Others are refused: a block says nothing of its own
/// layout.
pub const VERSION: u16 = 1;
/// Bytes before the first block.
pub const PREAMBLE: usize = 16;
/// Bytes before a block's payload.
pub const HEADER: usize = 16;
/// The longest payload, so that a damaged length asks for no memory.
pub const LONGEST: usize = 1 << 20;

const MAGIC: [u8; 8] = *b"PUNCTUAL";
/// Neither text nor a small number, so that it is rare in payloads.
const MARK: [u8; 4] = [0xB1, 0x0C, 0xF0, 0x9F];
const CHECK: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);

/// What is wrong with a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// It does not begin as one does.
    NoTrace,
    /// It was written by another version of this program.
    Version {
        /// The version that it says.
        found: u16,
    },
    /// Where a block should begin there is something else.
    NoBlock,
    /// A block says that it is longer than any is.
    TooLong {
        /// The length it says, in bytes.
        length: u32,
    },
    /// A block's check sum is not that of its bytes.
    CheckSum,
    /// A whole block makes no sense.
    Senseless {
        /// The kind of block.
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
            Self::Senseless { kind } => {
                write!(f, "a block of kind {kind} is whole and makes no sense")
            }
        }
    }
}

impl core::error::Error for Damage {}

/// The bytes a file begins with.
pub(super) fn preamble() -> [u8; PREAMBLE] {
    let mut bytes = [0; PREAMBLE];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
    let check = CHECK.checksum(&bytes[..12]);
    bytes[12..].copy_from_slice(&check.to_le_bytes());
    bytes
}

/// Whether these are the first bytes of a trace that this version reads.
pub(super) fn check_preamble(bytes: &[u8; PREAMBLE]) -> Result<(), Damage> {
    if bytes[..8] != MAGIC {
        return Err(Damage::NoTrace);
    }
    let found = u16::from_le_bytes([bytes[8], bytes[9]]);
    if found != VERSION {
        return Err(Damage::Version { found });
    }
    if *bytes == preamble() { Ok(()) } else { Err(Damage::CheckSum) }
}

/// Appends a block of this kind, whose payload `fill` appends.
///
/// # Panics
///
/// If the payload is longer than [`LONGEST`]: writers split before.
pub(super) fn append(out: &mut Vec<u8>, kind: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&MARK);
    out.extend_from_slice(&[kind, 0, 0, 0]);
    out.extend_from_slice(&[0; 8]);
    fill(out);
    let length = out.len() - start - HEADER;
    assert!(length <= LONGEST, "a block of {length} bytes");
    let length = u32::try_from(length).expect("checked above").to_le_bytes();
    out[start + 8..start + 12].copy_from_slice(&length);
    let of_header = header_check(kind, length);
    out[start + 5..start + 8].copy_from_slice(&of_header);
    let check = CHECK.checksum(&out[start + HEADER..]);
    out[start + 12..start + 16].copy_from_slice(&check.to_le_bytes());
}

/// The check sum of kind and length, three bytes of it: a length that was damaged must not make
/// what follows look like one long block that is still being written.
fn header_check(kind: u8, length: [u8; 4]) -> [u8; 3] {
    let mut digest = CHECK.digest();
    digest.update(&[kind]);
    digest.update(&length);
    let [a, b, c, _] = digest.finalize().to_le_bytes();
    [a, b, c]
}

/// What lies at the beginning of `bytes`.
pub(super) enum Found<'a> {
    /// A whole block, and how long it is.
    Block { kind: u8, payload: &'a [u8], bytes: usize },
    /// The beginning of one: more bytes may come.
    Beginning,
}

/// Reads the block at the beginning of `bytes`.
pub(super) fn find(bytes: &[u8]) -> Result<Found<'_>, Damage> {
    let known = bytes.len().min(MARK.len());
    if bytes[..known] != MARK[..known] {
        return Err(Damage::NoBlock);
    }
    let Some(header) = bytes.get(..HEADER) else {
        return Ok(Found::Beginning);
    };
    let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| header[at + i]));
    let length = word(8);
    if header_check(header[4], length.to_le_bytes()) != header[5..8] {
        return Err(Damage::CheckSum);
    }
    let payload_bytes = length as usize;
    if payload_bytes > LONGEST {
        return Err(Damage::TooLong { length });
    }
    let Some(block) = bytes.get(..HEADER + payload_bytes) else {
        return Ok(Found::Beginning);
    };
    if CHECK.checksum(&block[HEADER..]) != word(12) {
        return Err(Damage::CheckSum);
    }
    Ok(Found::Block { kind: header[4], payload: &block[HEADER..], bytes: block.len() })
}

/// Where the next mark is, from the second byte on.
pub(super) fn next_mark(bytes: &[u8]) -> Option<usize> {
    (1..bytes.len()).find(|&at| {
        let rest = &bytes[at..];
        let known = rest.len().min(MARK.len());
        rest[..known] == MARK[..known]
    })
}
