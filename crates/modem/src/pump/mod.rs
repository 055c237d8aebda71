//! A modem without a driver: samples on one side, a [`Session`] on the other, one of the
//! modulations in between, and a [`Supervisor`] of the signal.
//!
//! A call begins with a greeting: V.8, if the ends negotiate their modulation, or the answer tone
//! of V.25. V.22bis then has a handshake of its own. With FSK the answering end sends its carrier,
//! and the calling end its own once it receives that; the call is connected when the far carrier
//! has lasted for S9.

mod greeting;

use punctual_model::{Duration, Instant};

use crate::at::{Modulation, Registers, Settings};
use crate::ffi::{BitPipe, Channel, Fsk, Status, V22bis};
use crate::lapm::xid::Compression;
use crate::lapm::{Outcome, Parameters, Session, Start};
use crate::modem::{NoModem, Role};
use crate::supervision::{Limits, Supervisor, Verdict};
use greeting::{Greeting, Listening, Next, Tone};

/// The time after which an answer tone would have been detected. An FSK receiver takes the tone for
/// a carrier until then.
const TONE_FOUND: Duration = Duration::from_millis(600);

/// The silence at the start of a retrain: the far end notices the loss of the carrier and trains
/// too.
const RETRAIN_SILENCE: Duration = Duration::from_millis(800);

/// One end of a call.
pub struct Pump {
    /// The greeting before the modem. While it lasts, `modem` neither receives nor sends.
    greeting: Option<Greeting>,
    /// The detector of an answer tone that may still be present. While the tone is, `modem` neither
    /// receives nor sends.
    listening: Option<Listening>,
    /// The start of a retrain: until then `modem` neither receives nor sends.
    silent_until: Option<Instant>,
    modem: Modem,
    role: Role,
    modulation: Modulation,
    limits: Limits,
    carrier_detect: Duration,
}

impl Pump {
    /// Creates a modem that begins its handshake with the first samples: the far end is known to be
    /// the same kind of modem and to begin at the same time.
    pub fn new(
        now: Instant,
        role: Role,
        modulation: Modulation,
        registers: &Registers,
    ) -> Result<Self, NoModem> {
        let limits = limits(modulation, registers.carrier_loss());
        Ok(Self {
            greeting: None,
            listening: None,
            silent_until: None,
            modem: Modem::new(Bits::new(now, limits), role, modulation)?,
            role,
            modulation,
            limits,
            carrier_detect: registers.carrier_detect(),
        })
    }

    /// Creates a modem that greets first, as `settings` say (`+MS`).
    pub fn greeting(now: Instant, role: Role, settings: &Settings) -> Result<Self, NoModem> {
        let mut pump = Self::new(now, role, settings.modulation, &settings.registers)?;
        pump.greeting = Greeting::new(now, role, settings)?;
        // Bell 103's carrier lies so near to the answer tone that it may be taken for one.
        let may_hear_tone = settings.modulation != Modulation::Bell103;
        if pump.greeting.is_none() && role == Role::Calling && may_hear_tone {
            pump.listening = Some(Listening::new()?);
        }
        Ok(pump)
    }

    /// Returns the modulation in use, or the preferred one during negotiation.
    pub fn modulation(&self) -> Modulation {
        self.modulation
    }

    /// Takes samples from the line, the first of them from `now`.
    pub fn receive_samples(&mut self, now: Instant, samples: &[i16]) {
        if let Some(greeting) = &mut self.greeting {
            greeting.receive_samples(samples);
            return;
        }
        if let Some(listening) = &mut self.listening
            && listening.hears_tone(samples)
        {
            return;
        }
        let bits = self.modem.bits_mut();
        bits.now = now;
        if let Some(session) = &mut bits.session {
            session.settle(now);
        }
        if self.silent_until.is_none() {
            self.modem.rx(samples);
        }
    }

    /// Fills `samples` with the next samples for the line.
    pub fn transmit_samples(&mut self, now: Instant, samples: &mut [i16]) {
        if let Some(greeting) = &mut self.greeting {
            let next = greeting.transmit_samples(now, samples);
            self.after_greeting(now, next);
            return;
        }
        match self.listening.as_ref().map(Listening::state) {
            Some(Tone::Present) => {
                samples.fill(0);
                return;
            }
            // Discard the modem's state from during the tone.
            Some(Tone::Past) => self.begin_modem(now),
            Some(Tone::NotYet) | None => {}
        }
        if self.silent_until.is_some_and(|until| now < until) {
            samples.fill(0);
            return;
        }
        self.silent_until = None;
        let bits = self.modem.bits_mut();
        bits.now = now;
        let heard = bits.carrier_since.is_some() || bits.session.is_some();
        match &mut self.modem {
            Modem::V22bis(modem) => modem.tx(samples),
            // If both ends waited for the other's carrier, neither would begin: the answering end
            // does.
            Modem::Fsk(modem) if heard || self.role == Role::Answering => modem.tx(samples),
            Modem::Fsk(_) => samples.fill(0),
        }
    }

    /// Returns true if the far end's carrier is present and the handshake, if there is one, is
    /// over.
    pub fn is_connected(&self, now: Instant) -> bool {
        let greets = self.greeting.is_some()
            || self.listening.as_ref().is_some_and(|ear| ear.state() != Tone::NotYet);
        let bits = self.modem.bits();
        let lasts = if self.listening.is_some() {
            self.carrier_detect.max(TONE_FOUND)
        } else {
            self.carrier_detect
        };
        match self.modem {
            _ if greets => false,
            Modem::V22bis(_) => bits.trained,
            Modem::Fsk(_) => {
                bits.carrier_since.is_some_and(|since| now.saturating_since(since) >= lasts)
            }
        }
    }

    /// Returns true if the handshake failed.
    pub fn has_failed(&self) -> bool {
        self.modem.bits().failed
    }

    /// Lets data flow: call it once connected, or again to start over without error control.
    /// `compression` is offered if the ends agree on error control.
    pub fn begin(&mut self, now: Instant, start: Start, compression: Compression) {
        self.listening = None;
        let (sent, received) = self.modulation.rates_of(self.role);
        let parameters = Parameters { compression, ..Parameters::for_rates(sent, received) };
        let bits = self.modem.bits_mut();
        bits.session = Some(Session::new(now, self.role, parameters, start));
        if bits.supervisor.is_none() {
            bits.supervisor = Some(Supervisor::new(now, bits.limits));
        }
    }

    /// Returns true if data flows or the ends still negotiate error control.
    pub fn has_session(&self) -> bool {
        self.modem.bits().session.is_some()
    }

    /// Returns the stream of bytes, once data flows.
    pub fn session(&mut self) -> Option<&mut Session> {
        self.modem.bits_mut().session.as_mut()
    }

    /// Checks whether the call still stands, and starts a retrain if one is due.
    ///
    /// Both ends repeat their first handshake after a silence. The library also has V.22bis's own
    /// retrain (§6.4), but after it the calling end's transmitter never returns to data, whichever
    /// end started it (0.0.6, on a clean line).
    pub fn supervise(&mut self, now: Instant) -> Verdict {
        let Some(supervisor) = &mut self.modem.bits_mut().supervisor else { return Verdict::GoOn };
        let verdict = supervisor.check(now);
        if verdict == Verdict::Retrain {
            self.train_anew(now);
        }
        verdict
    }

    fn train_anew(&mut self, now: Instant) {
        if self.modulation != Modulation::V22bis {
            return;
        }
        let fresh = Bits::new(now, self.limits);
        let mut bits = std::mem::replace(self.modem.bits_mut(), fresh);
        bits.training = true;
        // Out of memory for the modem: the bits are lost with the call.
        match Modem::new(bits, self.role, self.modulation) {
            Ok(modem) => self.modem = modem,
            Err(NoModem) => self.modem.bits_mut().failed = true,
        }
        self.silent_until = Some(now + RETRAIN_SILENCE);
    }

    /// Returns the average error of the signal (see [`crate::supervision`]), and the number of
    /// symbols received.
    pub fn signal(&self) -> (u32, u64) {
        let bits = self.modem.bits();
        (bits.supervisor.as_ref().map_or(0, Supervisor::error), bits.symbols)
    }

    /// Returns the number of retrains since the call began.
    pub fn retrained(&self) -> u32 {
        self.modem.bits().retrained
    }

    /// Returns the state of the session.
    pub fn outcome(&self) -> Outcome {
        self.modem.bits().session.as_ref().map_or(Outcome::Pending, Session::outcome)
    }

    fn after_greeting(&mut self, now: Instant, next: Next) {
        match next {
            Next::Greeting => return,
            Next::Modem(modulation) => self.modulation = modulation,
            // A plain answer tone may have shown that the far end has no V.8; it may still last.
            Next::NoV8 if self.role == Role::Calling => self.listening = Listening::new().ok(),
            Next::NoV8 => {}
            Next::NothingInCommon => self.modem.bits_mut().failed = true,
        }
        self.greeting = None;
        if next != Next::NothingInCommon {
            self.begin_modem(now);
        }
    }

    /// Starts a modem in its initial state. If there is no memory for it, the call fails.
    fn begin_modem(&mut self, now: Instant) {
        if self.listening.as_ref().is_some_and(Listening::is_over) {
            self.listening = None;
        }
        self.limits = limits(self.modulation, self.limits.carrier_loss);
        match Modem::new(Bits::new(now, self.limits), self.role, self.modulation) {
            Ok(modem) => self.modem = modem,
            Err(NoModem) => self.modem.bits_mut().failed = true,
        }
    }
}

/// Returns the supervisor's limits for a receiver of that modulation.
fn limits(modulation: Modulation, carrier_loss: Duration) -> Limits {
    let usual = Limits::default();
    let blink = usual.blink.filter(|_| modulation == Modulation::V22bis);
    Limits { carrier_loss, blink, ..usual }
}

enum Modem {
    V22bis(V22bis<Bits>),
    Fsk(Fsk<Bits>),
}

impl Modem {
    /// Creates a modem before its first sample.
    fn new(bits: Bits, role: Role, modulation: Modulation) -> Result<Self, NoModem> {
        let calling = role == Role::Calling;
        let fsk = |low, high, bits| {
            let (sends, receives) = if calling { (low, high) } else { (high, low) };
            Fsk::new(sends, receives, bits).map(Self::Fsk)
        };
        Ok(match modulation {
            Modulation::V21 => fsk(Channel::V21Low, Channel::V21High, bits)?,
            Modulation::V23 => fsk(Channel::V23Backward, Channel::V23Forward, bits)?,
            Modulation::Bell103 => fsk(Channel::Bell103Low, Channel::Bell103High, bits)?,
            Modulation::V22bis => {
                let mut modem = V22bis::new(calling, bits)?;
                modem.watch();
                Self::V22bis(modem)
            }
        })
    }

    fn bits(&self) -> &Bits {
        match self {
            Self::V22bis(modem) => modem.pipe(),
            Self::Fsk(modem) => modem.pipe(),
        }
    }

    /// Takes received samples.
    fn rx(&mut self, samples: &[i16]) {
        match self {
            Self::V22bis(modem) => modem.rx(samples),
            Self::Fsk(modem) => modem.rx(samples),
        }
    }

    fn bits_mut(&mut self) -> &mut Bits {
        match self {
            Self::V22bis(modem) => modem.pipe_mut(),
            Self::Fsk(modem) => modem.pipe_mut(),
        }
    }
}

/// The state that the modem's callbacks work on.
struct Bits {
    /// The time at which the current block of samples began.
    now: Instant,
    session: Option<Session>,
    supervisor: Option<Supervisor>,
    limits: Limits,
    carrier_since: Option<Instant>,
    trained: bool,
    training: bool,
    failed: bool,
    symbols: u64,
    retrained: u32,
}

impl Bits {
    /// Creates the state before any signal.
    fn new(now: Instant, limits: Limits) -> Self {
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
