//! Follows one candidate period through a series of instants.

use alloc::vec::Vec;

/// The correction of the next expected instant by the error of the last, in sixteenths. The first
/// keeps to a timeline, and so tolerates jitter. The second restarts from each instant, and so
/// tolerates drift.
pub(super) const GAINS: [i64; 2] = [4, 16];
/// The number of misses in a row after which the search resumes at the next instant, wherever it
/// is.
const LOST: u32 = 4;

/// An expected instant at which one came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    /// The number of the period.
    pub(super) slot: i64,
    /// The index of the instant.
    pub(super) at: usize,
}

/// The instants that follow each other at one period, in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Train {
    pub(super) period: i64,
    pub(super) tolerance: i64,
    pub(super) hits: Vec<Hit>,
    /// The number of periods from the first to the last expected instant.
    pub(super) slots: i64,
    /// The distance of each hit but the first from its expected instant.
    pub(super) residuals: Vec<i64>,
}

/// Follows a period: expects an instant each `period` after `at[start]`, at most `tolerance` away.
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
    /// Returns the period of the hits, by a least-squares fit of instants over period numbers.
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

    /// Returns the 95th percentile of the distance of the hits from one straight timeline.
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

    /// Returns the part of the expected instants at which one came.
    pub(super) fn covered(&self) -> f64 {
        self.hits.len() as f64 / self.slots.max(1) as f64
    }

    /// Returns the part of the expected instants at which one would have come if as many came at
    /// random in the same time. This is the distribution function of the exponential distribution,
    /// to four terms of its series.
    pub(super) fn by_chance(&self, at: &[i64]) -> f64 {
        let (Some(first), Some(last)) = (at.first(), at.last()) else { return 1.0 };
        let rate = at.len() as f64 / (last - first).max(1) as f64;
        let x = 2.0 * self.tolerance as f64 * rate;
        1.0 - 1.0 / (1.0 + x + x * x / 2.0 + x * x * x / 6.0 + x * x * x * x / 24.0)
    }
}
