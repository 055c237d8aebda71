//! Two sample clocks that differ: each end receives the other's signal faster or slower than it was
//! sent.
//!
//! Each direction is a delay line, read at a pointer that moves by `1 ± ppm·10⁻⁶` a sample. Between
//! samples it interpolates over 16 of them. The pointer begins half of [`LINE`] behind, which lasts
//! for 22 minutes at 50 ppm. When it reaches either end, it goes back to the middle: a *slip* of
//! [`LINE`] / 2 samples, as on a real digital line without a common clock.

use std::f64::consts::PI;

use crate::exchange::Medium;

/// Samples in the delay line of each direction.
pub const LINE: usize = 1_024;

const TAPS: usize = 16;
const PHASES: usize = 512;

/// The pointer's unit: 1/2³² of a sample.
const ONE: u64 = 1 << 32;

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
