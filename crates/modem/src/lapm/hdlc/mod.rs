//! Turns bits into frames and back: flags, bit stuffing, aborts, and the 16-bit check sequence
//! (V.42 §8.1, after ISO/IEC 13239). Bytes travel with their lowest bit first.

mod deframer;
mod framer;
#[cfg(test)]
mod tests;

use crc::{CRC_16_IBM_SDLC, Crc};

pub use deframer::{Deframer, DeframerStats};
pub use framer::Framer;

/// The longest frame: address, two bytes of control, [`super::MAX_N401`] bytes of information.
pub const MAX_FRAME: usize = 3 + super::MAX_N401;

/// The shortest frame: address and control.
pub const MIN_FRAME: usize = 2;

const FCS: Crc<u16> = Crc::<u16>::new(&CRC_16_IBM_SDLC);
const FCS_BYTES: usize = 2;
const FLAG: u8 = 0x7e;

/// A frame without its check sequence.
#[derive(Clone, Copy)]
pub struct Frame {
    bytes: [u8; MAX_FRAME],
    len: usize,
}

impl Frame {
    /// Creates a frame of `head` and then `information`, cut off at [`MAX_FRAME`].
    pub fn new(head: &[u8], information: &[u8]) -> Self {
        let mut frame = Self { bytes: [0; MAX_FRAME], len: 0 };
        for (slot, &byte) in frame.bytes.iter_mut().zip(head.iter().chain(information)) {
            *slot = byte;
            frame.len += 1;
        }
        frame
    }

    /// Returns address, control and information.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl core::fmt::Debug for Frame {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:02x?}", self.bytes())
    }
}
