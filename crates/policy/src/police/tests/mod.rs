//! Compares each policer with a log of all that it let pass, which is searched for a violated
//! window.

mod against_logs;
mod exactness;
mod logs;
mod uncertain;

use alloc::vec::Vec;
use punctual_model::channel::{AtmContract, BitRate, ServiceClass, TrafficSpec};
use punctual_model::{Duration, Instant};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::*;

fn ns(n: u64) -> Instant {
    Instant::from_nanos(n)
}

fn rate(bits: u64) -> BitRate {
    BitRate::new(bits).expect("valid")
}

fn early(at: u64) -> Verdict {
    Verdict::NonConforming(Breach::TooEarly { conforms_at: ns(at) })
}

/// Draws rates that divide a second and rates that do not, slow and fast.
fn any_rate(rng: &mut ChaCha8Rng) -> BitRate {
    let fixed =
        [1_000_000, 8_000_000, 149_760_000, 155_519_999, 999_999_999_989, 1_000_000_000_000];
    match rng.random_range(0..3) {
        0 => rate(fixed[rng.random_range(0..fixed.len())]),
        1 => rate(rng.random_range(1..100)),
        _ => rate(rng.random_range(100_000..10_000_000_000)),
    }
}

/// Offers PDUs at random gaps around the rate: bursts, pauses, long pauses, and sometimes a PDU at
/// the very instant that the policer named. `police` judges each, and `check` gets the verdict.
fn offer(
    rng: &mut ChaCha8Rng,
    (rate, max_sdu): (BitRate, u32),
    mut police: impl FnMut(Instant, u32) -> Verdict,
    mut check: impl FnMut(Instant, u32, Verdict),
) {
    let spacing = rate.time_of_below(max_sdu).as_nanos().max(1);
    let start = [0, 1, 1 << 40, u64::MAX - spacing.saturating_mul(20).min(u64::MAX / 2)];
    let mut now = start[rng.random_range(0..start.len())];
    let mut named = None;
    for _ in 0..60 {
        let gap = match rng.random_range(0..10) {
            0..3 => 0,
            3..7 => rng.random_range(0..=spacing),
            7 => spacing,
            8 => rng.random_range(0..=spacing.saturating_mul(5)),
            _ => rng.random_range(0..=spacing.saturating_mul(1 << 12)),
        };
        now = match named.take() {
            Some(at) if rng.random_bool(0.4) => at,
            _ => now.saturating_add(gap),
        };
        let bytes = match rng.random_range(0..4) {
            0 => rng.random_range(0..=max_sdu),
            _ => max_sdu,
        };
        let verdict = police(ns(now), bytes);
        check(ns(now), bytes, verdict);
        if let Verdict::NonConforming(Breach::TooEarly { conforms_at }) = verdict {
            named = Some(conforms_at.as_nanos());
        }
    }
}

fn contract(class: ServiceClass, sustained: u64, peak: u64, tolerance: u64) -> AtmContract {
    AtmContract::new(TrafficSpec {
        class,
        peak_rate: rate(peak),
        sustained_rate: rate(sustained),
        max_sdu: 1_000,
        delay_variation_tolerance: Duration::from_nanos(tolerance),
    })
    .expect("valid")
}

#[test]
fn equality_conforms_and_a_nanosecond_earlier_does_not() {
    // 1,000 bytes take 1 ms.
    let mut gcra = Gcra::new(rate(8_000_000), 1_000, Duration::from_nanos(400), Charge::PerPdu);
    assert_eq!(gcra.police(ns(0), 1_000), Verdict::Conforming);
    assert_eq!(gcra.police(ns(999_599), 1), early(999_600));
    // Refused PDUs changed nothing, and a small PDU counts as a large one.
    assert_eq!(gcra.police(ns(999_600), 1), Verdict::Conforming);
    assert_eq!(gcra.police(ns(999_600), 1), early(1_999_600));
    let too_large = Breach::TooLarge { bytes: 1_001, max_sdu: 1_000 };
    assert_eq!(gcra.police(ns(5_000_000), 1_001), Verdict::NonConforming(too_large));
}

#[test]
fn a_burst_is_as_long_as_l4atm_computes() {
    // T = 1 ms, D = 0.5 ms, τ = 2 ms: L = 1 + ⌊τ/(T − D)⌋ = 5 PDUs at the peak (L4ATM, §2.4).
    let contract = contract(ServiceClass::RtVbr, 8_000_000, 16_000_000, 2_000_000);
    let mut policer = Gcra::of(contract, Charge::PerPdu);
    let verdicts: Vec<_> = (0..7).map(|k| policer.police(ns(k * 500_000), 1_000)).collect();
    assert_eq!(verdicts[..5], [Verdict::Conforming; 5]);
    assert_eq!(verdicts[5..], [early(3_000_000), Verdict::Conforming]);
}

#[test]
fn credits_come_at_fixed_instants_and_are_not_saved() {
    // 2 PDUs of 1,000 bytes take 2 ms.
    let contract = contract(ServiceClass::Cbr, 8_000_000, 8_000_000, 0);
    let mut credits = IntervalCredits::of(contract, Sensitivity::Sensitive, ns(100));
    assert_eq!((credits.credit(), credits.interval()), (2_000, Duration::from_millis(2)));
    assert_eq!(credits.police(ns(0), 1_000), Verdict::Conforming);
    assert_eq!(credits.police(ns(1_000), 900), Verdict::Conforming);
    assert_eq!(credits.police(ns(1_000), 101), early(2_000_100));
    assert_eq!(credits.police(ns(1_000), 100), Verdict::Conforming);
    assert_eq!(credits.police(ns(2_000_099), 1), early(2_000_100));
    // Ten intervals later there are two PDUs, not twenty.
    for _ in 0..2 {
        assert_eq!(credits.police(ns(22_000_100), 1_000), Verdict::Conforming);
    }
    assert_eq!(credits.police(ns(22_000_100), 1_000), early(24_000_100));
    let pdus = [Sensitivity::Sensitive, Sensitivity::Usual, Sensitivity::Insensitive];
    assert_eq!(pdus.map(Sensitivity::pdus), [2, 10, 50]);
}
