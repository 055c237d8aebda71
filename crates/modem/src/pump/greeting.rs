//! What two modems say before they are modems to each other: V.8, or the answer tone of V.25.
//!
//! | `+MS=…,1` | `+MS=…,0` |
//! |---|---|
//! | answers with the tone that asks for V.8 (ANSam), and, if nobody takes it up, with its modem | answers with 2100 Hz for as long as V.25 says, then with its modem (Bell 103: at once) |
//! | calls, waits for ANSam, and says what it has (CM); a plain tone, or none in time, is a far end without V.8 | calls, and its modem listens; an answer tone is waited out |
//!
//! Which of the modulations in common it is to be, each end reckons by itself: the fastest.

use punctual_model::{Duration, Instant};

use crate::SAMPLE_RATE;
use crate::at::{Modulation, Settings};
use crate::ffi::{AnswerTone, AnswerToneDetector, V8, V8Outcome};
use crate::modem::{NoModem, Role};

/// Between the answer tone and what follows it (V.25: 75 ms).
const PAUSE: usize = SAMPLE_RATE as usize * 75 / 1_000;

/// A negotiation that has come to no end after so long never will: the library gives up by itself
/// well before.
const PATIENCE: Duration = Duration::from_secs(25);

/// V.8's names (`V8_MOD_*`) of the modulations that have one.
const NAMES: [(Modulation, u32); 3] =
    [(Modulation::V22bis, 1 << 2), (Modulation::V23, 1 << 4), (Modulation::V21, 1 << 1)];

/// What comes after a greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It is not over.
    Greeting,
    /// The modem, with this modulation.
    Modem(Modulation),
    /// The modem, with the modulation preferred: the far end has no V.8.
    NoV8,
    /// The end of the call.
    NothingInCommon,
}

/// A greeting under way.
pub(super) enum Greeting {
    V8 {
        v8: V8,
        until: Instant,
        offers: Modulation,
    },
    Tone {
        /// Gone when all of it was said.
        tone: Option<AnswerTone>,
        pause: usize,
        modulation: Modulation,
    },
}

impl Greeting {
    /// The greeting that `settings` ask for, if there is one.
    pub(super) fn new(
        now: Instant,
        role: Role,
        settings: &Settings,
    ) -> Result<Option<Self>, NoModem> {
        let modulation = settings.modulation;
        if settings.automode {
            let names = modulation.offers().map(name).fold(0, |all, name| all | name);
            let v8 = V8::new(role == Role::Calling, names)?;
            return Ok(Some(Self::V8 { v8, until: now + PATIENCE, offers: modulation }));
        }
        // Bell 103 has no other answer tone than its carrier.
        if role == Role::Calling || modulation == Modulation::Bell103 {
            return Ok(None);
        }
        Ok(Some(Self::Tone { tone: Some(AnswerTone::new()?), pause: PAUSE, modulation }))
    }

    pub(super) fn receive_samples(&mut self, samples: &[i16]) {
        if let Self::V8 { v8, .. } = self {
            v8.rx(samples);
        }
    }

    pub(super) fn transmit_samples(&mut self, now: Instant, samples: &mut [i16]) -> Next {
        match self {
            Self::V8 { v8, until, offers } => {
                v8.tx(samples);
                match v8.outcome() {
                    V8Outcome::Pending if now < *until => Next::Greeting,
                    V8Outcome::Pending | V8Outcome::Failed => Next::NoV8,
                    V8Outcome::Agreed(names) => offers
                        .offers()
                        .find(|&modulation| names & name(modulation) != 0)
                        .map_or(Next::NothingInCommon, Next::Modem),
                }
            }
            Self::Tone { tone, pause, modulation } => {
                let said = tone.as_mut().map_or(0, |tone| tone.tx(samples));
                samples[said..].fill(0);
                if said < samples.len() {
                    *tone = None;
                    *pause = pause.saturating_sub(samples.len() - said);
                }
                if tone.is_none() && *pause == 0 {
                    Next::Modem(*modulation)
                } else {
                    Next::Greeting
                }
            }
        }
    }
}

fn name(modulation: Modulation) -> u32 {
    NAMES.iter().find(|row| row.0 == modulation).map_or(0, |row| row.1)
}

/// Where an answer tone is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    NotYet,
    Present,
    Past,
}

/// A calling end's ear for an answer tone.
pub(super) struct Listening {
    detector: AnswerToneDetector,
    tone: Tone,
}

impl Listening {
    pub(super) fn new() -> Result<Self, NoModem> {
        Ok(Self { detector: AnswerToneDetector::new()?, tone: Tone::NotYet })
    }

    /// Takes samples; whether the tone is in them, or has just gone.
    pub(super) fn hears_tone(&mut self, samples: &[i16]) -> bool {
        if self.tone == Tone::Past {
            return false;
        }
        self.tone = match (self.tone, self.detector.rx(samples)) {
            (_, true) => Tone::Present,
            (Tone::Present, false) => Tone::Past,
            (tone, false) => tone,
        };
        self.tone != Tone::NotYet
    }

    pub(super) fn state(&self) -> Tone {
        self.tone
    }

    /// Whether the tone has come and gone.
    pub(super) fn is_over(&self) -> bool {
        self.tone == Tone::Past
    }
}
