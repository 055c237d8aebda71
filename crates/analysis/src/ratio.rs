//! Fractions without floats: bounds from below and above, and sums of `work / period`.

use core::fmt;

use punctual_model::units::percent;

/// A non-negative number in units of 2⁻⁶⁰, so that a product of two below 2 fits in 128 bits.
///
/// Each constructor states its direction of rounding. Left sides of tests are rounded up and bounds
/// down, so rounding can refuse but never admit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ratio(u128);

const FRACTION_BITS: u32 = 60;

impl Ratio {
    /// Zero.
    pub const ZERO: Self = Self(0);
    /// One whole CPU.
    pub const ONE: Self = Self(1 << FRACTION_BITS);

    /// ln 2 rounded down: below the Liu & Layland bound for any number of tasks.
    pub const LN_2: Self = Self((1 << FRACTION_BITS) / 1_000_000 * 693_147);

    /// Returns `work / period`, rounded down. The period is not zero.
    pub fn below(work: u64, period: u64) -> Self {
        Self((u128::from(work) << FRACTION_BITS) / u128::from(period))
    }

    /// Returns `work / period`, rounded up. The period is not zero.
    pub fn above(work: u64, period: u64) -> Self {
        Self((u128::from(work) << FRACTION_BITS).div_ceil(u128::from(period)))
    }

    /// Returns the sum, saturating.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns the difference, or zero if it is negative.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Returns the product, rounded up, saturating.
    #[must_use]
    pub fn times_above(self, other: Self) -> Self {
        let product = self.0.checked_mul(other.0);
        Self(product.map_or(u128::MAX, |product| product.div_ceil(Self::ONE.0)))
    }

    /// Returns `n / self` rounded up, or `None` if that does not fit in 64 bits.
    pub(crate) fn divide_up(self, n: u64) -> Option<u64> {
        let scaled = u128::from(n) << FRACTION_BITS;
        if self.0 == 0 { None } else { u64::try_from(scaled.div_ceil(self.0)).ok() }
    }

    /// Returns the Liu & Layland bound `n(2^{1/n} − 1)` for `n` tasks, rounded down; 1 for `n ≤ 1`.
    ///
    /// It is irrational for `n ≥ 2`. The largest `x` with `xⁿ ≤ 2` is found by bisection, with
    /// every product rounded up, so `x` is never above the n-th root of 2.
    pub fn liu_layland_bound(n: usize) -> Self {
        let n = n.max(1);
        let (mut low, mut high) = (Self::ONE.0, 2 * Self::ONE.0);
        if n == 1 {
            return Self::ONE;
        }
        // Invariant: lowⁿ ≤ 2 < highⁿ. Sixty halvings reach the last bit.
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if power_is_at_most_two(middle, n) {
                low = middle;
            } else {
                high = middle;
            }
        }
        Self((low - Self::ONE.0).saturating_mul(n as u128))
    }

    /// Returns the ratio in millionths, rounded down.
    pub fn ppm_below(self) -> u128 {
        (self.0 >> FRACTION_BITS).saturating_mul(1_000_000)
            + (((self.0 & (Self::ONE.0 - 1)) * 1_000_000) >> FRACTION_BITS)
    }

    /// Returns the ratio in millionths, rounded up.
    pub fn ppm_above(self) -> u128 {
        let exact = (self.0 & (Self::ONE.0 - 1)) * 1_000_000;
        self.ppm_below() + u128::from(exact & (Self::ONE.0 - 1) != 0)
    }
}

/// Returns whether `xⁿ ≤ 2` even with every product rounded up, for `1 ≤ x < 2`.
fn power_is_at_most_two(x: u128, mut n: usize) -> bool {
    let (mut result, mut square) = (Ratio::ONE.0, x);
    let two = 2 * Ratio::ONE.0;
    loop {
        if n % 2 == 1 {
            result = (result * square).div_ceil(Ratio::ONE.0);
            if result > two {
                return false;
            }
        }
        n /= 2;
        if n == 0 {
            return true;
        }
        // A later product uses this square, so above 2 it decides. It also stays in range.
        square = (square * square).div_ceil(Ratio::ONE.0);
        if square > two {
            return false;
        }
    }
}

/// Prints the share in percent, rounded up, as for left sides of tests.
impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&percent(u64::try_from(self.ppm_above()).unwrap_or(u64::MAX)))
    }
}

/// The sum of `work / period` over some tasks and reservations, exact if possible.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Utilisation {
    below: Ratio,
    above: Ratio,
    /// The least common multiple of the periods and the work in it, while both fit.
    exact: Option<(u64, u128)>,
}

impl Utilisation {
    pub(crate) const ZERO: Self =
        Self { below: Ratio::ZERO, above: Ratio::ZERO, exact: Some((1, 0)) };

    pub(crate) fn add(&mut self, work: u64, period: u64) {
        self.below = self.below.plus(Ratio::below(work, period));
        self.above = self.above.plus(Ratio::above(work, period));
        self.exact = self.exact.and_then(|(hyperperiod, busy)| {
            let longer = (hyperperiod / gcd(hyperperiod, period)).checked_mul(period)?;
            let old = busy.checked_mul(u128::from(longer / hyperperiod))?;
            let new = u128::from(work).checked_mul(u128::from(longer / period))?;
            Some((longer, old.checked_add(new)?))
        });
    }

    /// Returns the sum, rounded down.
    pub(crate) fn below(&self) -> Ratio {
        self.below
    }

    /// Returns the sum, rounded up.
    pub(crate) fn above(&self) -> Ratio {
        self.above
    }

    /// Returns whether the sum is certainly more than one CPU, `false` if it cannot be decided.
    pub(crate) fn exceeds_one(&self) -> bool {
        match self.exact {
            Some((hyperperiod, busy)) => busy > u128::from(hyperperiod),
            None => self.below > Ratio::ONE,
        }
    }

    /// Returns whether the sum is certainly at most one CPU, `false` if it cannot be decided.
    pub(crate) fn is_at_most_one(&self) -> bool {
        match self.exact {
            Some((hyperperiod, busy)) => busy <= u128::from(hyperperiod),
            None => self.above <= Ratio::ONE,
        }
    }

    /// Returns the hyperperiod, if it fits in 64 bits and the sum is certainly at most one.
    pub(crate) fn hyperperiod_within_one(&self) -> Option<u64> {
        self.exact.and_then(|(hyperperiod, busy)| {
            (busy <= u128::from(hyperperiod)).then_some(hyperperiod)
        })
    }
}

pub(crate) fn gcd<N: Copy + Default + PartialEq + core::ops::Rem<Output = N>>(
    mut a: N,
    mut b: N,
) -> N {
    while b != N::default() {
        (a, b) = (b, a % b);
    }
    a
}

/// Returns `work / period` in units of 2⁻⁶⁴, rounded down, to order entries by, not to decide with.
pub(crate) fn share(work: u64, period: u64) -> u128 {
    (u128::from(work) << 64) / u128::from(period)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FP-12 of the published answers: Liu & Layland, JACM 1973.
    #[test]
    fn fp_12_liu_and_layland_bounds() {
        for (n, four_decimals) in [
            (1, 10_000),
            (2, 8_284),
            (3, 7_798),
            (4, 7_568),
            (5, 7_435),
            (6, 7_348),
            (10, 7_177),
            (12, 7_136),
        ] {
            let ppm = Ratio::liu_layland_bound(n).ppm_below();
            assert_eq!((ppm + 50) / 100, four_decimals, "n = {n}");
        }
    }

    /// FP-12, the limit ln 2 = 0.693147…; every bound stays above it and falls with n.
    #[test]
    fn fp_12_the_bound_falls_towards_ln_2() {
        let mut last = Ratio::ONE;
        for n in 2..=4096 {
            let bound = Ratio::liu_layland_bound(n);
            assert!(bound < last, "n = {n}");
            last = bound;
        }
        assert!(last > Ratio::LN_2);
        assert_eq!(last.ppm_below(), 693_205, "4096 (2^(1/4096) - 1) = 0.6932058…");
    }

    #[test]
    fn sums_know_when_they_are_above_one() {
        let mut sum = Utilisation::ZERO;
        for (work, period) in [(1, 2), (1, 3), (1, 6)] {
            sum.add(work, period);
        }
        assert!(!sum.exceeds_one());
        assert_eq!(sum.hyperperiod_within_one(), Some(6));
        sum.add(1, 1_000_000_007);
        assert!(sum.exceeds_one());
        assert_eq!(sum.hyperperiod_within_one(), None);
    }

    #[test]
    fn printed_ratios_are_rounded_up() {
        for (ratio, text) in [
            (Ratio::above(1, 3), "33.3334 %"),
            (Ratio::above(16, 15), "106.6667 %"),
            (Ratio::ONE, "100.0 %"),
            (Ratio::above(1, u64::MAX), "0.0001 %"),
        ] {
            assert_eq!(alloc::format!("{ratio}"), text);
        }
    }
}
