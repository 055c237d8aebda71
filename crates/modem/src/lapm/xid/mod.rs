//! The negotiation before a connection (V.42 §8.10, after ISO/IEC 8885).
//!
//! ```text
//! | 82 | 80 | length, 2 bytes | parameter: identifier, length, value | … |
//! ```
//! Window and frame length ([`Limits`]) are negotiated in the first group, V.42bis
//! ([`Compression`]) in one of its own (`F0`, of the set `V42`). Unknown parameters and groups are
//! skipped. An omitted parameter has V.42's default, which is no compression.

#[cfg(test)]
mod tests;

use crate::v42bis::Sizes;

/// The default of N401: bytes of information in a frame (V.42 §9.2.3).
pub const DEFAULT_N401: u16 = 128;

/// The default of k: frames sent without an acknowledgement (V.42 §9.2.4).
pub const DEFAULT_K: u8 = 15;

/// The largest number of information bytes in a frame that this end handles.
pub const MAX_N401: usize = 256;

/// The largest window that this end handles.
pub const MAX_K: u8 = 32;
const FORMAT: u8 = 0x82;
const GROUP: u8 = 0x80;
const PRIVATE: u8 = 0xf0;
const OPTIONS: u8 = 3;
const N401_SENT: u8 = 5;
const N401_RECEIVED: u8 = 6;
const K_SENT: u8 = 7;
const K_RECEIVED: u8 = 8;

/// HDLC's optional functions: the value of V.42 Table 11a for an end without any of its options (no
/// selective reject, no test, no 32-bit check sequence).
const NO_OPTIONS: [u8; 4] = [0x8a, 0x89, 0, 0];

/// The private group (V.42bis Annex A): the set's name, P0, P1 and P2.
const SET: u8 = 0;
const V42: &[u8] = b"V42";
const P0: u8 = 1;
const P1: u8 = 2;
const P2: u8 = 3;

/// The defaults of omitted V.42bis parameters (V.42bis §5.1, Table 1).
const DEFAULT_P1: u32 = 512;
const DEFAULT_P2: u32 = 6;

/// The capabilities of one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Window and frame length.
    pub limits: Limits,
    /// V.42bis.
    pub compression: Compression,
}

impl Offer {
    /// Writes the information field of an XID frame. Compression is mentioned only if this end
    /// wants it.
    pub fn write(self) -> Vec<u8> {
        let group = |name, parameters: Vec<u8>| {
            let [high, low] = (parameters.len() as u16).to_be_bytes();
            [&[name, high, low], parameters.as_slice()].concat()
        };
        let mut field = [&[FORMAT], group(GROUP, self.limits.parameters()).as_slice()].concat();
        if self.compression.is_any() {
            field.extend(group(PRIVATE, self.compression.parameters()));
        }
        field
    }

    /// Parses the information field of an XID frame. Returns `None` if it is none, or has
    /// impossible values.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (&FORMAT, mut rest) = bytes.split_first()? else { return None };
        let (mut limits, mut compression) = (None, Compression::default());
        while let Some((&[name, high, low], after)) = rest.split_first_chunk() {
            let length = usize::from(u16::from_be_bytes([high, low]));
            let (group, after) = after.split_at_checked(length)?;
            rest = after;
            match name {
                GROUP => limits = Some(Limits::parse(group)?),
                PRIVATE => compression = Compression::parse(group)?,
                _ => {}
            }
        }
        let limits = limits.filter(|_| rest.is_empty())?;
        Some(Self { limits, compression })
    }
}

/// Iterates over the parameters of a group with their values; yields `None` for one that is cut
/// off.
fn parameters(group: &[u8]) -> impl Iterator<Item = Option<(u8, &[u8])>> {
    let mut rest = group;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some((&[identifier, length], after)) = rest.split_first_chunk() else {
            rest = &[];
            return Some(None);
        };
        let Some((value, after)) = after.split_at_checked(length.into()) else {
            rest = &[];
            return Some(None);
        };
        rest = after;
        Some(Some((identifier, value)))
    })
}

/// Parses a number of up to 32 bits.
fn number(value: &[u8]) -> Option<u32> {
    value.iter().try_fold(0u32, |number, &byte| Some(number.checked_mul(256)? + u32::from(byte)))
}

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

    fn parameters(self) -> Vec<u8> {
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

    fn parse(group: &[u8]) -> Option<Self> {
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

/// V.42bis in one direction or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Compression {
    /// The calling end's data is compressed (P0, bit 0).
    pub from_caller: bool,
    /// The answering end's data is compressed (P0, bit 1).
    pub from_answerer: bool,
    /// P1 and P2.
    pub sizes: Sizes,
}

impl Compression {
    /// Compression both ways.
    pub fn both(sizes: Sizes) -> Self {
        Self { from_caller: true, from_answerer: true, sizes }
    }

    /// Returns true if either direction is compressed.
    pub fn is_any(self) -> bool {
        self.from_caller || self.from_answerer
    }

    /// Returns the compression that both ends want.
    pub fn agreed_with(self, far: Self) -> Self {
        Self {
            from_caller: self.from_caller && far.from_caller,
            from_answerer: self.from_answerer && far.from_answerer,
            sizes: self.sizes.agreed_with(far.sizes),
        }
    }

    fn parameters(self) -> Vec<u8> {
        let p0 = u8::from(self.from_caller) | u8::from(self.from_answerer) << 1;
        let [high, low] = self.sizes.codewords().to_be_bytes();
        [
            &[SET, V42.len() as u8],
            V42,
            &[P0, 1, p0],
            &[P1, 2, high, low],
            &[P2, 1, self.sizes.string()],
        ]
        .concat()
    }

    /// Parses a private group. Returns no compression if the group is another set's or requests the
    /// impossible.
    fn parse(group: &[u8]) -> Option<Self> {
        let (mut is_ours, mut p0, mut p1, mut p2) = (false, 0, DEFAULT_P1, DEFAULT_P2);
        for parameter in parameters(group) {
            match parameter? {
                (SET, value) => is_ours = value == V42,
                (P0, value) => p0 = number(value)?,
                (P1, value) => p1 = number(value)?.min(Sizes::MOST_CODEWORDS.into()),
                (P2, value) => p2 = number(value)?,
                _ => {}
            }
        }
        let sizes = Sizes::new(p1 as u16, u8::try_from(p2).unwrap_or(0));
        let Some(sizes) = sizes.filter(|_| is_ours) else { return Some(Self::default()) };
        Some(Self { from_caller: p0 & 1 != 0, from_answerer: p0 & 2 != 0, sizes })
    }
}
