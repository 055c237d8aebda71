//! Sequences of signals, and the supervisor's verdicts.

use super::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

const LIMITS: Limits = Limits {
    bad: 400,
    good: 250,
    patience: Duration::from_millis(500),
    retrain: Duration::from_secs(2),
    retrains: 2,
    forgiven: Duration::from_secs(10),
    carrier_loss: Duration::from_millis(1_400),
    blink: None,
    silence: Duration::from_secs(1),
};

/// Sends 600 symbols a second with the given error for `ms` and checks every 20 ms. Returns each
/// verdict other than to continue, with its time since the start of the call.
fn run(watch: &mut Supervisor, now: &mut Instant, ms: u64, error: u32) -> Vec<(u64, Verdict)> {
    let mut said = Vec::new();
    for _ in 0..ms / 20 {
        (0..12).for_each(|_| watch.symbol(error));
        *now += Duration::from_millis(20);
        let verdict = watch.check(*now);
        if verdict != Verdict::GoOn {
            said.push((now.as_nanos() / 1_000_000, verdict));
        }
    }
    said
}

#[test]
fn a_good_signal_and_short_trouble_are_let_be() {
    let mut now = Instant::ZERO;
    let mut watch = Supervisor::new(now, LIMITS);
    assert_eq!(run(&mut watch, &mut now, 60_000, 30), []);
    assert!((25..=30).contains(&watch.error()), "{}", watch.error());
    for _ in 0..10 {
        assert_eq!(run(&mut watch, &mut now, 300, 700), []);
        assert_eq!(run(&mut watch, &mut now, 2_000, 30), []);
    }
}

#[test]
fn bad_signal_retrains_twice_and_then_says_no_carrier_for_ever() {
    let mut now = Instant::ZERO;
    let mut watch = Supervisor::new(now, LIMITS);
    let said = run(&mut watch, &mut now, 8_000, 700);
    let verdicts: Vec<Verdict> = said.iter().map(|(_, verdict)| *verdict).take(3).collect();
    assert_eq!(verdicts, [Verdict::Retrain, Verdict::Retrain, Verdict::NoCarrier]);
    assert!((600..900).contains(&said[0].0), "{said:?}");
    assert_eq!(said[1].0 - said[0].0, 2_000, "each has its time");
    watch.trained(now);
    assert_eq!(watch.check(now), Verdict::NoCarrier, "nothing brings it back");
}

#[test]
fn a_retrain_that_succeeds_is_forgiven_after_a_while() {
    let mut now = Instant::ZERO;
    let mut watch = Supervisor::new(now, LIMITS);
    for _ in 0..20 {
        let said = run(&mut watch, &mut now, 1_000, 700);
        assert_eq!(said.len(), 1, "{said:?}");
        assert_eq!(said[0].1, Verdict::Retrain);
        watch.trained(now);
        assert_eq!(run(&mut watch, &mut now, 11_000, 30), []);
    }
    // Without the time to reset the count, the third is the last.
    for expected in [Verdict::Retrain, Verdict::Retrain, Verdict::NoCarrier] {
        let said = run(&mut watch, &mut now, 1_000, 700);
        assert_eq!(said.first().map(|(_, verdict)| *verdict), Some(expected));
        watch.trained(now);
    }
}

#[test]
fn a_carrier_may_be_away_for_less_than_s10() {
    let mut now = Instant::ZERO;
    let mut watch = Supervisor::new(now, LIMITS);
    let blink = Duration::from_millis(1_400) - Duration::from_nanos(1);
    for _ in 0..5 {
        watch.carrier(now, false);
        now += blink;
        assert_eq!(watch.check(now), Verdict::GoOn);
        watch.carrier(now, true);
        now += Duration::from_millis(1);
    }
    watch.carrier(now, false);
    now += blink;
    watch.carrier(now, false);
    now += Duration::from_nanos(1);
    assert_eq!(watch.check(now), Verdict::NoCarrier);
}

#[test]
fn a_carrier_that_blinks_is_a_far_end_that_trains_anew_or_the_end() {
    let mut now = Instant::ZERO;
    let blink = Duration::from_millis(400);
    let mut watch = Supervisor::new(now, Limits { blink: Some(blink), ..LIMITS });
    watch.carrier(now, false);
    now += blink - Duration::from_nanos(1);
    assert_eq!(watch.check(now), Verdict::GoOn);
    now += Duration::from_nanos(1);
    assert_eq!(watch.check(now), Verdict::Retrain);
    // The carrier returns in time, and training succeeds.
    now += Duration::from_millis(1_900);
    assert_eq!(watch.check(now), Verdict::GoOn);
    watch.carrier(now, true);
    watch.trained(now);
    now += Duration::from_millis(100);
    assert_eq!(watch.check(now), Verdict::GoOn);
    // The next time the carrier stays away: S10 and the silence of a retrain, and no longer.
    watch.carrier(now, false);
    now += blink;
    assert_eq!(watch.check(now), Verdict::Retrain);
    now += Duration::from_millis(1_999);
    assert_eq!(watch.check(now), Verdict::GoOn);
    now += Duration::from_millis(1);
    assert_eq!(watch.check(now), Verdict::NoCarrier);
    assert_eq!(watch.check(now + Duration::from_secs(60)), Verdict::NoCarrier);
}

#[test]
fn whatever_comes_a_bad_signal_ends_in_bounded_time() {
    for seed in 0..500 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut now = Instant::ZERO;
        let mut watch = Supervisor::new(now, LIMITS);
        for _ in 0..50 {
            let error = rng.next_u32() % 1_000;
            let _ = run(&mut watch, &mut now, 20 * u64::from(rng.next_u32() % 100), error);
            match rng.next_u32() % 4 {
                0 => watch.carrier(now, false),
                1 => watch.carrier(now, true),
                2 => watch.training(now),
                _ => watch.trained(now),
            }
        }
        watch.carrier(now, true);
        let said = run(&mut watch, &mut now, 20_000, 900);
        assert_eq!(said.last().map(|(_, verdict)| *verdict), Some(Verdict::NoCarrier), "{seed}");
    }
}
