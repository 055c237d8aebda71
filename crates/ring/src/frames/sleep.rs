//! The sleep and wake protocol of the two sides.
//!
//! Each side has a word that only it writes: a count of its falling asleep and rising, so odd while
//! it sleeps. It writes that it sleeps and then looks for work; the other side writes the work and
//! then looks for a sleeper. Each issues a full fence in between, so that one of them sees the
//! other (Dekker's mutual exclusion: Dijkstra, EWD 123, 1965). Each sleep has its own number, so
//! that one system call ends it, and not one for each message published until the sleeper runs.

use super::{OwnWords, Words};

/// Tells the caller whether it must wake the other side: a queue makes no system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the other side sleeps for ever unless it is woken"]
pub enum Wake {
    /// The other side sleeps, and has not been woken from this sleep: ring its bell.
    Ring,
    /// The other side is awake, or about to wake.
    Nobody,
}

/// Tells the caller whether to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "having said that it sleeps, a thread must do it, or rise"]
pub enum Rest {
    /// There is nothing to do: wait for the bell, silence it, then call `rise` and look.
    Sleep,
    /// There is something to do.
    Work,
}

/// This side's sleeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sleeper {
    at: usize,
    sleeps: u64,
}

impl Sleeper {
    /// Marks this side as awake, in place of the last user of the word, which may have died in its
    /// sleep.
    pub(super) fn attach(own: &impl OwnWords, at: usize) -> Self {
        let mut sleeper = Self { at, sleeps: own.load(at) };
        sleeper.rise(own);
        sleeper
    }

    /// Marks this side as asleep. The other side then either sees this mark and wakes it, or wrote
    /// its work before the reads that follow here.
    pub(super) fn sleep(&mut self, own: &impl OwnWords) {
        self.sleeps = self.sleeps.wrapping_add(1) | 1;
        own.store(self.at, self.sleeps);
        own.settle();
    }

    /// Marks this side as awake.
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

    /// Returns whether the other side must be woken. Call this after work was published for it.
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
