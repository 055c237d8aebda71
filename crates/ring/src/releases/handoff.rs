//! The priority handoff: a word that says which thread may change the priority of a waiting thread,
//! and that hands this right over.
//!
//! A running thread holds its own handoff: its word is zero and no other thread touches its
//! priority. Before it waits it *offers* the handoff, with its kernel id and its current priority.
//! A running thread may *claim* it, set the priority, and give it back with the priority set. When
//! the waiting thread runs again it checks whether its priority is still the one it left, raises
//! itself if not, and only then *takes the handoff back*: if it held the handoff while at a low
//! priority, no thread could raise it. So a thread need not lower itself before it sleeps: the next
//! thread to run does it.

/// The right to change the priority of a waiting thread.
///
/// Any process that shares the table may write it, about any thread. So a process that uses it
/// verifies that the slot is taken, and that the thread belongs to the user and the scheduling
/// class of those that wait here. The thread may still belong to another process that shares the
/// table than the slot's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handoff {
    /// The thread's kernel id, below 2^22 as in Linux (proc_sys_kernel(5), pid_max).
    pub thread: u32,
    /// The CPU on which the thread offered it, below 2^13.
    pub cpu: u32,
    /// The SCHED_FIFO priority that the thread has while it waits, below 2^7; never 0.
    pub priority: u8,
    /// The time of the offer, in steps of about a millisecond; wraps every 67 seconds.
    pub since: u16,
    /// Distinguishes the offer from the one before; below 2^5.
    pub turn: u8,
}

/// One step of [`Handoff::since`], as a power of two of nanoseconds.
const STEP: u32 = 20;

/// The bit that is set while a thread is about to set the priority.
const CLAIMED: u64 = 1 << 63;

impl Handoff {
    /// Converts `now` (nanoseconds) to the unit of [`Self::since`].
    pub fn stamp(now: u64) -> u16 {
        (now >> STEP) as u16
    }

    /// Returns how long the offer has stood at `now`, in nanoseconds, up to a step too much. A
    /// multiple of 67 seconds may be missing.
    pub fn age(self, now: u64) -> u64 {
        u64::from(Self::stamp(now).wrapping_sub(self.since)) << STEP
    }

    /// Packs the fields. All of them must fit, or a bit of one would be read as another's.
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

/// The result of taking back a handoff that was on offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The handoff is as it was seen: no thread has set the priority since.
    AsSeen,
    /// A thread has set the priority, or the word was rubbish: the priority can be anything.
    Changed,
    /// A thread has claimed the handoff and did not give it back within the wait. It is about to
    /// set the priority, unless it was killed or stopped. The handoff is the owner's all the same.
    InDoubt,
}

/// The number of times that the owner checks whether a claimed handoff is given back: a change of
/// priority takes about a microsecond, and only a thread on another CPU can be in the middle of
/// one.
pub(super) const LOOKS: u32 = 256;

pub(super) fn offer<W: Word>(word: &W, handoff: Handoff) {
    word.store(handoff.word());
}

/// Returns the handoff on offer, unless a thread has claimed it.
pub(super) fn on_offer<W: Word>(word: &W) -> Option<Handoff> {
    Handoff::of_word(word.load())
}

/// Takes the handoff back. While it is claimed, `look_again` says whether to go on waiting.
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
        // The word changed meanwhile: claimed, or given back. Each offer is claimed a few times at
        // most, but rubbish could come for ever.
        if !look_again() {
            return match word.swap(0) {
                seen if seen & CLAIMED == 0 => Taken::Changed,
                _ => Taken::InDoubt,
            };
        }
    }
}

/// Claims the handoff and returns whether that succeeded; then [`give_back`] must follow.
pub(super) fn claim<W: Word>(word: &W, seen: Handoff) -> bool {
    word.replace(seen.word(), seen.word() | CLAIMED)
}

/// Gives a claimed handoff back and returns whether it was still claimed: the owner may not have
/// waited for it.
pub(super) fn give_back<W: Word>(word: &W, claimed: Handoff, priority: u8) -> bool {
    let word_of = |priority| Handoff { priority, ..claimed }.word();
    // Even if the priority is the same as before, the offer must differ from the one the owner
    // left: it must not rely on it.
    let turn = claimed.turn ^ 1;
    let back = Handoff { priority, turn, ..claimed }.word();
    word.replace(word_of(claimed.priority) | CLAIMED, back)
}

/// The operations that the table needs of an atomic word. In shared memory it is
/// [`AtomicU64`](core::sync::atomic::AtomicU64); the tests use one whose every interleaving is
/// tried.
pub trait Word {
    /// Reads the word, and acquires everything that was written before the value read was stored.
    fn load(&self) -> u64;
    /// Writes the word, after everything that was written before (release).
    fn store(&self, value: u64);
    /// Writes the word and returns what it was, with both of these orders.
    fn swap(&self, value: u64) -> u64;
    /// Writes `new` if the word is `seen`, and returns whether it was.
    fn replace(&self, seen: u64, new: u64) -> bool;
    /// Raises the word to at least `value`.
    fn raise_to(&self, value: u64);
}
