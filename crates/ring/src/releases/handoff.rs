//! Who may change the priority of a waiting thread: a word that says it and hands it over.
//!
//! A thread that runs holds its own reins: its word is zero and nobody else touches its priority.
//! Before it waits it *offers* them, with its kernel id and the priority at which it leaves itself.
//! Whoever runs may *claim* them, set the priority, and give them back with what it set. When the
//! thread runs again it looks whether its priority is still what it left, rises if not, and only
//! then *takes them back*: while it is down and has them, nobody could raise it. So a thread need not
//! lower itself before it sleeps: the next one to run does it.

use super::word::Word;

/// The reins of a thread that waits.
///
/// It may be written by anybody who shares the table, about any thread: whoever uses it verifies that
/// the slot is taken, and that the thread is of the user and in the class of those who wait here. It
/// may still be of another process that shares the table than the slot's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handoff {
    /// The thread's kernel id, below 2^22 as in Linux (proc_sys_kernel(5), pid_max).
    pub thread: u32,
    /// The CPU on which it offered them, below 2^13.
    pub cpu: u32,
    /// The SCHED_FIFO priority that it has while it waits, below 2^7; never 0.
    pub priority: u8,
    /// When it offered them, in steps of about a millisecond; comes round each 67 seconds.
    pub since: u16,
    /// Told apart from the offer before; below 2^5.
    pub turn: u8,
}

/// One step of [`Handoff::since`], in bits of a nanosecond.
const STEP: u32 = 20;

/// Somebody is about to set the priority.
const CLAIMED: u64 = 1 << 63;

impl Handoff {
    /// `now` (nanoseconds) as [`Self::since`] counts.
    pub fn stamp(now: u64) -> u16 {
        (now >> STEP) as u16
    }

    /// For how long they have been on offer at `now`, in nanoseconds, up to a step more. Some
    /// multiple of 67 seconds may be missing.
    pub fn age(self, now: u64) -> u64 {
        u64::from(Self::stamp(now).wrapping_sub(self.since)) << STEP
    }

    /// All of the fields fit, or a bit of one would be read as another's.
    fn word(self) -> u64 {
        debug_assert!(self.thread < 1 << 22 && self.cpu < 1 << 13 && self.turn < 1 << 5);
        debug_assert!((1..1 << 7).contains(&self.priority));
        u64::from(self.priority & 0x7f)
            | u64::from(self.thread & 0x3f_ffff) << 7
            | u64::from(self.cpu & 0x1fff) << 29
            | u64::from(self.turn & 0x1f) << 42
            | u64::from(self.since) << 47
    }

    fn of_word(word: u64) -> Option<Self> {
        let handoff = Self {
            priority: (word & 0x7f) as u8,
            thread: (word >> 7 & 0x3f_ffff) as u32,
            cpu: (word >> 29 & 0x1fff) as u32,
            turn: (word >> 42 & 0x1f) as u8,
            since: (word >> 47) as u16,
        };
        (word & CLAIMED == 0 && handoff.priority != 0 && handoff.thread != 0).then_some(handoff)
    }
}

/// What became of reins that were on offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// As they were seen: nobody set the priority since.
    AsSeen,
    /// Somebody set the priority, or wrote rubbish: it can be anything.
    Changed,
    /// Somebody has them and did not give them back while we looked: he is about to set the
    /// priority, unless he was killed or stopped. They are ours all the same.
    InDoubt,
}

/// How often the owner looks whether claimed reins are given back: a change of priority takes about
/// a microsecond, and only somebody on another CPU can be in the middle of one.
pub(super) const LOOKS: u32 = 256;

pub(super) fn offer<W: Word>(word: &W, handoff: Handoff) {
    word.store(handoff.word());
}

/// What is on offer, unless somebody has claimed it.
pub(super) fn on_offer<W: Word>(word: &W) -> Option<Handoff> {
    Handoff::of_word(word.load())
}

/// While somebody has them, `look_again` says whether to go on waiting for him.
pub(super) fn take_back<W: Word>(
    word: &W,
    known: Option<Handoff>,
    mut look_again: impl FnMut() -> bool,
) -> Taken {
    loop {
        let seen = word.load();
        if seen & CLAIMED != 0 && look_again() {
            continue;
        }
        if word.replace(seen, 0) {
            return match seen {
                seen if seen & CLAIMED != 0 => Taken::InDoubt,
                seen if known.is_some() && Handoff::of_word(seen) == known => Taken::AsSeen,
                _ => Taken::Changed,
            };
        }
        // It changed meanwhile: claimed, or given back. Each offer is claimed a few times at most,
        // but rubbish could come for ever.
        if !look_again() {
            return match word.swap(0) {
                seen if seen & CLAIMED == 0 => Taken::Changed,
                _ => Taken::InDoubt,
            };
        }
    }
}

/// Whether they are ours to use: then [`give_back`] must follow.
pub(super) fn claim<W: Word>(word: &W, seen: Handoff) -> bool {
    word.replace(seen.word(), seen.word() | CLAIMED)
}

/// Whether they were still claimed: their owner may not have waited for it.
pub(super) fn give_back<W: Word>(word: &W, claimed: Handoff, priority: u8) -> bool {
    let word_of = |priority| Handoff { priority, ..claimed }.word();
    // Set to what it was, it still is not as it was left: the owner must not rely on it.
    let turn = claimed.turn ^ 1;
    let back = Handoff { priority, turn, ..claimed }.word();
    word.replace(word_of(claimed.priority) | CLAIMED, back)
}
