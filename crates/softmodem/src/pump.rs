//! A modem without a driver: samples on one side, a [`Session`] on the other, one modulation or
//! another in between, and a [`Supervisor`] who watches.
//!
//! V.22bis has a handshake of its own. The FSK modulations have none here (no answer tone, no
//! V.8): the answering end sends its carrier at once, the calling end once it hears it, and a call
//! is there when the far carrier has lasted for S9.

use punctual_model::{Duration, Instant};

use crate::at::{Modulation, Registers};
use crate::ffi::{BitPipe, Channel, Fsk, Status, V22bis};
use crate::lapm::{Outcome, Parameters, Session, Start};
use crate::modem::{NoModem, Role};
use crate::supervision::{Limits, Supervisor, Verdict};

enum Modem {
    V22bis(V22bis<Bits>),
    Fsk(Fsk<Bits>),
}

/// One end of a call.
pub struct Pump {
    modem: Modem,
    role: Role,
    modulation: Modulation,
    carrier_detect: Duration,
}

/// What the modem's callbacks work on.
struct Bits {
    /// When the block of samples at hand began.
    now: Instant,
    session: Option<Session>,
    supervisor: Option<Supervisor>,
    limits: Limits,
    carrier_since: Option<Instant>,
    trained: bool,
    training: bool,
    failed: bool,
    symbols: u64,
}

impl Pump {
    /// A modem that begins its handshake with the first samples.
    pub fn new(
        now: Instant,
        role: Role,
        modulation: Modulation,
        registers: &Registers,
    ) -> Result<Self, NoModem> {
        let bits = Bits {
            now,
            session: None,
            supervisor: None,
            limits: Limits { carrier_loss: registers.carrier_loss(), ..Limits::default() },
            carrier_since: None,
            trained: false,
            training: false,
            failed: false,
            symbols: 0,
        };
        let calling = role == Role::Calling;
        let fsk = |low, high, bits| {
            let (sends, receives) = if calling { (low, high) } else { (high, low) };
            Fsk::new(sends, receives, bits).map(Modem::Fsk)
        };
        let modem = match modulation {
            Modulation::V21 => fsk(Channel::V21Low, Channel::V21High, bits)?,
            Modulation::V23 => fsk(Channel::V23Backward, Channel::V23Forward, bits)?,
            Modulation::Bell103 => fsk(Channel::Bell103Low, Channel::Bell103High, bits)?,
            Modulation::V22bis => {
                let mut modem = V22bis::new(calling, bits)?;
                modem.watch();
                Modem::V22bis(modem)
            }
        };
        Ok(Self { modem, role, modulation, carrier_detect: registers.carrier_detect() })
    }

    /// Takes samples from the line, the first of them from `now`.
    pub fn hear(&mut self, now: Instant, samples: &[i16]) {
        self.bits_mut().now = now;
        match &mut self.modem {
            Modem::V22bis(modem) => modem.rx(samples),
            Modem::Fsk(modem) => modem.rx(samples),
        }
    }

    /// Fills `samples` with what comes next on the line.
    pub fn speak(&mut self, now: Instant, samples: &mut [i16]) {
        self.bits_mut().now = now;
        let heard = self.bits().carrier_since.is_some() || self.bits().session.is_some();
        match &mut self.modem {
            Modem::V22bis(modem) => modem.tx(samples),
            // Two who both wait to hear the other would wait for ever: the answering end begins.
            Modem::Fsk(modem) if heard || self.role == Role::Answering => modem.tx(samples),
            Modem::Fsk(_) => samples.fill(0),
        }
    }

    /// Whether the far end is heard and the handshake, if there is one, is over.
    pub fn is_connected(&self, now: Instant) -> bool {
        let bits = self.bits();
        match self.modem {
            Modem::V22bis(_) => bits.trained,
            Modem::Fsk(_) => bits
                .carrier_since
                .is_some_and(|since| now.saturating_since(since) >= self.carrier_detect),
        }
    }

    /// Whether the handshake failed.
    pub fn has_failed(&self) -> bool {
        self.bits().failed
    }

    /// Lets data flow: call once connected, or again to begin anew without error control.
    pub fn begin(&mut self, now: Instant, start: Start) {
        let (role, slower) = (self.role, self.modulation.rates().0.min(self.modulation.rates().1));
        let bits = self.bits_mut();
        bits.session = Some(Session::new(now, role, Parameters::for_rate(slower), start));
        if bits.supervisor.is_none() {
            bits.supervisor = Some(Supervisor::new(now, bits.limits));
        }
    }

    /// Whether data flows, or would if the ends had agreed.
    pub fn has_session(&self) -> bool {
        self.bits().session.is_some()
    }

    /// The stream of bytes, once data flows.
    pub fn session(&mut self) -> Option<&mut Session> {
        self.bits_mut().session.as_mut()
    }

    /// Whether the call stands; orders a retrain where that is due.
    pub fn supervise(&mut self, now: Instant) -> Verdict {
        let Some(supervisor) = &mut self.bits_mut().supervisor else { return Verdict::GoOn };
        let verdict = supervisor.check(now);
        if verdict == Verdict::Retrain
            && let Modem::V22bis(modem) = &mut self.modem
        {
            // One that is refused is followed by the supervisor's next, and then by its end.
            let _ = modem.request_retrain();
        }
        verdict
    }

    /// The average error of the signal (see [`crate::supervision`]), and the symbols that came.
    pub fn signal(&self) -> (u32, u64) {
        let bits = self.bits();
        (bits.supervisor.as_ref().map_or(0, Supervisor::error), bits.symbols)
    }

    /// Where the session is.
    pub fn outcome(&self) -> Outcome {
        self.bits().session.as_ref().map_or(Outcome::Pending, Session::outcome)
    }

    fn bits(&self) -> &Bits {
        match &self.modem {
            Modem::V22bis(modem) => modem.pipe(),
            Modem::Fsk(modem) => modem.pipe(),
        }
    }

    fn bits_mut(&mut self) -> &mut Bits {
        match &mut self.modem {
            Modem::V22bis(modem) => modem.pipe_mut(),
            Modem::Fsk(modem) => modem.pipe_mut(),
        }
    }
}

impl BitPipe for Bits {
    fn get_bit(&mut self) -> bool {
        // Before data flows, a modem sends ones.
        self.session.as_mut().is_none_or(|session| session.next_bit(self.now))
    }

    fn put_bit(&mut self, bit: bool) {
        // What a receiver makes of a bad signal or of a training pattern is no data: ones instead,
        // which no character and no frame begins with.
        let bad = self.training
            || self.supervisor.as_ref().is_some_and(|watch| watch.error() > self.limits.bad);
        if let Some(session) = &mut self.session {
            session.put_bit(self.now, bit || bad);
        }
    }

    fn status(&mut self, status: Status) {
        let now = self.now;
        match status {
            Status::CarrierDown => self.carrier_since = None,
            Status::CarrierUp => self.carrier_since = Some(self.carrier_since.unwrap_or(now)),
            Status::TrainingInProgress => self.training = true,
            Status::TrainingSucceeded => (self.trained, self.training) = (true, false),
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
            // `as` saturates, and makes nothing of what is not a number.
            supervisor.symbol((error * 1_000.0) as u32);
        }
    }
}
