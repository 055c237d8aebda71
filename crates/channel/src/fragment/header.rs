//! The 32 bytes before each fragment of a message.

use punctual_model::Instant;
use thiserror::Error;

/// The length of a header in bytes.
pub const HEADER_BYTES: usize = 32;

const MAGIC: u8 = b'P';
const VERSION: u8 = 1;

/// The header before a fragment on the wire. Its layout is in the [module's documentation](super).
///
/// ```
/// use punctual_channel::fragment::{HEADER_BYTES, Header};
/// use punctual_model::Instant;
///
/// let header = Header {
///     fragment_bytes: 4,
///     channel: 7,
///     message: 1,
///     offset: 4,
///     length: 6,
///     sent: Some(Instant::from_nanos(9)),
/// };
/// let mut datagram = [0; HEADER_BYTES + 2];
/// datagram[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
/// datagram[HEADER_BYTES..].copy_from_slice(b"56");
/// assert_eq!(Header::read(&datagram)?, (header, &b"56"[..]));
/// # Ok::<(), punctual_channel::fragment::HeaderError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The payload bytes of each fragment of this message but its last, which may have fewer; at
    /// least 1.
    pub fragment_bytes: u16,
    /// The channel, as sender and receiver agreed to number it.
    pub channel: u32,
    /// The number of the message, counted from the channel's first.
    pub message: u64,
    /// The fragment's first byte in the message; a multiple of `fragment_bytes`.
    pub offset: u32,
    /// The length of the whole message in bytes; more than `offset`.
    pub length: u32,
    /// The time of sending, by a clock that both ends share; `None` if they share none. The instant
    /// 0 is sent as `None`.
    pub sent: Option<Instant>,
}

/// The reason why bytes are no fragment of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// They are shorter than a header and a byte.
    #[error("{bytes} bytes are less than a header of 32 and a byte of a message")]
    TooShort {
        /// The length of the datagram.
        bytes: usize,
    },
    /// They come from another program.
    #[error("it begins with {first:#04x}, so it is no fragment of ours")]
    NotOurs {
        /// Its first byte.
        first: u8,
    },
    /// They have a later version, or an invalid one.
    #[error("it has version {version} of the header; this receiver knows 1: upgrade the older end")]
    Version {
        /// Its second byte.
        version: u8,
    },
    /// The header gives fragments of zero bytes.
    #[error("it says that fragments have no bytes")]
    NoFragment,
    /// The fragment would overlap two fragments, or lies outside of the message.
    #[error(
        "it begins at byte {offset} of {length}; a fragment of {fragment_bytes} bytes begins at a \
         multiple of that, inside the message"
    )]
    Misplaced {
        /// The offset in the header.
        offset: u32,
        /// The message length in the header.
        length: u32,
        /// The fragment length in the header.
        fragment_bytes: u16,
    },
    /// The payload is shorter or longer than the header says.
    #[error("it carries {bytes} bytes where {wanted} belong")]
    WrongSize {
        /// The length of the payload.
        bytes: usize,
        /// The length that the header implies.
        wanted: u32,
    },
}

impl Header {
    /// Returns the header as on the wire.
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = MAGIC;
        bytes[1] = VERSION;
        bytes[2..4].copy_from_slice(&self.fragment_bytes.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.channel.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.message.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.offset.to_be_bytes());
        bytes[20..24].copy_from_slice(&self.length.to_be_bytes());
        let sent = self.sent.map_or(0, Instant::as_nanos);
        bytes[24..].copy_from_slice(&sent.to_be_bytes());
        bytes
    }

    /// Splits a datagram into header and payload, and checks that the payload has as many bytes as
    /// its place in the message.
    ///
    /// # Errors
    /// Returns what is wrong with the datagram by itself. It does not check the channel, or whether
    /// the fragment fits to others.
    pub fn read(datagram: &[u8]) -> Result<(Self, &[u8]), HeaderError> {
        let too_short = HeaderError::TooShort { bytes: datagram.len() };
        let (header, piece) = datagram.split_first_chunk::<HEADER_BYTES>().ok_or(too_short)?;
        let ([first, version, header @ ..], false) = (header, piece.is_empty()) else {
            return Err(too_short);
        };
        if *first != MAGIC {
            return Err(HeaderError::NotOurs { first: *first });
        }
        if *version != VERSION {
            return Err(HeaderError::Version { version: *version });
        }
        let header = Self::of_fields(header);
        header.check(piece.len())?;
        Ok((header, piece))
    }

    /// Reads the fields after magic and version.
    fn of_fields(fields: &[u8; HEADER_BYTES - 2]) -> Self {
        let mut left = &fields[..];
        let mut next = |bytes: usize| {
            let (field, rest) = left.split_at(bytes);
            left = rest;
            field.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
        };
        // Each field has as many bytes as its type.
        Self {
            fragment_bytes: next(2) as u16,
            channel: next(4) as u32,
            message: next(8),
            offset: next(4) as u32,
            length: next(4) as u32,
            sent: Some(next(8)).filter(|sent| *sent > 0).map(Instant::from_nanos),
        }
    }

    fn check(&self, bytes: usize) -> Result<(), HeaderError> {
        let Self { fragment_bytes, offset, length, .. } = *self;
        if fragment_bytes == 0 {
            return Err(HeaderError::NoFragment);
        }
        if offset >= length || offset % u32::from(fragment_bytes) != 0 {
            return Err(HeaderError::Misplaced { offset, length, fragment_bytes });
        }
        let wanted = (length - offset).min(fragment_bytes.into());
        if bytes != wanted as usize {
            return Err(HeaderError::WrongSize { bytes, wanted });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header {
        fragment_bytes: 0x0102,
        channel: 0x0304_0506,
        message: 0x0708_090a_0b0c_0d0e,
        offset: 0x0102 * 2,
        length: 0x0102 * 2 + 3,
        sent: Some(Instant::from_nanos(0x1718_191a_1b1c_1d1e)),
    };

    fn datagram(header: Header, piece: &[u8]) -> Vec<u8> {
        [&header.to_bytes()[..], piece].concat()
    }

    #[test]
    fn the_bytes_are_those_of_the_picture() {
        let wire = [
            0x50, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0, 0, 2, 4, 0, 0, 2, 7, 0x17,
            0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e,
        ];
        assert_eq!(HEADER.to_bytes(), wire);
        assert_eq!(Header::read(&datagram(HEADER, b"end")), Ok((HEADER, &b"end"[..])));
        let unstamped = Header { sent: None, ..HEADER };
        assert_eq!(Header::read(&datagram(unstamped, b"end")), Ok((unstamped, &b"end"[..])));
    }

    #[test]
    fn an_impossible_fragment_is_refused_with_its_numbers() {
        let whole = datagram(HEADER, b"end");
        for bytes in 0..=HEADER_BYTES {
            assert_eq!(Header::read(&whole[..bytes]), Err(HeaderError::TooShort { bytes }));
        }
        let with = |at: usize, byte: u8| {
            let mut changed = whole.clone();
            changed[at] = byte;
            Header::read(&changed).expect_err("changed")
        };
        assert_eq!(with(0, b'p'), HeaderError::NotOurs { first: b'p' });
        assert_eq!(with(1, 2), HeaderError::Version { version: 2 });
        let read = |header, piece: &[u8]| Header::read(&datagram(header, piece)).map(|_| ());
        let none = Header { fragment_bytes: 0, ..HEADER };
        assert_eq!(read(none, b"end"), Err(HeaderError::NoFragment));
        for (offset, length) in [(0x0102 + 1, 0x0400), (0x0204, 0x0204), (0x0204, 0)] {
            let wrong = HeaderError::Misplaced { offset, length, fragment_bytes: 0x0102 };
            assert_eq!(read(Header { offset, length, ..HEADER }, b"end"), Err(wrong));
        }
        for piece in ["en", "ends"] {
            let wrong = HeaderError::WrongSize { bytes: piece.len(), wanted: 3 };
            assert_eq!(read(HEADER, piece.as_bytes()), Err(wrong));
        }
    }
}
