//! The server as an end knows it: a bell, which sounds its last when the server ends.

use punctual_linux::pass::{Bell, Heard, PassError};
use punctual_model::Instant;
use punctual_ring::frames::Wake;

use crate::rings::client::Memory;
use crate::rings::{Passed, RingError};

/// The bell of an end, the memory behind it, and what is known of who has the other end.
#[derive(Debug)]
pub(super) struct Peer {
    memory: Memory,
    bell: Bell,
    gone: bool,
    /// Between `before_poll` and `after_poll`.
    pub(super) polled: bool,
}

impl Peer {
    pub(super) fn meet(memory: Memory) -> Result<(Self, Passed), RingError> {
        let (bell, passed) = memory.pass()?;
        Ok((Self { memory, bell, gone: false, polled: false }, passed))
    }

    /// A new bell, for the next server. The old one stays if there is none.
    pub(super) fn meet_the_next(&mut self) -> Result<Passed, RingError> {
        let (bell, passed) = self.memory.pass()?;
        (self.bell, self.gone) = (bell, false);
        Ok(passed)
    }

    pub(super) fn bell(&self) -> &Bell {
        &self.bell
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone
    }

    /// What was published is published, whoever hears of it: that nobody does is kept for the next
    /// call, which would else put in a message twice.
    #[inline]
    pub(super) fn ring(&mut self, wake: Wake) {
        if wake == Wake::Ring && self.bell.ring().is_err() {
            self.gone = true;
        }
    }

    pub(super) fn wait(&mut self, until: Instant) -> Result<Heard, PassError> {
        let heard = self.bell.wait(until)?;
        self.gone |= heard == Heard::Gone;
        Ok(heard)
    }

    /// Takes rings back, and finds out whether anybody is there to ring.
    pub(super) fn silence(&mut self) -> Result<(), PassError> {
        match self.bell.silence() {
            Err(PassError::Gone) => self.gone = true,
            heard => heard?,
        }
        Ok(())
    }
}
