//! The server as an end knows it: a bell, which sounds its last when the server ends, and a doorbell.

use punctual_linux::pass::{Bell, Doorbell, Heard, PassError};
use punctual_model::Instant;
use punctual_ring::frames::Wake;

/// The bells of an end, and what is known of the server.
#[derive(Debug)]
pub(super) struct Peer {
    bell: Bell,
    doorbell: Doorbell,
    gone: bool,
    /// Between `before_poll` and `after_poll`.
    pub(super) polled: bool,
}

impl Peer {
    pub(super) fn new(bell: Bell, doorbell: Doorbell) -> Self {
        Self { bell, doorbell, gone: false, polled: false }
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
        if wake == Wake::Ring {
            self.ring_now();
        }
    }

    #[cold]
    fn ring_now(&mut self) {
        // A doorbell does not say whether anybody hears it; the bell does. This side is awake, so no ring
        // for a sleep is taken back.
        if self.doorbell.ring().is_err() || self.bell.silence() == Err(PassError::Gone) {
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
