//! Oracles: they keep everything that passed, and examine every window that ends at `now`.
//!
//! Times and bytes are compared without division: `bytes · 8·10⁹` against `nanoseconds · rate`.

use alloc::vec::Vec;
use punctual_model::channel::BitRate;
use punctual_model::{Duration, Instant};

use crate::police::Charge;

const BIT_NANOS: u128 = 8_000_000_000;

/// Conforming: from each PDU on, the PDUs take at the rate at most `τ` longer than the time that
/// passed.
pub(super) struct RateLog {
    pub(super) rate: BitRate,
    pub(super) max_sdu: u32,
    pub(super) tolerance: Duration,
    pub(super) charge: Charge,
    passed: Vec<(Instant, u32)>,
}

impl RateLog {
    pub(super) fn new(rate: BitRate, max_sdu: u32, tolerance: Duration, charge: Charge) -> Self {
        Self { rate, max_sdu, tolerance, charge, passed: Vec::new() }
    }

    pub(super) fn conforms(&self, now: Instant) -> bool {
        let rate = u128::from(self.rate.bits_per_second());
        let mut bytes = 0;
        self.passed.iter().rev().all(|&(at, of_pdu)| {
            bytes += match self.charge {
                Charge::PerPdu => u128::from(self.max_sdu),
                Charge::PerByte => u128::from(of_pdu),
            };
            let time = u128::from((now - at).as_nanos()) + u128::from(self.tolerance.as_nanos());
            bytes * BIT_NANOS <= time * rate
        })
    }

    pub(super) fn pass(&mut self, now: Instant, bytes: u32) {
        self.passed.push((now, bytes));
    }
}

/// Conforming: at most the credit in each interval.
pub(super) struct CreditLog {
    pub(super) rate: BitRate,
    pub(super) credit: u64,
    pub(super) origin: Instant,
    passed: Vec<(u128, u32)>,
}

impl CreditLog {
    pub(super) fn new(rate: BitRate, credit: u64, origin: Instant) -> Self {
        Self { rate, credit, origin, passed: Vec::new() }
    }

    /// Returns the number of the interval of `now`.
    pub(super) fn interval(&self, now: Instant) -> u128 {
        let elapsed = u128::from(now.saturating_since(self.origin).as_nanos());
        elapsed * u128::from(self.rate.bits_per_second()) / (u128::from(self.credit) * BIT_NANOS)
    }

    pub(super) fn conforms(&self, now: Instant, bytes: u32) -> bool {
        let interval = self.interval(now);
        let same = self.passed.iter().filter(|(of, _)| *of == interval);
        same.map(|(_, bytes)| u64::from(*bytes)).sum::<u64>() + u64::from(bytes) <= self.credit
    }

    pub(super) fn pass(&mut self, now: Instant, bytes: u32) {
        self.passed.push((self.interval(now), bytes));
    }
}
