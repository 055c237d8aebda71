//! What the ends agree on before they begin (V.42 §8.10, after ISO/IEC 8885).
//!
//! ```text
//! | 82 | 80 | length, 2 bytes | parameter: identifier, length, value | … |
//! ```
//! Only window and frame length are negotiated. Parameters unknown to us are passed over, as are
//! groups after the first; what is left out has V.42's default.

use super::{DEFAULT_K, DEFAULT_N401, MAX_K, MAX_N401};

const FORMAT: u8 = 0x82;
const GROUP: u8 = 0x80;
const OPTIONS: u8 = 3;
const N401_SENT: u8 = 5;
const N401_RECEIVED: u8 = 6;
const K_SENT: u8 = 7;
const K_RECEIVED: u8 = 8;

/// HDLC's optional functions: what V.42 Table 11a says that an end has which offers none of its
/// options (no selective reject, no test, no 32-bit check sequence).
const NO_OPTIONS: [u8; 4] = [0x8a, 0x89, 0, 0];

/// Window and frame length, seen from the end that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most information bytes in a frame that this end sends.
    pub n401_sent: u16,
    /// The most information bytes in a frame that it takes.
    pub n401_received: u16,
    /// The most frames it sends without an acknowledgement.
    pub k_sent: u8,
    /// The most frames it takes without acknowledging.
    pub k_received: u8,
}

impl Limits {
    /// The same both ways.
    pub fn both(n401: u16, k: u8) -> Self {
        Self { n401_sent: n401, n401_received: n401, k_sent: k, k_received: k }
    }

    /// What holds between this end and a far end that said `far`: the smaller of what one sends
    /// and the other takes.
    pub fn agreed_with(self, far: Self) -> Self {
        Self {
            n401_sent: self.n401_sent.min(far.n401_received),
            n401_received: self.n401_received.min(far.n401_sent),
            k_sent: self.k_sent.min(far.k_received),
            k_received: self.k_received.min(far.k_sent),
        }
    }

    /// Writes the information field of an XID frame.
    pub fn write(self) -> Vec<u8> {
        let bits = |bytes: u16| (u32::from(bytes) * 8).to_be_bytes();
        let [.., sent_high, sent_low] = bits(self.n401_sent);
        let [.., received_high, received_low] = bits(self.n401_received);
        let [a, b, c, d] = NO_OPTIONS;
        let parameters = [
            [OPTIONS, 4, a, b, c, d].as_slice(),
            &[N401_SENT, 2, sent_high, sent_low],
            &[N401_RECEIVED, 2, received_high, received_low],
            &[K_SENT, 1, self.k_sent],
            &[K_RECEIVED, 1, self.k_received],
        ]
        .concat();
        let [high, low] = (parameters.len() as u16).to_be_bytes();
        [&[FORMAT, GROUP, high, low], parameters.as_slice()].concat()
    }

    /// Reads the information field of an XID frame; `None` if it is none, or promises nonsense.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (&[FORMAT, GROUP, high, low], rest) = bytes.split_first_chunk()? else { return None };
        let mut rest = rest.get(..usize::from(u16::from_be_bytes([high, low])))?;
        let mut limits = Self::both(DEFAULT_N401, DEFAULT_K);
        while let Some((&[identifier, length], after)) = rest.split_first_chunk() {
            let (value, after) = after.split_at_checked(length.into())?;
            rest = after;
            let number = value
                .iter()
                .try_fold(0u32, |number, &byte| Some(number.checked_mul(256)? + u32::from(byte)));
            match identifier {
                N401_SENT => limits.n401_sent = n401(number?)?,
                N401_RECEIVED => limits.n401_received = n401(number?)?,
                K_SENT => limits.k_sent = k(number?)?,
                K_RECEIVED => limits.k_received = k(number?)?,
                _ => {}
            }
        }
        rest.is_empty().then_some(limits)
    }
}

/// Bits on the line, bytes here; more than we can hold is as much as we can hold.
fn n401(bits: u32) -> Option<u16> {
    let bytes = bits / 8;
    (bytes > 0).then_some(bytes.min(MAX_N401 as u32) as u16)
}

fn k(frames: u32) -> Option<u8> {
    (1..128).contains(&frames).then_some(frames.min(MAX_K.into()) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_offer_has_the_bytes_of_the_recommendation() {
        let expected = [
            0x82, 0x80, 0x00, 0x14, // general purpose, 20 bytes
            0x03, 0x04, 0x8a, 0x89, 0x00, 0x00, // HDLC optional functions
            0x05, 0x02, 0x04, 0x00, 0x06, 0x02, 0x04, 0x00, // N401: 1024 bits each way
            0x07, 0x01, 0x0f, 0x08, 0x01, 0x0f, // k: 15 each way
        ];
        assert_eq!(Limits::both(128, 15).write(), expected);
        assert_eq!(Limits::parse(&expected), Some(Limits::both(128, 15)));
    }

    #[test]
    fn both_ends_come_to_the_same_agreement() {
        let one = Limits { n401_sent: 64, n401_received: 128, k_sent: 7, k_received: 15 };
        let other = Limits { n401_sent: 100, n401_received: 32, k_sent: 4, k_received: 3 };
        let seen = one.agreed_with(other);
        assert_eq!(seen, Limits { n401_sent: 32, n401_received: 100, k_sent: 3, k_received: 4 });
        let back = other.agreed_with(one);
        assert_eq!((back.n401_sent, back.n401_received), (100, 32));
        assert_eq!((back.k_sent, back.k_received), (4, 3));
    }

    #[test]
    fn unknown_parameters_are_passed_over_and_nonsense_is_refused() {
        let with = |parameters: &[u8]| {
            Limits::parse(&[&[0x82, 0x80, 0, parameters.len() as u8], parameters].concat())
        };
        assert_eq!(with(&[]), Some(Limits::both(128, 15)));
        assert_eq!(with(&[0x42, 3, 1, 2, 3, 7, 1, 4]).map(|l| l.k_sent), Some(4));
        assert_eq!(with(&[7, 1, 0]), None, "a window of nothing");
        assert_eq!(with(&[7, 1, 128]), None);
        assert_eq!(with(&[5, 2, 0, 0]), None);
        assert_eq!(with(&[5, 2, 0]), None, "cut off");
        assert_eq!(with(&[5]), None);
        assert_eq!(with(&[5, 5, 1, 0, 0, 0, 0]), None, "more than 32 bits");
        assert_eq!(with(&[5, 2, 0xff, 0xff]).map(|l| l.n401_sent), Some(256));
        assert_eq!(Limits::parse(&[0x82, 0x80, 0, 9]), None);
        assert_eq!(Limits::parse(&[0x81, 0x80, 0, 0]), None);
        // A group of V.42bis parameters after the first is passed over.
        let mut more = Limits::both(128, 15).write();
        more.extend([0xf0, 0, 1, 0]);
        assert_eq!(Limits::parse(&more), Some(Limits::both(128, 15)));
    }
}
