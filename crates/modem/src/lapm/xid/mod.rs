//! The negotiation before a connection (V.42 §8.10, after ISO/IEC 8885).
//!
//! ```text
//! | 82 | 80 | length, 2 bytes | parameter: identifier, length, value | … |
//! ```
//! Window and frame length are negotiated in the first group, V.42bis in one of its own (`F0`, of
//! the set `V42`). Unknown parameters and groups are skipped. An omitted parameter has V.42's
//! default, which is no compression.

mod compression;
mod limits;
#[cfg(test)]
mod tests;

pub use compression::Compression;
pub use limits::Limits;

const FORMAT: u8 = 0x82;
const GROUP: u8 = 0x80;
const PRIVATE: u8 = 0xf0;
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
