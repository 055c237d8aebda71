//! Room for one message that is not complete.

use punctual_model::Instant;

use super::header::Header;

#[derive(Debug)]
pub(super) struct Slot {
    bytes: Box<[u8]>,
    /// A bit for each piece.
    have: Box<[u64]>,
    partial: Option<Partial>,
}

/// What is known of the message inside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Partial {
    pub(super) message: u64,
    pub(super) length: u32,
    pub(super) fragment_bytes: u16,
    /// Pieces that have not come.
    missing: u32,
    pub(super) first_sent: Option<Instant>,
    /// When it is given up, once that is known.
    pub(super) give_up_at: Option<Instant>,
}

/// What came of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    Duplicate,
    /// Length or cut are not those of the pieces before it.
    Contradicts(Partial),
    More,
    Complete(Partial),
}

impl PartialEq for Partial {
    fn eq(&self, other: &Self) -> bool {
        self.message == other.message
    }
}
impl Eq for Partial {}

impl Slot {
    /// For messages of up to `max_message` bytes in pieces of at least `least_fragment`.
    pub(super) fn new(max_message: u32, least_fragment: u16) -> Self {
        let words = words_for(max_message, least_fragment);
        Self {
            bytes: vec![0; max_message as usize].into(),
            have: vec![0; words].into(),
            partial: None,
        }
    }

    pub(super) fn partial(&self) -> Option<&Partial> {
        self.partial.as_ref()
    }

    pub(super) fn partial_mut(&mut self) -> Option<&mut Partial> {
        self.partial.as_mut()
    }

    pub(super) fn clear(&mut self) {
        self.partial = None;
    }

    /// Makes room for the message of which `header` is a piece.
    pub(super) fn begin(&mut self, header: &Header, give_up_at: Option<Instant>) {
        let Header { message, length, fragment_bytes, .. } = *header;
        // Only as much as this message needs: a large room may hold a small message.
        self.have[..words_for(length, fragment_bytes)].fill(0);
        let missing = length.div_ceil(fragment_bytes.into());
        self.partial = Some(Partial {
            message,
            length,
            fragment_bytes,
            missing,
            first_sent: None,
            give_up_at,
        });
    }

    /// A piece of the message inside. Of a complete message the bytes stay until the next begins.
    ///
    /// # Panics
    /// If there is no message inside.
    pub(super) fn put(&mut self, header: &Header, piece: &[u8]) -> Put {
        let partial = self.partial.as_mut().expect("a message was begun");
        if (header.length, header.fragment_bytes) != (partial.length, partial.fragment_bytes) {
            return Put::Contradicts(*partial);
        }
        let index = header.offset / u32::from(header.fragment_bytes);
        let (word, bit) = (&mut self.have[index as usize / 64], 1 << (index % 64));
        if *word & bit != 0 {
            return Put::Duplicate;
        }
        *word |= bit;
        self.bytes[header.offset as usize..][..piece.len()].copy_from_slice(piece);
        partial.first_sent = match (partial.first_sent, header.sent) {
            (Some(first), Some(sent)) => Some(first.min(sent)),
            (first, sent) => first.or(sent),
        };
        partial.missing -= 1;
        if partial.missing > 0 {
            return Put::More;
        }
        let complete = *partial;
        self.partial = None;
        Put::Complete(complete)
    }

    /// The first `length` bytes of the message that was inside last.
    pub(super) fn bytes(&self, length: u32) -> &[u8] {
        &self.bytes[..length as usize]
    }
}

/// Words of 64 bits for a bit a piece.
pub(super) fn words_for(length: u32, fragment_bytes: u16) -> usize {
    length.div_ceil(fragment_bytes.into()).div_ceil(u64::BITS) as usize
}
