//! Polices incoming messages.
//!
//! A message counts at its arrival on this host, not when this thread reads it: the sender is not
//! responsible for the wait here. The generic cell rate algorithm with the spacing of the contract
//! as `T` lets exactly the messages pass that the contract allows if `τ` is its jitter,
//! `(B_max − 1)·I_min`. Here `τ` is larger by the time that may have bunched messages on their
//! path: the delay bound, within which the sender chooses, and the delay variation of the network.

use punctual_model::channel::BitRate;
use punctual_model::{Duration, Instant};

use super::regulator::Terms;
use crate::police::{Charge, Gcra, Policer as _, Verdict};

/// Polices the messages of one channel, and their datagrams.
#[derive(Clone, Debug)]
pub struct Police {
    messages: Gcra,
    datagrams: Gcra,
    /// The latest time seen: a policer's time must not decrease.
    last: Instant,
}

impl Police {
    /// Makes a policer for a channel with these `terms`.
    pub fn new(terms: Terms) -> Self {
        let Terms { arrivals, delay_bound, unevenness, datagrams, .. } = terms;
        let spacing = arrivals.min_inter_arrival();
        let bunched = delay_bound.unwrap_or(Duration::ZERO).saturating_add(unevenness);
        let tolerance = arrivals.jitter().unwrap_or(Duration::MAX).saturating_add(bunched);
        let each = Duration::from_nanos((spacing.as_nanos() / u64::from(datagrams.max(1))).max(1));
        Self {
            messages: spaced(spacing, tolerance),
            // All datagrams of a message may come at once.
            datagrams: spaced(each, tolerance.saturating_add(spacing)),
            last: Instant::ZERO,
        }
    }

    /// Returns true if a whole message that came at `arrived` conforms. A nonconforming message
    /// must not be handed on.
    #[must_use]
    pub fn message(&mut self, arrived: Instant) -> bool {
        self.last = self.last.max(arrived);
        self.messages.police(self.last, 1) == Verdict::Conforming
    }

    /// Judges a datagram of a message in the same way.
    #[must_use]
    pub fn datagram(&mut self, arrived: Instant) -> bool {
        self.last = self.last.max(arrived);
        self.datagrams.police(self.last, 1) == Verdict::Conforming
    }
}

/// Makes a policer of one message in each `spacing`. A policer has a rate of whole bits, which
/// hardly ever is this spacing exactly: it is at most a hundredth shorter, and a millionth below
/// ten seconds.
pub(super) fn spaced(spacing: Duration, tolerance: Duration) -> Gcra {
    // As many bytes as make the rate fine without leaving the range of rates.
    let bytes = spacing.as_nanos().saturating_mul(125).clamp(1, 1 << 20) as u32;
    let rate = BitRate::at_least(bytes, spacing).unwrap_or(BitRate::MAX);
    Gcra::new(rate, bytes, tolerance, Charge::PerPdu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::channel::{Framing, LinearBounded, ReadLimit};
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn terms(spacing: Duration, burst: u32) -> Terms {
        let arrivals = LinearBounded::new(1, 3_000, spacing, burst).expect("valid");
        Terms {
            arrivals,
            reads: ReadLimit::of(arrivals, Framing::Fragments, 1_000),
            delay_bound: Some(Duration::from_micros(300)),
            unevenness: Duration::from_micros(200),
            datagrams: 3,
        }
    }

    /// Any conforming pattern passes, with any delay up to the bound plus the network's delay
    /// variation.
    #[test]
    fn a_conforming_sender_passes_over_a_network_within_its_variation() {
        for seed in 0..200 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let spacing = Duration::from_nanos(rng.random_range(1_000..3_000_000));
            let burst = rng.random_range(1..6);
            let terms = terms(spacing, burst);
            let arrivals = terms.arrivals;
            let mut police = Police::new(terms);
            let (mut logical, mut arrived) = (Instant::ZERO, Instant::ZERO);
            for _ in 0..500 {
                // Early by at most the jitter of the contract, then bunched on the path.
                let early = rng.random_range(0..=arrivals.jitter().expect("short").as_nanos());
                let late = rng.random_range(0..=500_000);
                let sent = Instant::from_nanos(logical.as_nanos().saturating_sub(early));
                arrived = arrived.max(sent.saturating_add(Duration::from_nanos(late)));
                for _ in 0..3 {
                    assert!(police.datagram(arrived), "seed {seed}");
                }
                assert!(police.message(arrived), "seed {seed}");
                let pause = rng.random_range(0..3) * rng.random_range(0..=spacing.as_nanos());
                logical = logical + spacing + Duration::from_nanos(pause);
            }
        }
    }

    #[test]
    fn a_flood_is_cut_to_the_contract() {
        let terms = terms(Duration::from_millis(1), 2);
        let mut police = Police::new(terms);
        let at = |us: u64| Instant::from_nanos(us * 1_000);
        let passed = (0..100_000).filter(|us| police.message(at(*us))).count();
        // 100 messages and the burst; another for half a millisecond of bunching.
        assert!((101..=103).contains(&passed), "{passed}");
        let mut police = Police::new(terms);
        let passed = (0..100_000).filter(|us| police.datagram(at(*us))).count();
        assert!((303..=310).contains(&passed), "{passed}");
    }

    #[test]
    fn spacings_are_nearly_exact_over_the_whole_range() {
        for nanos in [1, 7, 999, 1_000_003, 9_999_999_999, 86_400_000_000_000] {
            let mut gcra = spaced(Duration::from_nanos(nanos), Duration::ZERO);
            let at = Instant::from_nanos;
            assert_eq!(gcra.police(at(nanos), 1), Verdict::Conforming);
            assert_eq!(gcra.police(at(2 * nanos), 1), Verdict::Conforming, "{nanos}");
            let early = 3 * nanos - nanos.div_ceil(50);
            let is_early = gcra.police(at(early), 1) != Verdict::Conforming;
            assert!(is_early, "{nanos}");
        }
    }
}
