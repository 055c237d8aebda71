//! A modem without a driver: samples on one side, a [`Session`] on the other, one of the
//! modulations in between, and a [`Supervisor`] of the signal.
//!
//! A call begins with a greeting: V.8, if the ends negotiate their modulation, or the answer tone
//! of V.25. V.22bis then has a handshake of its own. With FSK the answering end sends its carrier,
//! and the calling end its own once it receives that; the call is connected when the far carrier
//! has lasted for S9.

mod bits;
mod greeting;
mod modem;

use punctual_model::{Duration, Instant};

use crate::at::{Modulation, Registers, Settings};
use crate::lapm::xid::Compression;
use crate::lapm::{Outcome, Parameters, Session, Start};
use crate::modem::{NoModem, Role};
use crate::supervision::{Limits, Supervisor, Verdict};

use bits::Bits;
use greeting::{Greeting, Listening, Next, Tone};
use modem::Modem;

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
