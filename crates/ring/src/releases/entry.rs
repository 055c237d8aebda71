//! A level and the instant from which it counts, in one word.

/// A level and the instant from which it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The level. Higher is more urgent, as with SCHED_FIFO; never 0.
    pub level: u8,
    /// The instant in nanoseconds of CLOCK_MONOTONIC, kept in steps of 256, rounded up.
    pub from: u64,
}

impl Entry {
    /// Packs an entry. Returns zero for none, for level 0, and for an instant so late that it means
    /// never.
    pub(super) fn word_of(entry: Option<Self>) -> u64 {
        let Some(Self { level: level @ 1.., from }) = entry else { return 0 };
        from.checked_next_multiple_of(256).map_or(0, |from| from | u64::from(level))
    }

    pub(super) fn of_word(word: u64) -> Self {
        Self { level: word as u8, from: word & !0xff }
    }

    pub(super) fn has_passed(self, now: u64) -> bool {
        self.level > 0 && self.from <= now
    }

    pub(super) fn is_due_above(self, level: u8, now: u64) -> bool {
        self.level > level && self.from <= now
    }
}
