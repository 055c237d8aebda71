//! The server as an end sees it: a bell, which is rung a last time when the server ends, and a
//! doorbell; and an end as the server's side needs it.

use punctual_linux::pass::{Bell, Doorbell, PassError, WaitOutcome};
use punctual_model::Instant;
use punctual_ring::frames::{Corrupt, Geometry, Wake};

use super::RejoinError;
use crate::rings::{Passed, RingError};

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

/// An end of a channel, as the code that requests a queue from a server needs it.
pub trait Attach: Sized {
    /// Maps a queue of a channel that has none yet. The queue was made with this geometry and
    /// begins with message 0.
    ///
    /// # Errors
    /// Returns an error if it is no such queue, or there is no memory.
    fn map(queue: Passed, geometry: Geometry) -> Result<Self, RingError>;

    /// Returns the number of the first message that the next queue carries. The server that makes
    /// that queue needs it.
    ///
    /// # Errors
    /// Returns an error if the last server's part of the memory is inconsistent.
    fn next_number(&mut self) -> Result<u64, Corrupt>;

    /// Goes on with a queue of the next server, after the last one has gone. The queue was made to
    /// begin with message `first`, as [`Self::next_number`] returned. To a server that is still
    /// there, this end is gone from here on.
    ///
    /// # Errors
    /// Returns an error if it is no such queue. Then nothing has changed.
    fn rejoin(&mut self, queue: Passed, first: u64) -> Result<(), RejoinError>;
}
