//! Cuts a message, or a block of it, into fragments.

use std::num::NonZeroU16;
use std::ops::Range;

use punctual_model::Instant;

use super::header::Header;

/// A message to be cut into fragments.
///
/// ```
/// use punctual_channel::fragment::Fragments;
/// use std::num::NonZeroU16;
///
/// let fragments = Fragments {
///     fragment_bytes: NonZeroU16::new(1_000).expect("not zero"),
///     channel: 3,
///     message: 0,
///     length: 2_500,
/// };
/// let pieces: Vec<_> = fragments.within(1_000..2_500, None).map(|one| one.bytes).collect();
/// assert_eq!(pieces, [1_000..2_000, 2_000..2_500]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragments {
    /// The payload bytes of a fragment.
    pub fragment_bytes: NonZeroU16,
    /// The channel, as sender and receiver agreed to number it.
    pub channel: u32,
    /// The number of the message, counted from the channel's first.
    pub message: u64,
    /// The length of the message in bytes.
    pub length: u32,
}

/// A fragment: its header and its part of the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The header before it.
    pub header: Header,
    /// The bytes of the message that it carries.
    pub bytes: Range<u32>,
}

impl Fragments {
    /// Returns the fragments of a block of the message, each stamped with `sent`; none for an empty
    /// block.
    ///
    /// # Panics
    /// Panics if `block` does not begin at a fragment, does not end at one or at the message's end,
    /// or lies outside.
    pub fn within(
        self,
        block: Range<u32>,
        sent: Option<Instant>,
    ) -> impl ExactSizeIterator<Item = Fragment> {
        let Self { fragment_bytes, channel, message, length } = self;
        let step = u32::from(fragment_bytes.get());
        assert!(
            block.start.is_multiple_of(step),
            "{block:?} begins within a piece of {step} bytes"
        );
        assert!(block.end <= length, "{block:?} of {length} bytes");
        assert!(
            block.end.is_multiple_of(step) || block.end == length,
            "{block:?} ends within a piece"
        );
        let pieces = (block.len() as u32).div_ceil(step);
        (0..pieces).map(move |piece| {
            let offset = block.start + piece * step;
            let bytes = offset..offset.saturating_add(step).min(block.end);
            let fragment_bytes = fragment_bytes.get();
            Fragment {
                header: Header { fragment_bytes, channel, message, offset, length, sent },
                bytes,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_cut_without_gaps() {
        let whole =
            Fragments { fragment_bytes: NonZeroU16::MAX, channel: 1, message: 2, length: u32::MAX };
        let pieces = whole.within(0..u32::MAX, None);
        assert_eq!(pieces.len(), 65_537);
        let mut next = 0;
        for Fragment { header, bytes } in pieces {
            assert_eq!((bytes.start, header.offset), (next, next));
            next = bytes.end;
        }
        assert_eq!(next, u32::MAX);
        assert_eq!(whole.within(0..0, None).len(), 0);
    }

    #[test]
    #[should_panic(expected = "within a piece")]
    fn a_block_begins_at_a_piece() {
        let fragment_bytes = NonZeroU16::new(10).expect("not zero");
        let whole = Fragments { fragment_bytes, channel: 1, message: 2, length: 100 };
        let _ = whole.within(5..20, None);
    }
}
