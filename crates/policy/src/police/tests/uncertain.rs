//! Tests of messages for which only an interval of their arrival is known.

use alloc::vec::Vec;

use punctual_model::channel::{LinearBounded, Policing, TooEarly};
use rand::{RngExt, SeedableRng};

use super::*;

fn drawn_sensitivity(rng: &mut ChaCha8Rng) -> Sensitivity {
    Sensitivity::NAMES[rng.random_range(0..3)].1
}

/// A message that conforms at its arrival conforms at any time of observation, in either mode.
#[test]
fn a_sender_that_keeps_to_its_credits_is_never_found_in_breach() {
    for seed in 0..600 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let spacing = Duration::from_nanos(rng.random_range(1..5_000));
        let sensitivity = drawn_sensitivity(&mut rng);
        let origin = ns(rng.random_range(0..10_000));
        let mut truth = IntervalCredits::of_messages(spacing, sensitivity, origin);
        let mut uncertain = UncertainArrivals::new(truth.clone());
        let too_early = if rng.random_bool(0.5) { TooEarly::Wait } else { TooEarly::Discard };
        let mut came = origin;
        let (mut since, mut unseen) = (origin, 0);
        for _ in 0..600 {
            // In clumps, in step, or after a pause.
            let pause = match rng.random_range(0..6) {
                0 => rng.random_range(0..=spacing.as_nanos() * 20),
                1 | 2 => rng.random_range(0..=spacing.as_nanos()),
                _ => 0,
            };
            came += Duration::from_nanos(pause);
            if let Verdict::NonConforming(Breach::TooEarly { conforms_at }) = truth.police(came, 1)
            {
                came = conforms_at;
                assert_eq!(truth.police(came, 1), Verdict::Conforming);
            }
            unseen += 1;
            if rng.random_bool(0.3) {
                let seen = came + Duration::from_nanos(rng.random_range(0..=spacing.as_nanos()));
                for _ in 0..unseen {
                    assert_eq!(
                        uncertain.judge(since, seen, 1, too_early),
                        UncertainVerdict::Conforming,
                        "{seed}"
                    );
                }
                (since, unseen, came) = (seen, 0, seen);
            }
        }
    }
}

/// For any traffic and any times of observation, messages that pass keep to the covering arrivals:
/// checked in every window that ends with a message.
#[test]
fn passed_messages_keep_to_the_covering_arrivals() {
    let (mut lost, mut waited) = (0, 0);
    for seed in 0..60 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let spacing = Duration::from_nanos(rng.random_range(1..5_000));
        let sensitivity = drawn_sensitivity(&mut rng);
        let declared = LinearBounded::fixed(1, spacing, 1).expect("valid");
        let covering = Policing::Credits(sensitivity).covering(declared).expect("valid");
        let mut uncertain = UncertainArrivals::new(IntervalCredits::of_messages(
            spacing,
            sensitivity,
            Instant::ZERO,
        ));
        let too_early = if rng.random_bool(0.5) { TooEarly::Wait } else { TooEarly::Discard };
        let mut passed: Vec<Instant> = Vec::new();
        let (mut since, mut seen) = (Instant::ZERO, Instant::ZERO);
        for _ in 0..100 {
            for _ in 0..rng.random_range(0..2 * sensitivity.pdus()) {
                match uncertain.judge(since, seen, 1, too_early) {
                    UncertainVerdict::Conforming => {
                        assert!(
                            uncertain.last() <= seen && uncertain.last() >= since,
                            "seed {seed}"
                        );
                        passed.push(uncertain.last());
                    }
                    UncertainVerdict::Waits { until } => {
                        assert!(until > seen, "seed {seed}");
                        waited += 1;
                        passed.push(until);
                    }
                    UncertainVerdict::Lost(Breach::TooEarly { conforms_at }) => {
                        assert!(conforms_at > seen, "seed {seed}");
                        lost += 1;
                    }
                    UncertainVerdict::Lost(breach) => panic!("{breach}"),
                }
            }
            since = seen;
            let more = rng.random_range(0..=spacing.as_nanos() * 30);
            seen += Duration::from_nanos(more);
        }
        assert!(passed.is_sorted(), "in order");
        for (at, last) in passed.iter().enumerate() {
            for (count, first) in (1..).zip(passed[..=at].iter().rev().take(250)) {
                let window = (*last - *first).saturating_add(Duration::from_nanos(1));
                let most = covering.arrivals_in(window).expect("small");
                assert!(count <= most, "seed {seed}: {count} in {window}, {most} allowed");
            }
        }
    }
    assert!(lost > 1_000 && waited > 1_000, "{lost} lost, {waited} waited");
}

/// A message that waits for credit would not have left earlier without: shaped to the spacing, the
/// message after those of an interval leaves when the next interval has begun, or later.
#[test]
fn a_wait_for_credit_is_no_longer_than_one_for_the_spacing() {
    for seed in 0..300 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let spacing = Duration::from_nanos(rng.random_range(1..5_000));
        let sensitivity = drawn_sensitivity(&mut rng);
        let mut uncertain = UncertainArrivals::new(IntervalCredits::of_messages(
            spacing,
            sensitivity,
            Instant::ZERO,
        ));
        let (mut seen, mut next) = (Instant::ZERO, Instant::ZERO);
        for _ in 0..200 {
            seen += Duration::from_nanos(rng.random_range(0..=spacing.as_nanos() * 30));
            for _ in 0..rng.random_range(0..2 * sensitivity.pdus()) {
                let logical = next.max(seen);
                if let UncertainVerdict::Waits { until } =
                    uncertain.judge(seen, seen, 1, TooEarly::Wait)
                {
                    assert!(until <= logical, "seed {seed}: {until} after {logical}");
                }
                next = logical + spacing;
            }
        }
    }
}
