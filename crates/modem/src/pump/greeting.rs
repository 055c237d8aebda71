//! The signals that two modems exchange before their modulation begins: V.8, or the answer tone of
//! V.25.
//!
//! | `+MS=…,1` | `+MS=…,0` |
//! |---|---|
//! | The answering end sends the tone that offers V.8 (ANSam). Without a reply it starts its modem. | The answering end sends 2100 Hz for as long as V.25 says, then starts its modem (Bell 103: at once). |
//! | The calling end waits for ANSam and sends its capabilities (CM). A plain tone, or none in time, means a far end without V.8. | The calling end's modem listens at once; an answer tone is waited out. |
//!
//! Each end computes by itself which of the common modulations to use: the fastest.

use punctual_model::{Duration, Instant};

use crate::SAMPLE_RATE;
use crate::at::{Modulation, Settings};
use crate::ffi::{AnswerTone, AnswerToneDetector, V8, V8Outcome};
use crate::modem::{NoModem, Role};

/// The pause between the answer tone and the modem's signal (V.25: 75 ms).
const PAUSE: usize = SAMPLE_RATE as usize * 75 / 1_000;

/// The time after which a negotiation has failed: the library gives up by itself well before.
const PATIENCE: Duration = Duration::from_secs(25);

/// The modulations that V.8 has a name (`V8_MOD_*`) for.
const NAMES: [(Modulation, u32); 3] =
    [(Modulation::V22bis, 1 << 2), (Modulation::V23, 1 << 4), (Modulation::V21, 1 << 1)];

/// The step after a greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The greeting is not over.
    Greeting,
    /// Start the modem, with this modulation.
    Modem(Modulation),
    /// Start the modem, with the preferred modulation: the far end has no V.8.
    NoV8,
    /// End the call.
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
        /// `None` once all of it was sent.
        tone: Option<AnswerTone>,
        pause: usize,
        modulation: Modulation,
    },
}

impl Greeting {
    /// Creates the greeting that `settings` require, if any.
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
        // Bell 103 has no answer tone but its carrier.
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

/// The state of an answer tone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    NotYet,
    Present,
    Past,
}

/// A calling end's listener for an answer tone.
pub(super) struct Listening {
    detector: AnswerToneDetector,
    tone: Tone,
}

impl Listening {
    pub(super) fn new() -> Result<Self, NoModem> {
        Ok(Self { detector: AnswerToneDetector::new()?, tone: Tone::NotYet })
    }

    /// Takes samples. Returns true if the tone is in them or has just ended.
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

    /// Returns true if the tone has come and gone.
    pub(super) fn is_over(&self) -> bool {
        self.tone == Tone::Past
    }
}
