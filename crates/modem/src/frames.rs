//! The frames between two modems: HDLC frames that carry their offset in the file.
//!
//! ```text
//! | offset, 4 bytes, big endian | payload, 1 to 64 bytes | CRC-32 (HDLC's) |
//! ```
//! A frame says where its bytes belong, so a receiver needs no order and a lost frame costs only
//! itself.

/// The largest number of payload bytes in a frame: 64 take a quarter of a second at 2400 bit/s.
pub const MAX_PAYLOAD: usize = 64;

/// Bytes of the file offset in front of the payload.
pub const HEADER: usize = 4;

/// The longest frame, without its CRC.
pub const MAX_FRAME: usize = HEADER + MAX_PAYLOAD;

/// A frame ready to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    bytes: [u8; MAX_FRAME],
    len: usize,
}

impl Frame {
    /// Creates a frame of the first [`MAX_PAYLOAD`] bytes of `payload`, or of all if it is shorter.
    pub fn new(offset: u32, payload: &[u8]) -> Self {
        let payload = &payload[..payload.len().min(MAX_PAYLOAD)];
        let mut bytes = [0; MAX_FRAME];
        bytes[..HEADER].copy_from_slice(&offset.to_be_bytes());
        bytes[HEADER..HEADER + payload.len()].copy_from_slice(payload);
        Self { bytes, len: HEADER + payload.len() }
    }

    /// Returns the header and the payload.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Returns the offset and the payload of a received frame, or `None` if it is not a frame of this
/// format.
pub fn parse(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (header, payload) = bytes.split_first_chunk::<HEADER>()?;
    let length_is_ours = (1..=MAX_PAYLOAD).contains(&payload.len());
    length_is_ours.then(|| (u32::from_be_bytes(*header), payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_reads_back_as_written() {
        let frame = Frame::new(0x0102_0304, b"payload");
        assert_eq!(frame.bytes()[..HEADER], [1, 2, 3, 4]);
        assert_eq!(parse(frame.bytes()), Some((0x0102_0304, &b"payload"[..])));
    }

    #[test]
    fn frames_of_a_foreign_length_are_refused() {
        assert_eq!(parse(&[]), None);
        assert_eq!(parse(&[0; HEADER]), None, "no payload");
        assert_eq!(parse(&[0; MAX_FRAME + 1]), None);
        assert!(parse(&[0; MAX_FRAME]).is_some());
    }
}
