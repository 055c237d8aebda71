//! A table of who waits for the CPU at which level and from when on, over words that processes
//! share.
//!
//! Each process has a slot of four entries, each a level and an instant in one atomic word, so that
//! no reader ever sees half of one, and a word for its reins:
//! - *waits*: the level at which its thread waits in the kernel's queue, and the instant from
//!   which it is runnable there (of a sleeping thread: its next release). Zero while it runs.
//! - *then*: the next releases of the same process, each at a higher level than the entry before,
//!   for which the waiting thread has to be raised. If there are more than fit, the last stands for
//!   all that follow, at the highest of their levels.
//! - [reins]: who may change the priority of the thread, so that whoever runs lowers and raises
//!   those who wait.
//!
//! Nobody trusts what he reads. A word can be anything, written by a process that was killed,
//! stopped, or is of another version: the worst an entry makes a reader do is give way once for
//! nothing. [`Patience`] bounds how often: to the same word only when its age has doubled since the
//! last vain try. So an entry that nobody takes back costs each reader some thirty tries in a day,
//! and no rule about the age of entries is needed, which would forget a living process that a long
//! quantum kept waiting.
//!
//! Which slot is whose is settled elsewhere (by file locks, which die with their holder).

mod entry;
mod handoff;
#[cfg(test)]
mod interleavings;
mod patience;
#[cfg(test)]
mod tests;
mod word;

use std::sync::atomic::AtomicU64;

pub use entry::Entry;
pub use handoff::{Handoff, Taken};
pub use patience::Patience;
pub use word::Word;

/// Slots in a table.
pub const SLOTS: usize = 256;

/// Releases of a process beyond the one it waits for.
pub const THEN: usize = 3;

/// Entries of a slot.
const ENTRIES: usize = 1 + THEN;

/// Words that a table needs.
pub const WORDS: usize = 1 + (ENTRIES + 1) * SLOTS;

/// The table, seen by one process.
#[derive(Debug)]
pub struct Releases<'a, W = AtomicU64> {
    /// How many slots were ever in use: an upper bound for readers, and only a hint.
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
    /// The table in these words.
    ///
    /// # Panics
    /// If there are not [`WORDS`] of them.
    pub fn new(words: &'a [W]) -> Self {
        assert_eq!(words.len(), WORDS, "the words of a table");
        let (high, slots) = words.split_first().expect("some words");
        let (entries, handoff) = slots.split_at(ENTRIES * SLOTS);
        Self { high, entries, handoff }
    }

    /// Takes a slot over from whoever had it.
    pub fn begin(self, slot: usize) {
        self.handoff[slot].store(0);
        self.clear(slot);
        self.high.raise_to(slot as u64 + 1);
    }

    /// How many slots, from the first, can hold anything.
    pub fn high(self) -> usize {
        usize::try_from(self.high.load()).map_or(SLOTS, |high| high.min(SLOTS))
    }

    /// Says what `slot` waits for. To be called before the thread is lowered, by itself or by
    /// another; and with nothing ([`Self::clear`]) only after it has risen. The reverse order lets
    /// two take each other for waiting, or neither.
    pub fn publish(self, slot: usize, waits: Option<Entry>, then: [Option<Entry>; THEN]) {
        let [first, others @ ..] = self.entries_of(slot) else { unreachable!("ENTRIES > 1") };
        first.store(Entry::word_of(waits));
        for (word, entry) in others.iter().zip(then) {
            word.store(Entry::word_of(entry));
        }
    }

    /// `slot` runs, or is not there.
    pub fn clear(self, slot: usize) {
        self.publish(slot, None, [None; THEN]);
    }

    /// Nobody has `slot`: whoever had it ended without a word. Only for who knows that.
    pub fn vacate(self, slot: usize) {
        self.clear(slot);
        self.handoff[slot].store(0);
    }

    /// Whether anything stands in `slot`.
    pub fn is_used(self, slot: usize) -> bool {
        let words = self.entries_of(slot).iter().chain([&self.handoff[slot]]);
        words.into_iter().any(|word| word.load() != 0)
    }

    /// The level at which the thread of `slot` should wait at `now`: the highest of what has been
    /// released, or if nothing has, that of what comes first. None while it runs.
    pub fn deserved(self, slot: usize, now: u64) -> Option<u8> {
        let entries = self.entries_of(slot).iter().map(|word| Entry::of_word(word.load()));
        let first = entries.clone().next()?;
        let passed = entries.filter(|entry| entry.has_passed(now)).map(|entry| entry.level);
        passed.max().or((first.level > 0).then_some(first.level))
    }

    /// Whether somebody else than `own` is released at a higher level than `level` within `slack`
    /// of `at`.
    pub fn crowded(self, own: usize, level: u8, at: u64, slack: u64) -> bool {
        self.in_use().any(|(position, word)| {
            let entry = Entry::of_word(word);
            entry.level > level && entry.from.abs_diff(at) <= slack && position / ENTRIES != own
        })
    }

    /// Offers the reins of the thread in `slot`: from here on it leaves its priority alone, but for
    /// bringing it to what it says here.
    pub fn offer(self, slot: usize, handoff: Handoff) {
        handoff::offer(&self.handoff[slot], handoff);
    }

    /// The reins on offer in `slot`, unless somebody has them.
    pub fn on_offer(self, slot: usize) -> Option<Handoff> {
        handoff::on_offer(&self.handoff[slot])
    }

    /// Takes back the reins of one's own thread, which were `seen` on offer, or in somebody's hands.
    /// Waits for whoever has them for about the time it takes to set a priority, and not longer: he
    /// may be dead.
    pub fn take_back(self, slot: usize, seen: Option<Handoff>) -> Taken {
        let mut looks = 0..handoff::LOOKS;
        handoff::take_back(&self.handoff[slot], seen, || {
            std::hint::spin_loop();
            looks.next().is_some()
        })
    }

    /// Claims the reins of `slot`, which were seen to be `seen`. Whether that succeeded; then the
    /// priority can be set, and [`Self::give_back`] must follow.
    pub fn claim(self, slot: usize, seen: Handoff) -> bool {
        handoff::claim(&self.handoff[slot], seen)
    }

    /// Gives claimed reins back, with the priority that the thread has got. False if their owner
    /// did not wait for it: then what was set may be wrong for what it has done since.
    #[must_use]
    pub fn give_back(self, slot: usize, claimed: Handoff, priority: u8) -> bool {
        handoff::give_back(&self.handoff[slot], claimed, priority)
    }

    fn entries_of(self, slot: usize) -> &'a [W] {
        &self.entries[ENTRIES * slot..][..ENTRIES]
    }

    /// The entries in use, each with its position.
    fn in_use(self) -> impl Iterator<Item = (usize, u64)> + use<'a, W> {
        self.entries[..ENTRIES * self.high()].iter().map(Word::load).enumerate()
    }
}
