//! The recorded signal from the far end of a line.
#![allow(unsafe_code)]

use core::slice;

use super::{Modem, RECORDING_SAMPLES};
use crate::LineQuality;
use crate::exchange::{Medium, Perfect};
use crate::impair::{Attenuation, Noise};
use crate::line::FULL_SCALE_DBM0;
use crate::modem::Role;

/// 32.8 s of a line, as the calling end receives it.
#[derive(Clone, PartialEq, Eq)]
pub struct Recording(Box<[i16; RECORDING_SAMPLES]>);

/// The number of samples is not that of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a recording has {RECORDING_SAMPLES} samples, not {samples}")]
pub struct NotARecording {
    /// The number of samples given.
    pub samples: usize,
}

/// The modem's level in dBm0: 12 dB below full scale, whose sine is 3 dB below a square wave.
const LEVEL_DBM0: f64 = FULL_SCALE_DBM0 - 3.01 - 12.04;

impl Recording {
    /// Records the answering modem, which sends bytes that count upwards, over a line of the given
    /// quality. The same seed gives the same recording everywhere.
    pub fn of_far_end(quality: LineQuality, seed: u64) -> Self {
        let mut far = Modem::new(Role::Answering);
        let noise = LEVEL_DBM0 - quality.loss_db - quality.snr_db;
        let mut line = Noise::new(Attenuation::new(Perfect, quality.loss_db), noise, seed);
        let mut next = 0u8;
        let mut samples = vec![0; RECORDING_SAMPLES];
        for sample in &mut samples {
            if far.send(next) {
                next = next.wrapping_add(1);
            }
            far.transmit_samples(slice::from_mut(sample));
            *sample = line.pass(1, *sample);
        }
        Self::try_from(samples).expect("as many samples as a recording has")
    }

    pub(super) fn samples(&self) -> &[i16; RECORDING_SAMPLES] {
        &self.0
    }

    /// Returns the bytes to be written to memory that is shared with the kernel.
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: integers without padding, viewed as bytes, for as long as `self` is borrowed.
        unsafe { slice::from_raw_parts(self.0.as_ptr().cast(), size_of_val(&*self.0)) }
    }
}

impl TryFrom<Vec<i16>> for Recording {
    type Error = NotARecording;

    fn try_from(samples: Vec<i16>) -> Result<Self, NotARecording> {
        let samples = samples.into_boxed_slice();
        let count = samples.len();
        samples.try_into().map(Self).map_err(|_| NotARecording { samples: count })
    }
}

impl core::fmt::Debug for Recording {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Recording({RECORDING_SAMPLES} samples)")
    }
}
