//! A table of the releases for which threads wait, each with its level and instant, in words that
//! processes share.
//!
//! Each process has a slot of four entries, each a level and an instant in one atomic word, so that
//! no reader ever sees half of one, and a word for the priority handoff:
//! - *waits*: the level at which its thread waits in the kernel's queue, and the instant from which
//!   it is runnable there (for a sleeping thread, its next release). Zero while it runs.
//! - *then*: the next releases of the same process, each at a higher level than the entry before,
//!   for which the waiting thread has to be raised. If there are more than fit, the last entry
//!   stands for all that follow, at the highest of their levels.
//! - *handoff*: the right to change the priority of the thread, so that the running thread lowers
//!   and raises the waiting ones.
//!
//! A reader trusts no word. A word can hold anything if it was written by a process that was
//! killed, is stopped, or is of another version: the worst that an entry makes a reader do is give
//! way once for nothing. [`Patience`] bounds how often: a reader gives way to the same word again
//! only when its age has doubled since the last vain try. So a stale entry costs each reader some
//! thirty tries in a day. No rule about the age of entries is needed, which would forget a living
//! process that a long quantum kept waiting.
//!
//! The owner of each slot is settled elsewhere (by file locks, which the kernel releases when a
//! process dies).

mod handoff;
#[cfg(test)]
mod interleavings;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::releases::handoff::Word;

pub use handoff::{Handoff, Taken};

/// The slots of a table.
pub const SLOTS: usize = 256;

/// The releases of a process that an entry can hold beyond the one it waits for.
pub const THEN: usize = 3;

/// The entries of a slot.
const ENTRIES: usize = 1 + THEN;

/// The words that a table needs.
pub const WORDS: usize = 1 + (ENTRIES + 1) * SLOTS;

/// The table as one process sees it.
#[derive(Debug)]
pub struct Releases<'a, W = AtomicU64> {
    /// The number of slots ever in use: an upper bound for readers, and only a hint.
    high: &'a W,
    entries: &'a [W],
    handoff: &'a [W],
}

impl<W> Clone for Releases<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W> Copy for Releases<'_, W> {}

impl<'a, W: Word> Releases<'a, W> {
    /// Returns the table in these words.
    ///
    /// # Panics
    /// If there are not [`WORDS`] of them.
    pub fn new(words: &'a [W]) -> Self {
        assert_eq!(words.len(), WORDS, "the words of a table");
        let (high, slots) = words.split_first().expect("some words");
        let (entries, handoff) = slots.split_at(ENTRIES * SLOTS);
        Self { high, entries, handoff }
    }

    /// Takes a slot over from its last user.
    pub fn begin(self, slot: usize) {
        self.handoff[slot].store(0);
        self.clear(slot);
        self.high.raise_to(slot as u64 + 1);
    }

    /// Returns how many slots, from the first, can hold anything.
    pub fn high(self) -> usize {
        usize::try_from(self.high.load()).map_or(SLOTS, |high| high.min(SLOTS))
    }

    /// Writes what `slot` waits for. Call this before the thread is lowered, by itself or by
    /// another thread; and call it with nothing ([`Self::clear`]) only after the thread has been
    /// raised. In the reverse order two threads may each take the other for waiting, or neither.
    pub fn publish(self, slot: usize, waits: Option<Entry>, then: [Option<Entry>; THEN]) {
        let [first, others @ ..] = self.entries_of(slot) else { unreachable!("ENTRIES > 1") };
        first.store(Entry::word_of(waits));
        for (word, entry) in others.iter().zip(then) {
            word.store(Entry::word_of(entry));
        }
    }

    /// Marks `slot` as running, or as unused.
    pub fn clear(self, slot: usize) {
        self.publish(slot, None, [None; THEN]);
    }

    /// Empties `slot`, whose process has ended without clearing it. The caller must know that it
    /// has ended.
    pub fn vacate(self, slot: usize) {
        self.clear(slot);
        self.handoff[slot].store(0);
    }

    /// Returns whether `slot` holds anything.
    pub fn is_used(self, slot: usize) -> bool {
        let words = self.entries_of(slot).iter().chain([&self.handoff[slot]]);
        words.into_iter().any(|word| word.load() != 0)
    }

    /// Returns the level at which the thread of `slot` should wait at `now`: the highest of what
    /// has been released, or if nothing has, that of the first entry. `None` while it runs.
    pub fn deserved(self, slot: usize, now: u64) -> Option<u8> {
        let entries = self.entries_of(slot).iter().map(|word| Entry::of_word(word.load()));
        let first = entries.clone().next()?;
        let passed = entries.filter(|entry| entry.has_passed(now)).map(|entry| entry.level);
        passed.max().or((first.level > 0).then_some(first.level))
    }

    /// Returns whether another slot than `own` has a release at a higher level than `level` within
    /// `slack` of `at`.
    pub fn crowded(self, own: usize, level: u8, at: u64, slack: u64) -> bool {
        self.in_use().any(|(position, word)| {
            let entry = Entry::of_word(word);
            entry.level > level && entry.from.abs_diff(at) <= slack && position / ENTRIES != own
        })
    }

    /// Offers the handoff of the thread in `slot`. From then on the thread leaves its own priority
    /// alone, except that it may bring it to the value in `handoff`.
    pub fn offer(self, slot: usize, handoff: Handoff) {
        handoff::offer(&self.handoff[slot], handoff);
    }

    /// Returns the handoff on offer in `slot`, unless another thread has claimed it.
    pub fn on_offer(self, slot: usize) -> Option<Handoff> {
        handoff::on_offer(&self.handoff[slot])
    }

    /// Takes back the handoff of the caller's own thread, which was `seen` on offer or was claimed.
    /// Waits for the claimant about as long as it takes to set a priority, and no longer: it may be
    /// dead.
    pub fn take_back(self, slot: usize, seen: Option<Handoff>) -> Taken {
        let mut looks = 0..handoff::LOOKS;
        handoff::take_back(&self.handoff[slot], seen, || {
            std::hint::spin_loop();
            looks.next().is_some()
        })
    }

    /// Claims the handoff of `slot`, which was seen to be `seen`. Returns whether that succeeded;
    /// then the priority can be set, and [`Self::give_back`] must follow.
    pub fn claim(self, slot: usize, seen: Handoff) -> bool {
        handoff::claim(&self.handoff[slot], seen)
    }

    /// Gives a claimed handoff back with the priority that was set. Returns `false` if the owner
    /// did not wait for it: then the priority set may be wrong for what the owner has done since.
    #[must_use]
    pub fn give_back(self, slot: usize, claimed: Handoff, priority: u8) -> bool {
        handoff::give_back(&self.handoff[slot], claimed, priority)
    }

    fn entries_of(self, slot: usize) -> &'a [W] {
        &self.entries[ENTRIES * slot..][..ENTRIES]
    }

    /// Returns the entries in use, each with its position.
    fn in_use(self) -> impl Iterator<Item = (usize, u64)> + use<'a, W> {
        self.entries[..ENTRIES * self.high()].iter().map(Word::load).enumerate()
    }
}

impl Word for AtomicU64 {
    fn load(&self) -> u64 {
        self.load(Ordering::Acquire)
    }

    fn store(&self, value: u64) {
        self.store(value, Ordering::Release);
    }

    fn swap(&self, value: u64) -> u64 {
        self.swap(value, Ordering::AcqRel)
    }

    fn replace(&self, seen: u64, new: u64) -> bool {
        self.compare_exchange(seen, new, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn raise_to(&self, value: u64) {
        self.fetch_max(value, Ordering::AcqRel);
    }
}

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
    fn word_of(entry: Option<Self>) -> u64 {
        let Some(Self { level: level @ 1.., from }) = entry else { return 0 };
        from.checked_next_multiple_of(256).map_or(0, |from| from | u64::from(level))
    }

    fn of_word(word: u64) -> Self {
        Self { level: word as u8, from: word & !0xff }
    }

    fn has_passed(self, now: u64) -> bool {
        self.level > 0 && self.from <= now
    }

    fn is_due_above(self, level: u8, now: u64) -> bool {
        self.level > level && self.from <= now
    }
}

/// The vain tries of one reader.
#[derive(Debug)]
pub struct Patience {
    own: usize,
    /// For each entry of the table: the word, and the time until which it is not worth another try.
    vain: Box<[(u64, u64)]>,
}

impl Patience {
    /// Creates the record of the process that has the slot `own`.
    pub fn new(own: usize) -> Self {
        Self { own, vain: vec![(0, 0); ENTRIES * SLOTS].into_boxed_slice() }
    }

    /// Returns whether another thread is to get the CPU before work of this level. Makes no system
    /// call; each word costs a load and two comparisons.
    pub fn runs_out<W: Word>(&self, releases: Releases<'_, W>, level: u8, now: u64) -> bool {
        releases.in_use().any(|(at, word)| {
            // Nearly every word fails here.
            Entry::of_word(word).is_due_above(level, now)
                && at / ENTRIES != self.own
                && !(self.vain[at].0 == word && now < self.vain[at].1)
        })
    }

    /// Records that this process gave way at `then` and got the CPU back at `now`. A thread that
    /// was more urgent and whose entry has not changed cannot run here (it is dead, stopped, on
    /// another CPU, or its timer is late). It gets another try when its entry is twice as old.
    /// Calls `in_vain` with its slot.
    pub fn gave_way<W: Word>(
        &mut self,
        releases: Releases<'_, W>,
        level: u8,
        then: u64,
        now: u64,
        mut in_vain: impl FnMut(usize),
    ) {
        for (at, word) in releases.in_use() {
            if at / ENTRIES != self.own && Entry::of_word(word).is_due_above(level, then) {
                let age = now.saturating_sub(Entry::of_word(word).from);
                self.vain[at] = (word, now.saturating_add(age));
                in_vain(at / ENTRIES);
            }
        }
    }
}
