//! A modem without a driver: samples on one side, a [`Session`] on the other, one modulation or
//! another in between, and a [`Supervisor`] who watches.
//!
//! A call begins with a greeting: V.8, where the ends negotiate their modulation, or the answer tone
//! of V.25. V.22bis then has a handshake of its own. With FSK the answering end sends its carrier,
//! the calling end its own once it hears that, and a call is there when the far carrier has lasted
//! for S9.

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

/// A receiver of FSK takes an answer tone for a carrier; after so long it would have been found to be
/// one.
const TONE_FOUND: Duration = Duration::from_millis(600);

/// Who trains anew is silent first for so long: the far end hears its carrier go, and trains too.
const RETRAIN_SILENCE: Duration = Duration::from_millis(800);

/// One end of a call.
pub struct Pump {
    /// What precedes the modem; while it lasts, `modem` hears and says nothing.
    greeting: Option<Greeting>,
    /// An answer tone may still be there: while it is, `modem` hears and says nothing.
    listening: Option<Listening>,
    /// A retrain begins then: until then `modem` hears and says nothing.
    silent_until: Option<Instant>,
    modem: Modem,
    role: Role,
    modulation: Modulation,
    limits: Limits,
    carrier_detect: Duration,
}

impl Pump {
    /// A modem that begins its handshake with the first samples: the far end is known to be such a
    /// modem, and to begin at the same time.
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

    /// A modem that greets first, as `settings` say (`+MS`).
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

    /// The modulation in use, or the one preferred while it is negotiated.
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

    /// Fills `samples` with what comes next on the line.
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
            // What the modem made of the tone is forgotten.
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
            // Two who both wait to hear the other would wait for ever: the answering end begins.
            Modem::Fsk(modem) if heard || self.role == Role::Answering => modem.tx(samples),
            Modem::Fsk(_) => samples.fill(0),
        }
    }

    /// Whether the far end is heard and the handshake, if there is one, is over.
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

    /// Whether the handshake failed.
    pub fn has_failed(&self) -> bool {
        self.modem.bits().failed
    }

    /// Lets data flow: call once connected, or again to begin anew without error control.
    /// `compression` is offered where the ends come to correct errors.
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

    /// Whether data flows, or would if the ends had agreed.
    pub fn has_session(&self) -> bool {
        self.modem.bits().session.is_some()
    }

    /// The stream of bytes, once data flows.
    pub fn session(&mut self) -> Option<&mut Session> {
        self.modem.bits_mut().session.as_mut()
    }

    /// Whether the call stands; trains anew where that is due.
    ///
    /// Both ends go through their first handshake again, after a silence. The library has V.22bis's
    /// own retrain (§6.4) as well, but after it the calling end's transmitter never comes back to
    /// data, whichever end asked (0.0.6, on a clean line).
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
        // Without memory for it the bits are lost with the call.
        match Modem::new(bits, self.role, self.modulation) {
            Ok(modem) => self.modem = modem,
            Err(NoModem) => self.modem.bits_mut().failed = true,
        }
        self.silent_until = Some(now + RETRAIN_SILENCE);
    }

    /// The average error of the signal (see [`crate::supervision`]), and the symbols that came.
    pub fn signal(&self) -> (u32, u64) {
        let bits = self.modem.bits();
        (bits.supervisor.as_ref().map_or(0, Supervisor::error), bits.symbols)
    }

    /// How often the modem was trained again, since the call began.
    pub fn retrained(&self) -> u32 {
        self.modem.bits().retrained
    }

    /// Where the session is.
    pub fn outcome(&self) -> Outcome {
        self.modem.bits().session.as_ref().map_or(Outcome::Pending, Session::outcome)
    }

    fn after_greeting(&mut self, now: Instant, next: Next) {
        match next {
            Next::Greeting => return,
            Next::Modem(modulation) => self.modulation = modulation,
            // It may be its answer tone that told us.
            Next::NoV8 if self.role == Role::Calling => self.listening = Listening::new().ok(),
            Next::NoV8 => {}
            Next::NothingInCommon => self.modem.bits_mut().failed = true,
        }
        self.greeting = None;
        if next != Next::NothingInCommon {
            self.begin_modem(now);
        }
    }

    /// A modem that has heard nothing. Without memory for it the call fails.
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

/// What a receiver of that modulation is held against.
fn limits(modulation: Modulation, carrier_loss: Duration) -> Limits {
    let usual = Limits::default();
    let blink = usual.blink.filter(|_| modulation == Modulation::V22bis);
    Limits { carrier_loss, blink, ..usual }
}
