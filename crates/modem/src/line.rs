//! The line: loss and noise each way, and a second real modem at the far end.
//!
//! The far modem is a device of its own. It works in blocks of [`FAR_BLOCK`] samples counted from
//! the start of the call, independently of when the driver at our end comes: its input and output
//! are a function of the samples exchanged alone. It shares the card's sample clock (there is no
//! clock drift between the ends), and there is no echo: V.22bis splits the band and needs no
//! canceller.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::card::Wire;
use crate::modem::{Modem, NoModem, Role};
use crate::transfer::{Receiver, Source};

/// Samples that the far modem takes and gives at a time: 5 ms.
pub const FAR_BLOCK: usize = 40;

/// SpanDSP's default transmit level, in dBm0.
pub(crate) const TRANSMIT_DBM0: f64 = -14.0;

/// The level of a square wave at full scale, in dBm0 (SpanDSP's `DBM0_MAX_POWER`).
pub(crate) const FULL_SCALE_DBM0: f64 = 6.16;

/// The quality of the line, the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LineQuality {
    /// The attenuation of the signal, in dB: zero or more, typically 10.
    pub loss_db: f64,
    /// The ratio of the received signal to the added white noise, in dB. V.22bis makes no errors at
    /// 26 and fails below 10.
    pub snr_db: f64,
}

impl Default for LineQuality {
    fn default() -> Self {
        Self { loss_db: 10.0, snr_db: 30.0 }
    }
}

/// A line with the far modem of a call on it.
pub struct Line {
    far: Modem,
    /// The block that the far modem is receiving, and the one that it is sending meanwhile.
    received: [i16; FAR_BLOCK],
    sent: [i16; FAR_BLOCK],
    /// Samples of both blocks that have passed.
    passed: usize,
    channel: Channel,
}

impl Line {
    /// Creates a line whose far end answers the call and sends `far_sends`. `seed` draws the noise.
    pub fn new(quality: LineQuality, far_sends: Source, seed: u64) -> Result<Self, NoModem> {
        let mut far = Modem::new(Role::Answering, far_sends, Receiver::counting())?;
        let mut sent = [0; FAR_BLOCK];
        far.transmit_samples(&mut sent);
        Ok(Self {
            far,
            received: [0; FAR_BLOCK],
            sent,
            passed: 0,
            channel: Channel::new(quality, seed),
        })
    }

    /// Returns the modem at the far end.
    pub fn far(&self) -> &Modem {
        &self.far
    }
}

impl Wire for Line {
    fn exchange(&mut self, played: i16) -> i16 {
        let (to_far, to_card) = self.channel.pass(played, self.sent[self.passed]);
        self.received[self.passed] = to_far;
        self.passed += 1;
        if self.passed == FAR_BLOCK {
            self.far.receive_samples(&self.received);
            self.far.transmit_samples(&mut self.sent);
            self.passed = 0;
        }
        to_card
    }
}

/// Loss and noise in integer arithmetic, so that a seed gives the same line everywhere.
struct Channel {
    /// The factor applied to a sample, in 1/2¹⁵.
    gain: i64,
    /// The weight of a unit of [`four_bytes`] noise, in 1/2¹⁶ of a sample.
    noise: i64,
    rng: ChaCha8Rng,
}

impl Channel {
    fn new(quality: LineQuality, seed: u64) -> Self {
        let amplitude = |db: f64| 10f64.powf(db / 20.0);
        let received_dbm0 = TRANSMIT_DBM0 - quality.loss_db;
        let noise_rms = 32768.0 * amplitude(received_dbm0 - quality.snr_db - FULL_SCALE_DBM0);
        // The sum of four uniform bytes has the variance 4·(256² − 1)/12.
        let unit_rms = (4.0 * 65535.0 / 12.0f64).sqrt();
        // `as` saturates: a quality out of range gives a line of noise or of silence, not a panic.
        Self {
            gain: i64::from((32768.0 * amplitude(-quality.loss_db)) as i32),
            noise: i64::from((65536.0 * noise_rms / unit_rms) as i32),
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// Passes one sample each way: to the far end, and from it.
    fn pass(&mut self, to_far: i16, from_far: i16) -> (i16, i16) {
        let random = self.rng.next_u64().to_le_bytes();
        let [a, b, c, d, e, f, g, h] = random;
        (self.degrade(to_far, [a, b, c, d]), self.degrade(from_far, [e, f, g, h]))
    }

    fn degrade(&self, sample: i16, random: [u8; 4]) -> i16 {
        let signal = (i64::from(sample) * self.gain) >> 15;
        let noise = (four_bytes(random) * self.noise) >> 16;
        (signal + noise).clamp(i64::from(i16::MIN), i64::from(i16::MAX)) as i16
    }
}

/// Returns the sum of four uniform bytes about its mean: near enough to Gaussian for a modem's
/// decisions.
pub(crate) fn four_bytes(random: [u8; 4]) -> i64 {
    random.iter().map(|&byte| i64::from(byte)).sum::<i64>() - 510
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rms(samples: impl Iterator<Item = i16>) -> f64 {
        let squares: Vec<f64> = samples.map(|s| f64::from(s).powi(2)).collect();
        (squares.iter().sum::<f64>() / squares.len() as f64).sqrt()
    }

    #[test]
    fn the_channel_loses_and_adds_what_its_quality_says() {
        let quality = LineQuality { loss_db: 10.0, snr_db: 20.0 };
        let mut channel = Channel::new(quality, 1);
        let received = 32768.0 * 10f64.powf((-24.0 - 6.16) / 20.0);
        let noise = rms((0..40_000).map(|_| channel.pass(0, 0).1));
        let snr = 20.0 * (received / noise).log10();
        assert!((snr - 20.0).abs() < 0.2, "{snr} dB");
        let quiet = LineQuality { snr_db: 90.0, ..quality };
        assert!((3161..=3163).contains(&Channel::new(quiet, 1).pass(10_000, 0).0));
    }

    #[test]
    fn a_modem_sends_at_the_level_that_the_noise_is_measured_against() {
        let mut line = Line::new(LineQuality { loss_db: 0.0, snr_db: 90.0 }, Source::Flags, 1)
            .expect("a modem");
        // The answering party is silent at first; after three seconds it surely sends.
        let received: Vec<i16> = (0..32_000).map(|_| line.exchange(0)).collect();
        let level = rms(received[28_000..].iter().copied());
        let dbm0 = 20.0 * (level / 32768.0).log10() + FULL_SCALE_DBM0;
        assert!((dbm0 - TRANSMIT_DBM0).abs() < 2.0, "{dbm0} dBm0");
    }
}
