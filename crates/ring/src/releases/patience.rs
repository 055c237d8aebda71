//! A bound on how often one process gives way to stale entries.

use super::entry::Entry;
use super::entry::Word;
use super::{ENTRIES, Releases, SLOTS};

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
