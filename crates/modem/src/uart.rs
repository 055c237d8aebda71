//! Characters as bits: a start bit, eight bits from the lowest on, a stop bit; ones between.
//!
//! The line format of a modem without error control (V.14 without its stop-bit shortening: both
//! ends use the same clock for characters and bits, so it is never needed).

use std::collections::VecDeque;

/// Appends a character with its start and stop bit.
pub fn push_character(bits: &mut VecDeque<bool>, character: u8) {
    bits.push_back(false);
    bits.extend((0..8).map(|bit| character >> bit & 1 == 1));
    bits.push_back(true);
}

/// Finds characters in bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Receiver {
    /// Bits of a character so far, including its start bit; zero between characters.
    bits: u8,
    character: u8,
    framing_errors: u64,
}

impl Receiver {
    /// Takes a bit and returns the character that it completes. A character without a stop bit is
    /// dropped and counted.
    pub fn put_bit(&mut self, bit: bool) -> Option<u8> {
        match self.bits {
            0 => {
                self.bits = u8::from(!bit);
                None
            }
            1..=8 => {
                self.character = self.character >> 1 | u8::from(bit) << 7;
                self.bits += 1;
                None
            }
            _ => {
                self.bits = 0;
                self.framing_errors += u64::from(!bit);
                bit.then_some(self.character)
            }
        }
    }

    /// Returns true if no character has begun: then a one changes nothing.
    pub fn is_between(&self) -> bool {
        self.bits == 0
    }

    /// Returns the number of characters without a stop bit.
    pub fn framing_errors(&self) -> u64 {
        self.framing_errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_comes_back_with_and_without_ones_between() {
        for between in [0, 1, 7] {
            let mut line = VecDeque::from([true; 3]);
            for character in 0..=255 {
                push_character(&mut line, character);
                line.extend(std::iter::repeat_n(true, between));
            }
            let mut receiver = Receiver::default();
            let came: Vec<u8> = line.into_iter().filter_map(|bit| receiver.put_bit(bit)).collect();
            assert_eq!(came, (0..=255).collect::<Vec<_>>());
            assert_eq!(receiver.framing_errors(), 0);
        }
    }

    #[test]
    fn a_missing_stop_bit_loses_its_character_only() {
        let mut line = VecDeque::new();
        push_character(&mut line, 0x55);
        line[9] = false;
        line.extend([true; 12]);
        push_character(&mut line, 0xaa);
        let mut receiver = Receiver::default();
        let came: Vec<u8> = line.into_iter().filter_map(|bit| receiver.put_bit(bit)).collect();
        assert_eq!(came, [0xaa]);
        assert_eq!(receiver.framing_errors(), 1);
    }
}
