//! The server as an end sees it: a bell, which is rung a last time when the server ends, and a
//! doorbell.

use punctual_linux::pass::{Bell, Doorbell, PassError, WaitOutcome};
use punctual_model::Instant;
use punctual_ring::frames::Wake;

/// The bells of an end, and whether the server is gone.
#[derive(Debug)]
pub(super) struct Peer {
    bell: Bell,
    doorbell: Doorbell,
    gone: bool,
    /// Set between `before_poll` and `after_poll`.
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

    /// Wakes the server if it sleeps. The message is published in any case. If the server is gone,
    /// that is only reported by the next call: an error here would make the caller send the message
    /// again.
    #[inline]
    pub(super) fn ring(&mut self, wake: Wake) {
        if wake == Wake::Ring {
            self.ring_now();
        }
    }

    #[cold]
    fn ring_now(&mut self) {
        // A doorbell does not show whether the server is there; the bell does. This side is awake,
        // so silencing takes back no ring that would end a sleep.
        if self.doorbell.ring().is_err() || self.bell.silence() == Err(PassError::Gone) {
            self.gone = true;
        }
    }

    pub(super) fn wait(&mut self, until: Instant) -> Result<WaitOutcome, PassError> {
        let heard = self.bell.wait(until)?;
        self.gone |= heard == WaitOutcome::Closed;
        Ok(heard)
    }

    /// Takes rings back, and finds out whether the server is still there.
    pub(super) fn silence(&mut self) -> Result<(), PassError> {
        match self.bell.silence() {
            Err(PassError::Gone) => self.gone = true,
            heard => heard?,
        }
        Ok(())
    }
}
