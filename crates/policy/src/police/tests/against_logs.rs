//! Random streams: the verdict and the instant in it must agree with the log.

use super::logs::{CreditLog, RateLog};
use super::*;
use rand::SeedableRng;

const STREAMS: u64 = 600;

fn any_charge(rng: &mut ChaCha8Rng) -> Charge {
    if rng.random_bool(0.5) { Charge::PerPdu } else { Charge::PerByte }
}

fn any_tolerance(rng: &mut ChaCha8Rng, spacing: u64) -> Duration {
    Duration::from_nanos(match rng.random_range(0..4) {
        0 => 0,
        1 => spacing,
        2 => rng.random_range(0..=spacing.saturating_mul(6)),
        _ => [1, u64::MAX / 2, u64::MAX][rng.random_range(0..3)],
    })
}

/// The number of occurrences of each verdict, so that no test passes without cases.
#[derive(Default)]
struct Seen {
    conforming: u32,
    early: u32,
    at_the_named_instant: u32,
}

impl Seen {
    fn check(&mut self, verdict: Verdict, conforms: bool, named: impl FnOnce(Instant) -> bool) {
        match verdict {
            Verdict::Conforming => {
                assert!(conforms);
                self.conforming += 1;
            }
            Verdict::NonConforming(Breach::TooEarly { conforms_at }) => {
                assert!(!conforms);
                self.early += 1;
                // Beyond the end of time nothing can be checked.
                if conforms_at < Instant::MAX {
                    self.at_the_named_instant += 1;
                    assert!(named(conforms_at));
                }
            }
            Verdict::NonConforming(breach) => panic!("{breach}"),
        }
    }

    fn all(&self) {
        let Self { conforming, early, at_the_named_instant } = *self;
        assert!(conforming > 2_000 && early > 2_000, "{conforming} {early}");
        assert!(at_the_named_instant > 1_000, "{at_the_named_instant}");
    }
}

fn before(at: Instant) -> Instant {
    at - Duration::from_nanos(1)
}

#[test]
fn gcra_is_the_log_of_one_rate() {
    let mut seen = Seen::default();
    for seed in 0..STREAMS {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (rate, max_sdu) = (any_rate(&mut rng), rng.random_range(1..70_000));
        let tolerance = any_tolerance(&mut rng, rate.time_of_below(max_sdu).as_nanos());
        let charge = any_charge(&mut rng);
        let mut policer = Gcra::new(rate, max_sdu, tolerance, charge);
        let mut log = RateLog::new(rate, max_sdu, tolerance, charge);
        offer(
            &mut rng,
            (rate, max_sdu),
            |now, bytes| policer.police(now, bytes),
            |now, bytes, verdict| {
                let conforms = log.conforms(now);
                seen.check(verdict, conforms, |at| log.conforms(at) && !log.conforms(before(at)));
                if conforms {
                    log.pass(now, bytes);
                }
            },
        );
    }
    seen.all();
}

#[test]
fn interval_credits_are_the_log_of_each_interval() {
    let mut seen = Seen::default();
    for seed in 0..STREAMS {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let all = [Sensitivity::Sensitive, Sensitivity::Usual, Sensitivity::Insensitive];
        let (rate, max_sdu) = (any_rate(&mut rng), rng.random_range(1..70_000));
        let sensitivity = all[rng.random_range(0..all.len())];
        let origin = ns([0, 12_345, u64::MAX / 3][rng.random_range(0..3)]);
        let mut policer = IntervalCredits::new(rate, max_sdu, sensitivity, origin);
        let mut log = CreditLog::new(rate, policer.credit(), origin);
        offer(
            &mut rng,
            (rate, max_sdu),
            |now, bytes| policer.police(now, bytes),
            |now, bytes, verdict| {
                let conforms = log.conforms(now, bytes);
                let here = log.interval(now);
                seen.check(verdict, conforms, |at| {
                    log.interval(at) > here && log.interval(before(at)) == here
                });
                if conforms {
                    log.pass(now, bytes);
                }
            },
        );
    }
    seen.all();
}

#[test]
fn a_pdu_conforms_at_the_named_instant_and_not_earlier() {
    let mut delayed = 0;
    for seed in 0..STREAMS {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (rate, max_sdu) = (any_rate(&mut rng), rng.random_range(1..70_000));
        let tolerance = any_tolerance(&mut rng, rate.time_of_below(max_sdu).as_nanos());
        let charge = any_charge(&mut rng);
        let mut policer = Gcra::new(rate, max_sdu, tolerance, charge);
        let mut log = RateLog::new(rate, max_sdu, tolerance, charge);
        let mut last = Instant::ZERO;
        offer(
            &mut rng,
            (rate, max_sdu),
            |now, bytes| {
                // PDUs leave in the order in which they came.
                let came = now.max(last);
                let at = match policer.police(came, bytes) {
                    Verdict::NonConforming(Breach::TooEarly { conforms_at }) => {
                        let then = policer.police(conforms_at, bytes);
                        assert!(then == Verdict::Conforming || conforms_at == Instant::MAX);
                        conforms_at
                    }
                    Verdict::Conforming => came,
                    too_large => panic!("{too_large:?}"),
                };
                assert!(at >= came, "seed {seed}");
                if at < Instant::MAX {
                    assert!(log.conforms(at), "seed {seed}");
                    let held = at > now && at > last;
                    assert!(!held || !log.conforms(before(at)), "seed {seed}");
                    delayed += u32::from(held);
                    log.pass(at, bytes);
                }
                last = at;
                Verdict::Conforming
            },
            |_, _, _| (),
        );
        let too_large = Breach::TooLarge { bytes: max_sdu + 1, max_sdu };
        assert_eq!(policer.police(last, max_sdu + 1), Verdict::NonConforming(too_large));
    }
    assert!(delayed > 2_000, "{delayed}");
}

/// Admission counts PDUs as linear bounded arrivals, so conforming PDUs must be within them.
#[test]
fn conforming_pdus_are_within_the_arrivals_that_admission_counts() {
    for seed in 0..STREAMS {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let sustained = rng.random_range(10_000_000..20_000_000_000);
        let spacing = rate(sustained).time_of_below(1_000).as_nanos();
        let tolerance = rng.random_range(0..spacing * 5);
        let contract = contract(ServiceClass::RtVbr, sustained, sustained * 2, tolerance);
        let arrivals = contract.to_linear_bounded().expect("real time");
        let mut policer = Gcra::of(contract, Charge::PerPdu);
        let mut passed: Vec<Instant> = Vec::new();
        offer(
            &mut rng,
            (rate(sustained), 1_000),
            |now, bytes| policer.police(now, bytes),
            |now, _, verdict| {
                if verdict == Verdict::Conforming {
                    passed.push(now);
                }
            },
        );
        for (i, first) in passed.iter().enumerate() {
            for (more, last) in passed[i..].iter().enumerate() {
                let window = (*last - *first).saturating_add(Duration::from_nanos(1));
                let most = arrivals.arrivals_in(window).expect("64 bits");
                assert!((more as u64) < most, "seed {seed}: {first}..={last}");
            }
        }
    }
}
