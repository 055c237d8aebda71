//! Two threads that take turns, each asleep while the other works.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use punctual_model::time::Instant;
use rustix::thread::futex;

use crate::clock;

/// The turns are over, for good.
const OVER: u32 = 2;

/// The thread whose turn it is: 0 or 1, or [`OVER`].
#[derive(Default)]
pub(super) struct Turns(AtomicU32);

impl Turns {
    /// Sleeps until it is the turn of `me`. Returns true if it came before the end and before
    /// `until`.
    pub(super) fn wait(&self, me: u32, until: Instant) -> bool {
        let timeout = clock::timespec(until.as_nanos());
        loop {
            let turn = self.0.load(Ordering::Acquire);
            if turn == me {
                return true;
            }
            if turn == OVER || clock::now() >= until {
                return false;
            }
            // The loop decides every outcome: time-out, wake, signal, changed value.
            let flags = futex::Flags::PRIVATE;
            let _ = futex::wait_bitset(&self.0, flags, turn, Some(&timeout), NonZeroU32::MAX);
        }
    }

    /// Gives the turn to `other` and wakes it.
    pub(super) fn pass(&self, other: u32) {
        self.0.store(other, Ordering::Release);
        let _ = futex::wake(&self.0, futex::Flags::PRIVATE, 1);
    }

    /// Ends the turns, and wakes a waiting thread.
    pub(super) fn end(&self) {
        self.pass(OVER);
    }
}
