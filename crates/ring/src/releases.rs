//! A table of who waits for the CPU at which level and from when on, over words that processes
//! share.
//!
//! Each process has a slot of two words, each a level and an instant in one atomic word, so that
//! no reader ever sees half of one:
//! - *waits*: the level at which its thread waits in the kernel's queue, and the instant from
//!   which it is runnable there (of a sleeping thread: its next release). Zero while it runs.
//! - *then*: the next release of the same process at a higher level, for which the waiting thread
//!   would have to be raised.
//!
//! Nobody trusts what he reads. A word can be anything, written by a process that was killed,
//! stopped, or is of another version: the worst it makes a reader do is give way once for nothing.
//! [`Patience`] bounds how often: to the same word only when its age has doubled since the last
//! vain try. So an entry that nobody takes back costs each reader some thirty tries in a day, and
//! no rule about the age of entries is needed, which would forget a living process that a long
//! quantum kept waiting.
//!
//! Which slot is whose is settled elsewhere (by file locks, which die with their holder).

use std::sync::atomic::{AtomicU64, Ordering};

/// Slots in a table.
pub const SLOTS: usize = 256;

/// Words that a table needs.
pub const WORDS: usize = 1 + 2 * SLOTS;

/// A level and an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The higher the more urgent, as with SCHED_FIFO; never 0.
    pub level: u8,
    /// Nanoseconds of CLOCK_MONOTONIC; kept in steps of 256, rounded up.
    pub from: u64,
}

impl Entry {
    /// Zero for none, for level 0, and for an instant so late that it means never.
    fn word_of(entry: Option<Self>) -> u64 {
        let Some(Self { level: level @ 1.., from }) = entry else { return 0 };
        from.checked_next_multiple_of(256).map_or(0, |from| from | u64::from(level))
    }

    fn of_word(word: u64) -> Self {
        Self { level: word as u8, from: word & !0xff }
    }

    fn presses(self, level: u8, now: u64) -> bool {
        self.level > level && self.from <= now
    }
}

/// Which of a slot's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The thread waits in the kernel's queue at this level.
    Waits,
    /// The thread should have been raised to this level.
    Then,
}

/// The table, seen by one process.
#[derive(Clone, Copy, Debug)]
pub struct Releases<'a> {
    /// How many slots were ever in use: an upper bound for readers, and only a hint.
    high: &'a AtomicU64,
    slots: &'a [AtomicU64],
}

impl<'a> Releases<'a> {
    /// The table in these words.
    ///
    /// # Panics
    /// If there are not [`WORDS`] of them.
    pub fn new(words: &'a [AtomicU64]) -> Self {
        assert_eq!(words.len(), WORDS, "the words of a table");
        let (high, slots) = words.split_first().expect("some words");
        Self { high, slots }
    }

    /// Takes a slot over from whoever had it.
    pub fn begin(self, slot: usize) {
        self.publish(slot, None, None);
        self.high.fetch_max(slot as u64 + 1, Ordering::AcqRel);
    }

    /// Says what `slot` waits for. To be called before the thread is lowered or raised from
    /// outside, and with nothing twice ([`Self::clear`]) only after it has risen.
    pub fn publish(self, slot: usize, waits: Option<Entry>, then: Option<Entry>) {
        self.slots[2 * slot].store(Entry::word_of(waits), Ordering::Release);
        self.slots[2 * slot + 1].store(Entry::word_of(then), Ordering::Release);
    }

    /// `slot` runs, or is not there.
    pub fn clear(self, slot: usize) {
        self.publish(slot, None, None);
    }

    /// The words in use, each with its slot.
    fn in_use(self) -> impl Iterator<Item = (usize, u64)> + 'a {
        let high = usize::try_from(self.high.load(Ordering::Acquire)).unwrap_or(SLOTS);
        let words = &self.slots[..2 * high.min(SLOTS)];
        words.iter().map(|word| word.load(Ordering::Acquire)).enumerate()
    }
}

/// What one reader tried in vain.
#[derive(Debug)]
pub struct Patience {
    own: usize,
    /// For each word of the table: what it was, and until when it is not worth another try.
    vain: Box<[(u64, u64)]>,
}

impl Patience {
    /// Of the process that has the slot `own`.
    pub fn new(own: usize) -> Self {
        Self { own, vain: vec![(0, 0); 2 * SLOTS].into_boxed_slice() }
    }

    fn presses(&self, at: usize, word: u64, level: u8, now: u64) -> bool {
        // Nearly every word fails here.
        Entry::of_word(word).presses(level, now)
            && at / 2 != self.own
            && !(self.vain[at].0 == word && now < self.vain[at].1)
    }

    /// Whether anybody else is to get the CPU before work of this level. No system call; a load
    /// and two compares a word.
    pub fn runs_out(&self, releases: Releases<'_>, level: u8, now: u64) -> bool {
        releases.in_use().any(|(at, word)| self.presses(at, word, level, now))
    }

    /// Each word for which [`Self::runs_out`] is true.
    pub fn pressing(
        &self,
        releases: Releases<'_>,
        level: u8,
        now: u64,
    ) -> impl Iterator<Item = (usize, Which)> {
        let which = |at| if at % 2 == 0 { Which::Waits } else { Which::Then };
        let pressing = move |&(at, word): &_| self.presses(at, word, level, now);
        releases.in_use().filter(pressing).map(move |(at, _)| (at / 2, which(at)))
    }

    /// Having given way at `then` and got the CPU back at `now`: whoever pressed and has not
    /// moved cannot run here (he is dead, stopped, on another CPU, or his timer is late). He is
    /// given another try when he is twice as old.
    pub fn gave_way(&mut self, releases: Releases<'_>, level: u8, then: u64, now: u64) {
        for (at, word) in releases.in_use() {
            if at / 2 != self.own && Entry::of_word(word).presses(level, then) {
                let age = now.saturating_sub(Entry::of_word(word).from);
                self.vain[at] = (word, now.saturating_add(age));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(of: impl Fn(usize) -> u64) -> Vec<AtomicU64> {
        (0..WORDS).map(|i| AtomicU64::new(of(i))).collect()
    }

    fn at(level: u8, from: u64) -> Option<Entry> {
        Some(Entry { level, from })
    }

    #[test]
    fn only_a_higher_level_whose_instant_has_passed_presses() {
        let words = words(|_| 0);
        let table = Releases::new(&words);
        table.begin(0);
        table.begin(1);
        let reader = Patience::new(0);
        table.publish(1, at(40, 10_000), at(60, 20_000));
        assert!(!reader.runs_out(table, 39, 9_999));
        assert!(!reader.runs_out(table, 40, 15_000), "equals do not give way");
        // Rounded up to 256, so never before its instant.
        assert!(reader.runs_out(table, 39, 10_240));
        assert!(reader.runs_out(table, 59, 20_480));
        let pressing: Vec<_> = reader.pressing(table, 39, 20_480).collect();
        assert_eq!(pressing, [(1, Which::Waits), (1, Which::Then)]);
        assert!(!Patience::new(1).runs_out(table, 39, u64::MAX), "nobody gives way to himself");
        table.clear(1);
        assert!(!reader.runs_out(table, 0, u64::MAX));
    }

    #[test]
    fn never_is_never() {
        let words = words(|_| 0);
        let table = Releases::new(&words);
        table.begin(1);
        for from in [u64::MAX, u64::MAX - 1, u64::MAX - 254] {
            table.publish(1, at(79, from), at(0, 0));
            assert!(!Patience::new(0).runs_out(table, 1, u64::MAX), "{from}");
        }
    }

    #[test]
    fn an_entry_that_nobody_takes_back_is_tried_each_time_its_age_has_doubled() {
        let words = words(|_| 0);
        let table = Releases::new(&words);
        table.begin(1);
        table.publish(1, at(40, 0), None);
        let mut reader = Patience::new(0);
        let mut tries = 0;
        for now in (1_000..).step_by(1_000).take(1_000_000) {
            if reader.runs_out(table, 10, now) {
                reader.gave_way(table, 10, now, now + 500);
                tries += 1;
            }
        }
        assert!((15..=21).contains(&tries), "{tries} tries in a million yield points");
        // He came back to life: a new entry is a new start.
        table.publish(1, at(40, 2_000_000_000), None);
        assert!(reader.runs_out(table, 10, 2_000_000_256));
    }

    #[test]
    fn whoever_ran_meanwhile_is_not_held_to_have_been_tried_in_vain() {
        let words = words(|_| 0);
        let table = Releases::new(&words);
        table.begin(1);
        table.publish(1, at(40, 1_000), None);
        let mut reader = Patience::new(0);
        assert!(reader.runs_out(table, 10, 2_000));
        // It ran, and waits for its next release, which has passed too by now.
        table.publish(1, at(40, 3_000), None);
        reader.gave_way(table, 10, 2_000, 4_000);
        assert!(reader.runs_out(table, 10, 4_000));
    }

    #[test]
    fn any_content_is_survived_and_tried_a_bounded_number_of_times() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state ^ (state >> 29)
        };
        let noise: Vec<u64> = (0..WORDS).map(|_| random()).collect();
        for words in [words(|_| u64::MAX), words(|i| noise[i]), words(|i| noise[i] & 0xffff_ffff)] {
            let table = Releases::new(&words);
            let mut reader = Patience::new(3);
            let mut tries = 0;
            for now in (1 << 32..1u64 << 62).step_by(1 << 50) {
                if reader.runs_out(table, 2, now) {
                    assert!(reader.pressing(table, 2, now).count() > 0);
                    reader.gave_way(table, 2, now, now + 1);
                    tries += 1;
                }
            }
            assert!(tries < 2_000, "{tries} tries in 4,096 yield points");
            reader.gave_way(table, 0, u64::MAX, u64::MAX);
        }
    }
}
