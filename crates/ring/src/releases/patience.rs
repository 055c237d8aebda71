//! How often one process gives way to entries that nobody takes back.

use super::entry::Entry;
use super::word::Word;
use super::{ENTRIES, Releases, SLOTS};

/// What one reader tried in vain.
#[derive(Debug)]
pub struct Patience {
    own: usize,
    /// For each entry of the table: what it was, and until when it is not worth another try.
    vain: Box<[(u64, u64)]>,
}

impl Patience {
    /// Of the process that has the slot `own`.
    pub fn new(own: usize) -> Self {
        Self { own, vain: vec![(0, 0); ENTRIES * SLOTS].into_boxed_slice() }
    }

    /// Whether anybody else is to get the CPU before work of this level. No system call; a load
    /// and two compares a word.
    pub fn runs_out<W: Word>(&self, releases: Releases<'_, W>, level: u8, now: u64) -> bool {
        releases.in_use().any(|(at, word)| {
            // Nearly every word fails here.
            Entry::of_word(word).presses(level, now)
                && at / ENTRIES != self.own
                && !(self.vain[at].0 == word && now < self.vain[at].1)
        })
    }

    /// Having given way at `then` and got the CPU back at `now`: whoever pressed and has not
    /// moved cannot run here (he is dead, stopped, on another CPU, or his timer is late). He is
    /// given another try when he is twice as old. `in_vain` is told his slot.
    pub fn gave_way<W: Word>(
        &mut self,
        releases: Releases<'_, W>,
        level: u8,
        then: u64,
        now: u64,
        mut in_vain: impl FnMut(usize),
    ) {
        for (at, word) in releases.in_use() {
            if at / ENTRIES != self.own && Entry::of_word(word).presses(level, then) {
                let age = now.saturating_sub(Entry::of_word(word).from);
                self.vain[at] = (word, now.saturating_add(age));
                in_vain(at / ENTRIES);
            }
        }
    }
}
