//! Detects whether the far end corrects errors too (V.42 §7.2.1).
//!
//! The calling end sends the originator detection pattern: DC1 with even and odd parity in turn, as
//! characters with start and stop bits. A modem without V.42 shows its user a few harmless control
//! characters. An answering end with V.42 recognises the pattern and answers `EC`, ten times.

use std::collections::VecDeque;

use crate::uart::{Receiver, push_character};

/// DC1, even and odd parity.
const ODP: [u8; 2] = [0x11, 0x91];
/// The answer of a modem with V.42.
const ADP: [u8; 2] = *b"EC";
/// The number of times the answer is sent.
const ADP_COUNT: usize = 10;
/// Ones between two characters: 8 to 16.
const ONES_BETWEEN: usize = 8;
/// Characters with alternating parity that the answering end must see.
const ODP_SEEN: u8 = 4;
/// Characters of the answer that the calling end must see: two patterns.
const ADP_SEEN: u8 = 4;

/// The calling end's part.
#[derive(Clone, Debug, Default)]
pub struct Originator {
    pending: VecDeque<bool>,
    odd: bool,
    pattern: Alternating,
}

impl Originator {
    /// Returns the next bit of the pattern.
    pub fn next_bit(&mut self) -> bool {
        if self.pending.is_empty() {
            push_character(&mut self.pending, ODP[usize::from(self.odd)]);
            self.pending.extend([true; ONES_BETWEEN]);
            self.odd = !self.odd;
        }
        self.pending.pop_front().unwrap_or(true)
    }

    /// Takes a bit. Returns true once the far end has answered that it corrects errors.
    pub fn put_bit(&mut self, bit: bool) -> bool {
        self.pattern.put_bit(bit, ADP) >= ADP_SEEN
    }
}

/// The answering end's part.
#[derive(Clone, Debug, Default)]
pub struct Answerer {
    pending: VecDeque<bool>,
    seen: bool,
    pattern: Alternating,
}

impl Answerer {
    /// Returns the next bit: ones, then the answer.
    pub fn next_bit(&mut self) -> bool {
        self.pending.pop_front().unwrap_or(true)
    }

    /// Takes a bit.
    pub fn put_bit(&mut self, bit: bool) {
        if !self.seen && self.pattern.put_bit(bit, ODP) >= ODP_SEEN {
            self.seen = true;
            for character in ADP.repeat(ADP_COUNT) {
                push_character(&mut self.pending, character);
                self.pending.extend([true; ONES_BETWEEN]);
            }
        }
    }

    /// Returns true once the pattern was seen and the whole answer has been sent.
    pub fn is_done(&self) -> bool {
        self.seen && self.pending.is_empty()
    }

    /// Returns true once the calling end's pattern was seen.
    pub fn has_seen(&self) -> bool {
        self.seen
    }
}

/// Counts characters that alternate between two.
#[derive(Clone, Debug, Default)]
struct Alternating {
    receiver: Receiver,
    last: Option<u8>,
    count: u8,
}

impl Alternating {
    fn put_bit(&mut self, bit: bool, pair: [u8; 2]) -> u8 {
        if let Some(character) = self.receiver.put_bit(bit) {
            let fits = pair.contains(&character);
            let alternates = fits && self.last.is_some_and(|last| last != character);
            self.count = match (fits, alternates) {
                (true, true) => self.count.saturating_add(1),
                (true, false) => 1,
                _ => 0,
            };
            self.last = fits.then_some(character);
        }
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patterns_have_the_bits_of_the_recommendation() {
        let bits = |text: &str| text.bytes().filter(|b| *b != b' ').map(|b| b == b'1').collect();
        // §7.2.1.1: DC1 with even parity and with odd, ones between.
        let expected: Vec<bool> = bits("0 1000 1000 1 11111111 0 1000 1001 1 11111111");
        let mut originator = Originator::default();
        let sent: Vec<bool> = (0..expected.len()).map(|_| originator.next_bit()).collect();
        assert_eq!(sent, expected);
        // §7.2.1.3: "E" and "C".
        let expected: Vec<bool> = bits("0 1010 0010 1 11111111 0 1100 0010 1 11111111");
        let mut answerer = Answerer::default();
        assert!((0..50).all(|_| answerer.next_bit()), "ones before it has seen anything");
        while !answerer.has_seen() {
            answerer.put_bit(originator.next_bit());
        }
        let sent: Vec<bool> = (0..10 * expected.len()).map(|_| answerer.next_bit()).collect();
        assert_eq!(sent, expected.repeat(10));
        assert!(answerer.is_done() && answerer.next_bit());
        let seen = sent.iter().position(|&bit| originator.put_bit(bit)).expect("seen");
        assert!(seen < 2 * expected.len() + 12, "two patterns are enough: {seen}");
    }

    #[test]
    fn neither_ones_nor_text_nor_one_parity_is_a_pattern() {
        let mut line = VecDeque::from([true; 100]);
        for character in *b"\x11\x11\x11\x11\x11EECCEE \x91\x91\x91\x91 ECA\x11\x91\x11A" {
            push_character(&mut line, character);
        }
        let mut originator = Originator::default();
        let mut answerer = Answerer::default();
        for bit in line {
            assert!(!originator.put_bit(bit));
            answerer.put_bit(bit);
        }
        assert!(!answerer.has_seen());
    }
}
