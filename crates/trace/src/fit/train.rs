//! Follows one supposed period through instants: where was one when the period said so?

use alloc::vec::Vec;

/// In sixteenths: how far the expectation moves to what came. The first holds to a timeline, and so
/// bears jitter; the second begins anew at each instant, and so bears a timeline that drifts.
pub(super) const GAINS: [i64; 2] = [4, 16];
/// After so many instants missed in a row it looks for the next one, wherever it is.
const LOST: u32 = 4;

/// An expected instant at which one came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    /// The number of the period.
    pub(super) slot: i64,
    /// Which of the instants.
    pub(super) at: usize,
}

/// The instants that follow each other at one period, in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Train {
    pub(super) period: i64,
    pub(super) tolerance: i64,
    pub(super) hits: Vec<Hit>,
    /// Periods from the first to the last expected instant.
    pub(super) slots: i64,
    /// How far each hit was from where it was expected, without the first.
    pub(super) residuals: Vec<i64>,
}

/// Expects an instant each `period` after `at[start]`, at most `tolerance` from there.
///
/// `at` is in order; `period` and `tolerance` are above zero.
pub(super) fn follow(
    at: &[i64],
    start: usize,
    period: i64,
    tolerance: i64,
    gain: i64,
) -> Option<Train> {
    let (&first, &last) = (at.get(start)?, at.last()?);
    let mut hits = Vec::new();
    hits.push(Hit { slot: 0, at: start });
    let (mut anchor, mut slot, mut next, mut missed) = (first, 0, start + 1, 0);
    let mut residuals = Vec::new();
    while anchor + period - tolerance <= last {
        let due = anchor + period;
        slot += 1;
        while next < at.len() && at[next] < due - tolerance {
            next += 1;
        }
        let near = at[next..].iter().take_while(|&&one| one <= due + tolerance);
        let nearest = near.enumerate().min_by_key(|(_, one)| (*one - due).abs());
        if let Some((after, one)) = nearest {
            let residual = one - due;
            anchor = due + residual * gain / 16;
            residuals.push(residual);
            hits.push(Hit { slot, at: next + after });
            next += after + 1;
            missed = 0;
            continue;
        }
        anchor = due;
        missed += 1;
        if missed >= LOST
            && let Some(&one) = at.get(next)
        {
            let periods = ((one - anchor + period / 2) / period).max(1);
            (anchor, slot, missed) = (one, slot + periods, 0);
            next += 1;
        }
    }
    Some(Train { period, tolerance, hits, slots: slot + 1, residuals })
}

impl Train {
    /// The period that the hits have, by least squares: instants over numbers.
    pub(super) fn measured(&self, at: &[i64]) -> Option<i64> {
        let (origin, count) = (at[self.hits.first()?.at], self.hits.len() as i128);
        let (mut sum_x, mut sum_y, mut sum_xx, mut sum_xy) = (0, 0, 0, 0);
        for hit in &self.hits {
            let (x, y) = (i128::from(hit.slot), i128::from(at[hit.at] - origin));
            (sum_x, sum_y) = (sum_x + x, sum_y + y);
            (sum_xx, sum_xy) = (sum_xx + x * x, sum_xy + x * y);
        }
        let over = count * sum_xx - sum_x * sum_x;
        let slope = (count * sum_xy - sum_x * sum_y + over / 2).checked_div(over)?;
        i64::try_from(slope).ok().filter(|&slope| slope > 0)
    }

    /// How far the hits are from one straight timeline: 95 in 100 no farther.
    pub(super) fn wander(&self, at: &[i64]) -> i64 {
        let Some(first) = self.hits.first() else { return 0 };
        let off = |hit: &Hit| at[hit.at] - at[first.at] - hit.slot * self.period;
        let mut all: Vec<i64> = self.hits.iter().map(off).collect();
        all.sort_unstable();
        let middle = all[all.len() / 2];
        let mut away: Vec<i64> = all.iter().map(|one| (one - middle).abs()).collect();
        away.sort_unstable();
        away[(away.len() - 1) * 95 / 100]
    }

    /// The part of the expected instants at which one came.
    pub(super) fn covered(&self) -> f64 {
        self.hits.len() as f64 / self.slots.max(1) as f64
    }

    /// The part at which one would have come if they came at random, as many in the same time: an
    /// exponential distribution's, to four terms of its series.
    pub(super) fn by_chance(&self, at: &[i64]) -> f64 {
        let (Some(first), Some(last)) = (at.first(), at.last()) else { return 1.0 };
        let rate = at.len() as f64 / (last - first).max(1) as f64;
        let x = 2.0 * self.tolerance as f64 * rate;
        1.0 - 1.0 / (1.0 + x + x * x / 2.0 + x * x * x / 6.0 + x * x * x * x / 24.0)
    }
}
