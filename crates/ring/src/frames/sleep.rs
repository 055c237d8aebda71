//! Who sleeps, and who must be woken.
//!
//! Each side has a word that only it writes: how often it has fallen asleep and risen, so odd while
//! it sleeps. It writes that it sleeps and then looks whether there is something to do; the other
//! side writes what there is to do and then looks whether somebody sleeps. Both settle in between,
//! so that one of them sees the other (Dekker's mutual exclusion: Dijkstra, EWD 123, 1965). Each
//! sleep has its own number, so that it is ended by one call of the kernel and not by one for each
//! message published until the sleeper runs.

use super::{OwnWords, Words};

/// Whether the other side sleeps, and so must be woken by the caller: a queue makes no system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the other side sleeps for ever unless it is woken"]
pub enum Wake {
    /// It sleeps, and has not been woken from this sleep: ring its bell.
    Ring,
    /// It is awake, or about to wake.
    Nobody,
}

/// Whether to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "having said that it sleeps, a thread must do it, or rise"]
pub enum Rest {
    /// Nothing to do: wait for the bell, silence it, then `rise` and look.
    Sleep,
    /// There is something to do.
    Work,
}

/// One's own sleeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sleeper {
    at: usize,
    sleeps: u64,
}

impl Sleeper {
    /// Awake, in place of whoever used the word before, perhaps in its sleep.
    pub(super) fn attach(own: &impl OwnWords, at: usize) -> Self {
        let mut sleeper = Self { at, sleeps: own.load(at) };
        sleeper.rise(own);
        sleeper
    }

    /// Says that it sleeps. What is read after this was written by whoever does not see it, or it
    /// is woken.
    pub(super) fn sleep(&mut self, own: &impl OwnWords) {
        self.sleeps = self.sleeps.wrapping_add(1) | 1;
        own.store(self.at, self.sleeps);
        own.settle();
    }

    /// Says that it is awake.
    pub(super) fn rise(&mut self, own: &impl OwnWords) {
        if self.sleeps % 2 == 1 {
            self.sleeps = self.sleeps.wrapping_add(1);
            own.store(self.at, self.sleeps);
        }
    }
}

/// The other side's sleeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waker {
    at: usize,
    /// The sleep from which it was woken last; even if from none.
    woken: u64,
}

impl Waker {
    pub(super) fn new(at: usize) -> Self {
        Self { at, woken: 0 }
    }

    /// To be asked after something was published for it to do.
    #[inline]
    pub(super) fn look(&mut self, other: &impl Words) -> Wake {
        other.settle();
        let sleeps = other.load(self.at);
        if sleeps.is_multiple_of(2) || sleeps == self.woken {
            return Wake::Nobody;
        }
        self.woken = sleeps;
        Wake::Ring
    }
}
