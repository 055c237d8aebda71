//! A file over one call: sent once from beginning to end in frames, received in any order.
//!
//! The frames between two modems are HDLC frames that carry their offset in the file:
//!
//! ```text
//! | offset, 4 bytes, big endian | payload, 1 to 64 bytes | CRC-32 (HDLC's) |
//! ```
//! A frame says where its bytes belong, so a receiver needs no order and a lost frame costs only
//! itself. There is no retransmission: lost bytes stay lost, so the intact bytes at the end show
//! the cost of the driver's lateness. (With V.42 below, short losses would only cost time.)

use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::ffi::FrameSink;

/// The largest number of payload bytes in a frame: 64 take a quarter of a second at 2400 bit/s.
pub const MAX_PAYLOAD: usize = 64;

/// Bytes of the file offset in front of the payload.
pub const HEADER: usize = 4;

/// The longest frame, without its CRC.
pub const MAX_FRAME: usize = HEADER + MAX_PAYLOAD;

/// The data that a modem sends once it is connected.
#[derive(Debug)]
pub enum Source {
    /// Only HDLC flags.
    Flags,
    /// A file, once; then flags.
    File(FileSender),
    /// Frames of pseudo-random bytes without end: a line in full use.
    Random(Box<RandomFrames>),
}

impl Source {
    /// Returns the next frame to send, or `None` to send flags.
    pub fn next_frame(&mut self) -> Option<Frame> {
        match self {
            Self::Flags => None,
            Self::File(file) => file.next_frame(),
            Self::Random(frames) => Some(frames.next_frame()),
        }
    }

    /// Returns the number of payload bytes of a file sent so far; zero if this sends no file.
    pub fn file_bytes_sent(&self) -> usize {
        match self {
            Self::File(file) => file.sent,
            Self::Flags | Self::Random(_) => 0,
        }
    }
}

/// Sends a file in frames of [`MAX_PAYLOAD`] bytes.
#[derive(Debug)]
pub struct FileSender {
    file: Arc<[u8]>,
    sent: usize,
}

impl FileSender {
    /// Creates a sender of `file`. Assumes fewer than 2³² bytes: offsets have 32 bits.
    pub fn new(file: Arc<[u8]>) -> Self {
        Self { file, sent: 0 }
    }

    fn next_frame(&mut self) -> Option<Frame> {
        let rest = self.file.get(self.sent..).filter(|rest| !rest.is_empty())?;
        let offset = u32::try_from(self.sent).ok()?;
        self.sent += rest.len().min(MAX_PAYLOAD);
        Some(Frame::new(offset, rest))
    }
}

/// Frames of pseudo-random bytes.
#[derive(Debug)]
pub struct RandomFrames {
    rng: ChaCha8Rng,
    offset: u32,
}

impl RandomFrames {
    /// Creates the frames of `seed`.
    pub fn new(seed: u64) -> Self {
        Self { rng: ChaCha8Rng::seed_from_u64(seed), offset: 0 }
    }

    fn next_frame(&mut self) -> Frame {
        let mut payload = [0; MAX_PAYLOAD];
        self.rng.fill_bytes(&mut payload);
        self.offset = self.offset.wrapping_add(MAX_PAYLOAD as u32);
        Frame::new(self.offset, &payload)
    }
}

/// The consumer of a modem's good frames: counts them, and keeps those of a file.
#[derive(Debug, Default)]
pub struct Receiver {
    good_frames: u64,
    /// Room for the file, and a flag for each block of [`MAX_PAYLOAD`] that has come; empty without
    /// a file.
    bytes: Vec<u8>,
    came: Vec<bool>,
    delivered: usize,
}

impl Receiver {
    /// Creates a receiver that counts frames and keeps none.
    pub fn counting() -> Self {
        Self::default()
    }

    /// Creates a receiver with room for a file of `len` bytes, allocated at once.
    pub fn of_file(len: usize) -> Self {
        Self {
            bytes: vec![0; len],
            came: vec![false; len.div_ceil(MAX_PAYLOAD)],
            ..Self::default()
        }
    }

    /// Returns the number of frames received with a correct CRC.
    pub fn good_frames(&self) -> u64 {
        self.good_frames
    }

    /// Returns the number of bytes of the file delivered, right or wrong; each position counts
    /// once.
    pub fn delivered(&self) -> usize {
        self.delivered
    }

    /// Returns the number of bytes delivered that equal the original. Reads the whole file, so it
    /// is not for a hot path.
    pub fn intact(&self, original: &[u8]) -> usize {
        let blocks = self.bytes.chunks(MAX_PAYLOAD).zip(original.chunks(MAX_PAYLOAD));
        blocks
            .zip(&self.came)
            .filter(|(_, came)| **came)
            .map(|((got, sent), _)| got.iter().zip(sent).filter(|(a, b)| a == b).count())
            .sum()
    }

    /// Returns the file as received; missing parts are zeros.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl FrameSink for Receiver {
    fn frame(&mut self, bytes: &[u8]) {
        let Some((offset, payload)) = parse(bytes) else { return };
        self.good_frames += 1;
        // A CRC of 32 bits lets one garbled frame in 2³² pass, and its offset may be anything.
        let start = offset as usize;
        let whole_block = start.is_multiple_of(MAX_PAYLOAD)
            && self.bytes.len().saturating_sub(start).min(MAX_PAYLOAD) == payload.len();
        let Some(came) = self.came.get_mut(start / MAX_PAYLOAD) else { return };
        if !whole_block || *came {
            return;
        }
        *came = true;
        self.bytes[start..start + payload.len()].copy_from_slice(payload);
        self.delivered += payload.len();
    }
}

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

    fn file() -> Arc<[u8]> {
        (0..150u8).collect()
    }

    #[test]
    fn a_file_arrives_in_any_order_and_each_place_counts_once() {
        let mut sender = FileSender::new(file());
        let mut frames: Vec<Frame> = std::iter::from_fn(|| sender.next_frame()).collect();
        assert_eq!(frames.len(), 3);
        assert_eq!(sender.sent, 150);
        frames.reverse();
        frames.push(frames[0]);
        let mut receiver = Receiver::of_file(150);
        for frame in &frames {
            receiver.frame(frame.bytes());
        }
        assert_eq!(receiver.good_frames(), 4);
        assert_eq!(receiver.delivered(), 150);
        assert_eq!(receiver.bytes(), &*file());
        assert_eq!(receiver.intact(&file()), 150);
    }

    #[test]
    fn a_lost_frame_is_not_intact_even_where_the_file_is_zero() {
        let zeros: Arc<[u8]> = Arc::from([0; 128]);
        let mut receiver = Receiver::of_file(128);
        receiver.frame(Frame::new(64, &zeros[64..]).bytes());
        assert_eq!((receiver.delivered(), receiver.intact(&zeros)), (64, 64));
    }

    #[test]
    fn wrong_content_is_delivered_but_not_intact_and_foreign_places_are_ignored() {
        let mut receiver = Receiver::of_file(150);
        receiver.frame(Frame::new(0, &[255; 64]).bytes());
        receiver.frame(Frame::new(1, &[1; 64]).bytes());
        receiver.frame(Frame::new(128, &[1; 64]).bytes());
        receiver.frame(Frame::new(u32::MAX, &[1]).bytes());
        assert_eq!(receiver.delivered(), 64);
        assert_eq!(receiver.intact(&file()), 0);
    }

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
