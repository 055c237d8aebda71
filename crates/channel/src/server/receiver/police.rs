//! Whether what comes keeps to the contract.
//!
//! A message counts when it came to this host, not when this thread read it: what waited for us is not
//! the sender's fault. The generic cell rate algorithm with the spacing of the contract as `T` lets
//! exactly the messages pass that the contract allows if `τ` is its jitter, `(B_max − 1)·I_min`. Here
//! `τ` is more by what may have bunched them on their way: the delay bound, within which their sender
//! chooses, and the unevenness of the network.

use punctual_model::channel::{BitRate, LinearBounded};
use punctual_model::{Duration, Instant};
use punctual_policy::police::{Breach, Charge, Gcra, Policer as _, Verdict};

use super::terms::Terms;

/// Polices the messages of one channel, and their datagrams.
#[derive(Clone, Debug)]
pub(super) struct Police {
    messages: Gcra,
    datagrams: Gcra,
    /// The time of a policer never goes back.
    last: Instant,
}

impl Police {
    pub(super) fn new(terms: &Terms, arrivals: LinearBounded) -> Self {
        let spacing = arrivals.min_inter_arrival();
        let bunched = terms.delay_bound.unwrap_or(Duration::ZERO).saturating_add(terms.unevenness);
        let tolerance = arrivals.jitter().unwrap_or(Duration::MAX).saturating_add(bunched);
        let each = Duration::from_nanos(
            (spacing.as_nanos() / u64::from(terms.datagrams(arrivals))).max(1),
        );
        Self {
            messages: spaced(spacing, tolerance),
            // All those of a message may come at once.
            datagrams: spaced(each, tolerance.saturating_add(spacing)),
            last: Instant::ZERO,
        }
    }

    /// A message that came at `arrived` is whole.
    ///
    /// # Errors
    /// It breaks the contract; from when on another would not.
    pub(super) fn message(&mut self, arrived: Instant) -> Result<(), Instant> {
        self.last = self.last.max(arrived);
        judge(&mut self.messages, self.last)
    }

    /// A datagram of a message came at `arrived`.
    ///
    /// # Errors
    /// As [`message`](Self::message).
    pub(super) fn datagram(&mut self, arrived: Instant) -> Result<(), Instant> {
        self.last = self.last.max(arrived);
        judge(&mut self.datagrams, self.last)
    }
}

fn judge(policer: &mut Gcra, at: Instant) -> Result<(), Instant> {
    match policer.police(at, 1) {
        Verdict::Conforming => Ok(()),
        Verdict::NonConforming(Breach::TooEarly { conforms_at }) => Err(conforms_at),
        // It would be of more than a byte.
        Verdict::NonConforming(Breach::TooLarge { .. }) => Err(Instant::MAX),
    }
}

/// One in each `spacing`. A policer knows rates, and a rate of whole bits is hardly ever this spacing
/// exactly: it is at most a hundredth shorter, and a millionth below ten seconds.
pub(super) fn spaced(spacing: Duration, tolerance: Duration) -> Gcra {
    // As many bytes as make the rate fine, without leaving the range of rates.
    let bytes = spacing.as_nanos().saturating_mul(125).clamp(1, 1 << 20) as u32;
    let rate = BitRate::at_least(bytes, spacing).unwrap_or(BitRate::MAX);
    Gcra::new(rate, bytes, tolerance, Charge::PerPdu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::channel::{Framing, Traffic};
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use std::num::NonZeroU16;

    fn terms(spacing: Duration, burst: u32) -> Terms {
        Terms {
            traffic: Traffic::Bounded(LinearBounded::new(1, 3_000, spacing, burst).expect("valid")),
            delay_bound: Some(Duration::from_micros(300)),
            framing: Framing::Fragments,
            number: 1,
            least_fragment: NonZeroU16::new(1_000).expect("not zero"),
            unevenness: Duration::from_micros(200),
            shared_clock: true,
        }
    }

    /// Any conforming pattern, delayed by anything up to the bound and the unevenness, passes.
    #[test]
    fn what_a_conforming_sender_and_a_fair_network_do_passes() {
        for seed in 0..200 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let spacing = Duration::from_nanos(rng.random_range(1_000..3_000_000));
            let burst = rng.random_range(1..6);
            let terms = terms(spacing, burst);
            let arrivals = terms.arrivals().expect("bounded");
            let mut police = Police::new(&terms, arrivals);
            let (mut logical, mut arrived) = (Instant::ZERO, Instant::ZERO);
            for _ in 0..500 {
                // Early by at most the jitter of the contract, then bunched on the way.
                let early = rng.random_range(0..=arrivals.jitter().expect("short").as_nanos());
                let late = rng.random_range(0..=500_000);
                let sent = Instant::from_nanos(logical.as_nanos().saturating_sub(early));
                arrived = arrived.max(sent.saturating_add(Duration::from_nanos(late)));
                for _ in 0..3 {
                    assert_eq!(police.datagram(arrived), Ok(()), "seed {seed}");
                }
                assert_eq!(police.message(arrived), Ok(()), "seed {seed}");
                let pause = rng.random_range(0..3) * rng.random_range(0..=spacing.as_nanos());
                logical = logical + spacing + Duration::from_nanos(pause);
            }
        }
    }

    #[test]
    fn a_flood_is_cut_to_the_contract() {
        let terms = terms(Duration::from_millis(1), 2);
        let mut police = Police::new(&terms, terms.arrivals().expect("bounded"));
        let at = |us: u64| Instant::from_nanos(us * 1_000);
        let passed = (0..100_000).filter(|us| police.message(at(*us)).is_ok()).count();
        // 100 and the burst; another for half a millisecond of bunching.
        assert!((101..=103).contains(&passed), "{passed}");
        let mut police = Police::new(&terms, terms.arrivals().expect("bounded"));
        let passed = (0..100_000).filter(|us| police.datagram(at(*us)).is_ok()).count();
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
