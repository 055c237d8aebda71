//! Impairments of lines: wrappers around a [`Medium`], each with one fault, that can be nested in
//! any order.
//!
//! All draw from seeds and work in integers, except for what they compute when created, so that a
//! seed gives the same line again.

use std::f64::consts::PI;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::exchange::{Medium, Perfect};
use crate::line::{FULL_SCALE_DBM0, TRANSMIT_DBM0, four_bytes};

/// Samples in a gap: 20 ms, the gap that a lost packet makes.
pub const GAP: u32 = 160;

/// Samples until an echo comes back: 10 ms.
pub const ECHO_DELAY: usize = 80;

/// Samples in the delay line of each direction.
pub const LINE: usize = 1_024;
const TAPS: usize = 16;
const PHASES: usize = 512;

/// The pointer's unit: 1/2³² of a sample.
const ONE: u64 = 1 << 32;

/// A line with every impairment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quality {
    /// The attenuation of a signal, in dB.
    pub loss_db: f64,
    /// The ratio of signal to noise at the receiver, in dB.
    pub snr_db: f64,
    /// The attenuation, in dB, at which each end receives its own signal; `None`: not at all.
    pub echo_db: Option<f64>,
    /// The rate at which the clock of end 1 runs faster, in parts per million.
    pub ppm: i32,
    /// Samples in a million that are lost in gaps of [`GAP`].
    pub gaps_per_million: u32,
    /// The seed of noise and gaps.
    pub seed: u64,
}

impl Quality {
    /// Builds the line: lossy, noisy, with the echo of the near end on top.
    pub fn medium(self) -> impl Medium + use<> {
        let gaps = Gaps::new(Perfect, self.gaps_per_million, GAP, self.seed ^ 1);
        let drift = Drift::new(gaps, self.ppm);
        let quiet = Attenuation::new(drift, self.loss_db);
        let noise = Noise::new(quiet, TRANSMIT_DBM0 - self.loss_db - self.snr_db, self.seed);
        Echo::new(noise, self.echo_db, ECHO_DELAY)
    }
}

fn amplitude(db: f64) -> f64 {
    10f64.powf(db / 20.0)
}

/// Returns `sample · by`, with `by` in 1/2¹⁵.
fn scaled(sample: i16, by: i64) -> i64 {
    (i64::from(sample) * by) >> 15
}

fn clamped(sample: i64) -> i16 {
    sample.clamp(i64::from(i16::MIN), i64::from(i16::MAX)) as i16
}

/// Attenuates the signal, both ways.
#[derive(Clone, Debug)]
pub struct Attenuation<M> {
    inner: M,
    gain: i64,
}

impl<M> Attenuation<M> {
    /// Attenuates by `db`; a negative number amplifies.
    pub fn new(inner: M, db: f64) -> Self {
        Self { inner, gain: (32_768.0 * amplitude(-db)).round() as i64 }
    }
}

impl<M: Medium> Medium for Attenuation<M> {
    fn pass(&mut self, from: usize, sample: i16) -> i16 {
        clamped(scaled(self.inner.pass(from, sample), self.gain))
    }
}

/// Adds white noise, both ways.
#[derive(Clone, Debug)]
pub struct Noise<M> {
    inner: M,
    /// The weight of a unit of the four bytes' sum, in 1/2¹⁶ of a sample.
    unit: i64,
    rng: ChaCha8Rng,
}

impl<M> Noise<M> {
    /// Adds noise at the level `dbm0`, in dBm0.
    pub fn new(inner: M, dbm0: f64, seed: u64) -> Self {
        let rms = 32_768.0 * amplitude(dbm0 - FULL_SCALE_DBM0);
        // The sum of four uniform bytes has the variance 4·(256² − 1)/12.
        let unit_rms = (4.0 * 65_535.0 / 12.0f64).sqrt();
        let unit = (65_536.0 * rms / unit_rms).round() as i64;
        Self { inner, unit, rng: ChaCha8Rng::seed_from_u64(seed) }
    }
}

impl<M: Medium> Medium for Noise<M> {
    fn pass(&mut self, from: usize, sample: i16) -> i16 {
        let noise = (four_bytes(self.rng.next_u32().to_le_bytes()) * self.unit) >> 16;
        clamped(i64::from(self.inner.pass(from, sample)) + noise)
    }
}

/// Returns each end its own signal.
#[derive(Clone, Debug)]
pub struct Echo<M> {
    inner: M,
    gain: i64,
    said: [Vec<i16>; 2],
    at: [usize; 2],
}

impl<M> Echo<M> {
    /// Returns each end its own signal `delay` samples later (at least one) and `db` weaker.
    pub fn new(inner: M, db: Option<f64>, delay: usize) -> Self {
        let gain = db.map_or(0.0, |db| 32_768.0 * amplitude(-db)).round() as i64;
        let silence = vec![0; delay.max(1)];
        Self { inner, gain, said: [silence.clone(), silence], at: [0; 2] }
    }
}

impl<M: Medium> Medium for Echo<M> {
    fn pass(&mut self, from: usize, sample: i16) -> i16 {
        let to = 1 - from;
        let length = self.said[from].len();
        self.said[from][self.at[from]] = sample;
        self.at[from] = (self.at[from] + 1) % length;
        // The oldest sample that the receiving end sent.
        let echo = scaled(self.said[to][self.at[to]], self.gain);
        clamped(i64::from(self.inner.pass(from, sample)) + echo)
    }
}

/// Loses samples and puts silence in their place.
#[derive(Clone, Debug)]
pub struct Gaps<M> {
    inner: M,
    /// The chance that a gap begins at a sample, in units of 1/2³².
    chance: u32,
    length: u32,
    left: [u32; 2],
    lost: u64,
    rng: ChaCha8Rng,
}

impl<M> Gaps<M> {
    /// Loses `per_million` of a million samples, `length` (at least one) at a time.
    pub fn new(inner: M, per_million: u32, length: u32, seed: u64) -> Self {
        let length = length.max(1);
        let share = u64::from(per_million.min(999_999));
        // A gap begins at a sample that is not lost: share / (million − share) / length.
        let chance = (share << 32) / ((1_000_000 - share) * u64::from(length));
        let chance = u32::try_from(chance).unwrap_or(u32::MAX);
        Self { inner, chance, length, left: [0; 2], lost: 0, rng: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// Returns the number of samples lost, both ways together.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

impl<M: Medium> Medium for Gaps<M> {
    fn pass(&mut self, from: usize, sample: i16) -> i16 {
        let passed = self.inner.pass(from, sample);
        if self.left[from] == 0 && self.rng.next_u32() < self.chance {
            self.left[from] = self.length;
        }
        if self.left[from] == 0 {
            return passed;
        }
        self.left[from] -= 1;
        self.lost += 1;
        0
    }
}

/// A medium with clock drift. Without drift it passes samples on unchanged and undelayed.
#[derive(Clone, Debug)]
pub struct Drift<M> {
    inner: M,
    ppm: i32,
    directions: [Direction; 2],
    /// The weights of the 16 samples for each phase, in 1/2¹⁵.
    taps: Vec<[i32; TAPS]>,
    slips: u64,
}

#[derive(Clone, Debug)]
struct Direction {
    line: Vec<i16>,
    written: u64,
    /// The distance of the pointer behind the last sample written, in 1/2³².
    behind: u64,
    /// The amount by which the pointer falls behind at each sample: negative if it catches up.
    step: i64,
}

impl<M> Drift<M> {
    /// Makes end 1's clock run faster by `ppm`, which is limited to 999 either way.
    pub fn new(inner: M, ppm: i32) -> Self {
        let step = i64::from(ppm.clamp(-999, 999)) * (ONE as i64) / 1_000_000;
        let direction = |step| Direction {
            line: vec![0; LINE],
            written: 0,
            behind: (LINE as u64 / 2) * ONE,
            step,
        };
        // An end with a fast clock takes more samples than the other sends: its received signal is
        // slow and falls behind. The signal that the other end receives from it is fast.
        let directions = [direction(step), direction(-step)];
        let taps = (0..PHASES).map(|phase| taps(phase as f64 / PHASES as f64)).collect();
        Self { inner, ppm, directions, taps, slips: 0 }
    }

    /// Returns the number of slips so far, both ways together.
    pub fn slips(&self) -> u64 {
        self.slips
    }
}

impl<M: Medium> Medium for Drift<M> {
    fn pass(&mut self, from: usize, sample: i16) -> i16 {
        let sample = self.inner.pass(from, sample);
        if self.ppm == 0 {
            return sample;
        }
        let direction = &mut self.directions[from];
        direction.line[(direction.written % LINE as u64) as usize] = sample;
        direction.written += 1;
        direction.behind = direction.behind.wrapping_add_signed(direction.step);
        let whole = direction.behind / ONE;
        if whole < TAPS as u64 || whole > (LINE - TAPS) as u64 {
            direction.behind = (LINE as u64 / 2) * ONE;
            self.slips += 1;
        }
        direction.read(&self.taps)
    }
}

impl Direction {
    fn read(&self, taps: &[[i32; TAPS]]) -> i16 {
        let (whole, rest) = (self.behind / ONE, self.behind % ONE);
        let phase = (rest * PHASES as u64 / ONE) as usize;
        // The pointer lies between the samples `whole + 1` and `whole` back; eight on each side.
        let oldest = self.written + 2 * LINE as u64 - whole - TAPS as u64 / 2 - 1;
        let sum: i64 = taps[phase]
            .iter()
            .zip(oldest..)
            .map(|(&tap, at)| i64::from(tap) * i64::from(self.line[(at % LINE as u64) as usize]))
            .sum();
        (sum >> 15).clamp(i16::MIN.into(), i16::MAX.into()) as i16
    }
}

/// Returns the weights of a sinc under a Hann window; `behind` is the distance of the wanted point
/// before the ninth sample.
fn taps(behind: f64) -> [i32; TAPS] {
    let weights: [f64; TAPS] = std::array::from_fn(|index| {
        let x = index as f64 - 8.0 + behind;
        let sinc = if x.abs() < 1e-9 { 1.0 } else { (PI * x).sin() / (PI * x) };
        let window = if x.abs() < 8.5 { 0.5 + 0.5 * (PI * x / 8.5).cos() } else { 0.0 };
        sinc * window
    });
    let sum: f64 = weights.iter().sum();
    weights.map(|weight| (weight / sum * 32_768.0).round() as i32)
}
