//! The callbacks between a modem's bits and a session.

use punctual_model::Instant;

use crate::ffi::{BitPipe, Status};
use crate::lapm::Session;
use crate::supervision::{Limits, Supervisor};

/// The state that the modem's callbacks work on.
pub(super) struct Bits {
    /// The time at which the current block of samples began.
    pub(super) now: Instant,
    pub(super) session: Option<Session>,
    pub(super) supervisor: Option<Supervisor>,
    pub(super) limits: Limits,
    pub(super) carrier_since: Option<Instant>,
    pub(super) trained: bool,
    pub(super) training: bool,
    pub(super) failed: bool,
    pub(super) symbols: u64,
    pub(super) retrained: u32,
}

impl Bits {
    /// Creates the state before any signal.
    pub(super) fn new(now: Instant, limits: Limits) -> Self {
        Self {
            now,
            session: None,
            supervisor: None,
            limits,
            carrier_since: None,
            trained: false,
            training: false,
            failed: false,
            symbols: 0,
            retrained: 0,
        }
    }
}

impl BitPipe for Bits {
    #[inline]
    fn get_bit(&mut self) -> bool {
        // Before data flows, a modem sends ones.
        self.session.as_mut().is_none_or(|session| session.next_bit(self.now))
    }

    #[inline]
    fn put_bit(&mut self, bit: bool) {
        let Some(session) = &mut self.session else { return };
        // The bits of a bad signal or of a training pattern are no data. The session gets ones
        // instead, which neither start a character nor a frame. A one is passed on either way.
        let one =
            bit || self.training || self.supervisor.as_ref().is_some_and(Supervisor::signal_is_bad);
        session.put_bit(self.now, one);
    }

    fn status(&mut self, status: Status) {
        let now = self.now;
        match status {
            Status::CarrierDown => self.carrier_since = None,
            Status::CarrierUp => self.carrier_since = Some(self.carrier_since.unwrap_or(now)),
            Status::TrainingInProgress => self.training = true,
            Status::TrainingSucceeded => {
                self.retrained += u32::from(self.trained);
                (self.trained, self.training) = (true, false);
            }
            Status::TrainingFailed => self.failed = true,
        }
        if let Some(supervisor) = &mut self.supervisor {
            match status {
                Status::CarrierDown => supervisor.carrier(now, false),
                Status::CarrierUp => supervisor.carrier(now, true),
                Status::TrainingInProgress => supervisor.training(now),
                Status::TrainingSucceeded => supervisor.trained(now),
                Status::TrainingFailed => {}
            }
        }
    }

    fn symbol(&mut self, error: f32) {
        self.symbols += 1;
        if let Some(supervisor) = &mut self.supervisor {
            // `as` saturates, and turns NaN into zero.
            supervisor.symbol((error * 1_000.0) as u32);
        }
    }
}
