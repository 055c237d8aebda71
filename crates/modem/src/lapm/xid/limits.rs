//! Window and frame length.

use super::{number, parameters};
use crate::lapm::{DEFAULT_K, DEFAULT_N401, MAX_K, MAX_N401};

const OPTIONS: u8 = 3;
const N401_SENT: u8 = 5;
const N401_RECEIVED: u8 = 6;
const K_SENT: u8 = 7;
const K_RECEIVED: u8 = 8;

/// HDLC's optional functions: the value of V.42 Table 11a for an end without any of its options (no
/// selective reject, no test, no 32-bit check sequence).
const NO_OPTIONS: [u8; 4] = [0x8a, 0x89, 0, 0];

/// Window and frame length, seen from the end that sends them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest number of information bytes in a frame that this end sends.
    pub n401_sent: u16,
    /// The largest number of information bytes in a frame that this end receives.
    pub n401_received: u16,
    /// The largest number of frames that this end sends without an acknowledgement.
    pub k_sent: u8,
    /// The largest number of frames that this end receives without acknowledging.
    pub k_received: u8,
}

impl Limits {
    /// Returns limits that are the same both ways.
    pub fn both(n401: u16, k: u8) -> Self {
        Self { n401_sent: n401, n401_received: n401, k_sent: k, k_received: k }
    }

    /// Returns the limits clamped to what this end can hold, and to at least one.
    pub fn bounded(self) -> Self {
        let n401 = |bytes: u16| bytes.clamp(1, MAX_N401 as u16);
        let k = |frames: u8| frames.clamp(1, MAX_K);
        Self {
            n401_sent: n401(self.n401_sent),
            n401_received: n401(self.n401_received),
            k_sent: k(self.k_sent),
            k_received: k(self.k_received),
        }
    }

    /// Returns the limits between this end and a far end that sent `far`: in each direction the
    /// smaller of what one end sends and the other receives.
    pub fn agreed_with(self, far: Self) -> Self {
        Self {
            n401_sent: self.n401_sent.min(far.n401_received),
            n401_received: self.n401_received.min(far.n401_sent),
            k_sent: self.k_sent.min(far.k_received),
            k_received: self.k_received.min(far.k_sent),
        }
    }

    pub(super) fn parameters(self) -> Vec<u8> {
        let bits = |bytes: u16| (u32::from(bytes) * 8).to_be_bytes();
        let [.., sent_high, sent_low] = bits(self.n401_sent);
        let [.., received_high, received_low] = bits(self.n401_received);
        let [a, b, c, d] = NO_OPTIONS;
        [
            [OPTIONS, 4, a, b, c, d].as_slice(),
            &[N401_SENT, 2, sent_high, sent_low],
            &[N401_RECEIVED, 2, received_high, received_low],
            &[K_SENT, 1, self.k_sent],
            &[K_RECEIVED, 1, self.k_received],
        ]
        .concat()
    }

    pub(super) fn parse(group: &[u8]) -> Option<Self> {
        let mut limits = Self::both(DEFAULT_N401, DEFAULT_K);
        for parameter in parameters(group) {
            match parameter? {
                (N401_SENT, value) => limits.n401_sent = n401(number(value)?)?,
                (N401_RECEIVED, value) => limits.n401_received = n401(number(value)?)?,
                (K_SENT, value) => limits.k_sent = k(number(value)?)?,
                (K_RECEIVED, value) => limits.k_received = k(number(value)?)?,
                _ => {}
            }
        }
        Some(limits)
    }
}

/// Converts bits, as on the line, to bytes, limited to what this end can hold.
fn n401(bits: u32) -> Option<u16> {
    let bytes = bits / 8;
    (bytes > 0).then_some(bytes.min(MAX_N401 as u32) as u16)
}

fn k(frames: u32) -> Option<u8> {
    (1..128).contains(&frames).then_some(frames.min(MAX_K.into()) as u8)
}
