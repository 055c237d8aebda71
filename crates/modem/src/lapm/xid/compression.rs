//! The V.42bis parameters of an XID frame.

use super::{number, parameters};
use crate::v42bis::Sizes;

/// The private group (V.42bis Annex A): the set's name, P0, P1 and P2.
const SET: u8 = 0;
const V42: &[u8] = b"V42";
const P0: u8 = 1;
const P1: u8 = 2;
const P2: u8 = 3;

/// The defaults of omitted V.42bis parameters (V.42bis §5.1, Table 1).
const DEFAULT_P1: u32 = 512;
const DEFAULT_P2: u32 = 6;

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

    pub(super) fn parameters(self) -> Vec<u8> {
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
    pub(super) fn parse(group: &[u8]) -> Option<Self> {
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
