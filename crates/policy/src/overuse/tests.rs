//! Tests against a slow oracle, and against adversaries that search for a way around the bound.

use alloc::vec::Vec;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::*;

const MS: u64 = 1_000_000;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn work(ms: u64) -> Service {
    Service::from_millis(ms)
}

fn at(ns: u64) -> Instant {
    Instant::from_nanos(ns)
}

/// Returns the terms for 7.5 % of a CPU in bursts of 3 ms every 40 ms.
fn terms() -> Terms {
    Terms::new(75_000, work(3), ms(40))
}

#[test]
fn the_numbers_of_a_grant_are_as_documented() {
    // 10 % of a CPU as 2 ms every 20 ms: 2 + 105 + 10 ms, and 420 ms.
    let terms = Terms::new(100_000, work(2), ms(20));
    assert_eq!((terms.rate_ppm, terms.depth, terms.patience), (105_000, work(117), work(420)));
    // Checked every 100 ms, with an accounting lag of 10 ms.
    let ahead = terms.ahead(ms(100) + ACCOUNT_LAG);
    assert_eq!(ahead, work(647) + Service::from_nanos(1));
    assert_eq!(terms.bound(Duration::from_secs(10), ms(110)), ahead + work(1_050));
    // A small grant has time to react to a warning, and twice the idle time that repays its debt.
    let small = Terms::new(1_000, Service::ZERO, Duration::ZERO);
    assert_eq!((small.depth, small.patience), (Service::from_micros(11_050), work(100)));
    assert!(small.within > Duration::from_secs(200), "{}", small.within);
    // Long periods have long windows.
    assert_eq!(Terms::new(100_000, work(90), ms(900)).window, ms(3_600));
}

/// Computes the level by its definition: the most that was used ahead of the rate since any check.
fn oracle(looks: &[(u64, u64)], rate_ppm: u64) -> u128 {
    let (last, used) = looks[looks.len() - 1];
    let since = |&(then, before): &(u64, u64)| {
        let more = i128::from(used - before) * 1_000_000;
        more - i128::from(last - then) * i128::from(rate_ppm)
    };
    looks.iter().map(since).max().map_or(0, |level| level.unsigned_abs())
}

#[test]
fn the_level_is_the_most_used_ahead_since_any_check() {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    for _ in 0..200 {
        let terms = Terms::new(rng.random_range(1..1_000_000), work(1), ms(20));
        let mut bucket = Overuse::new(terms, at(0), Service::ZERO, Duration::ZERO);
        let mut looks = alloc::vec![(0u64, 0u64)];
        for _ in 0..60 {
            let (now, used) = looks[looks.len() - 1];
            // Odd nanoseconds, none at all, and seconds.
            let step = match rng.random_range(0..4) {
                0 => rng.random_range(0..5),
                1 => rng.random_range(0..5 * MS),
                _ => rng.random_range(0..2_000 * MS),
            };
            let share = if rng.random() { 1_000 } else { 90 };
            looks.push((now + step, used + step * rng.random_range(0..=share) / 1_000));
            let (now, used) = looks[looks.len() - 1];
            let _ = bucket.look(at(now), Service::from_nanos(used));
            assert_eq!(bucket.level, oracle(&looks, terms.rate_ppm));
        }
    }
}

#[test]
fn overuse_is_repaid_at_any_period() {
    // Busy for most of two windows of a second, idle in the third: 58 % of a CPU.
    let mut bucket = Overuse::new(terms(), at(0), Service::ZERO, Duration::ZERO);
    let (mut used, mut warned) = (Service::ZERO, 0);
    for look in 1..=220u64 {
        if look % 30 < 20 {
            used += work(87);
        }
        match bucket.look(at(look * 100 * MS), used) {
            Verdict::Within => {}
            Verdict::Over(debt) => {
                assert!(debt.owed < debt.most && debt.until > at(look * 100 * MS));
                warned += 1;
            }
            Verdict::Broken(debt) => {
                assert!(debt.owed > debt.most);
                assert_eq!(warned, 1, "warned before");
                assert!(look < 10, "within a second: {look}");
                return;
            }
        }
    }
    panic!("never taken back");
}

#[test]
fn a_small_debt_that_is_not_paid_back_ends_the_grant_too() {
    // One percent of a CPU more than tolerated, forever.
    let mut bucket = Overuse::new(terms(), at(0), Service::ZERO, Duration::ZERO);
    let mut warned = None;
    for look in 1..=2_000u64 {
        let used = Service::from_nanos(look * 100 * MS * 88_750 / 1_000_000);
        match bucket.look(at(look * 100 * MS), used) {
            Verdict::Within => {}
            Verdict::Over(debt) => warned = Some(debt.until),
            Verdict::Broken(debt) => {
                assert!(debt.owed < debt.most, "old, not large");
                assert!(warned.is_some_and(|until| at(look * 100 * MS) > until));
                return;
            }
        }
    }
    panic!("never taken back");
}

#[test]
fn work_that_keeps_to_its_contract_is_never_warned() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    for _ in 0..300 {
        let period = rng.random_range(1..1_000) * MS;
        let burst = period * rng.random_range(1..900) / 1_000;
        let share = (burst * 1_000_000).div_ceil(period);
        let terms = Terms::new(share, Service::from_nanos(burst), Duration::from_nanos(period));
        let mut bucket = Overuse::new(terms, at(0), Service::ZERO, Duration::ZERO);
        // Every job runs at once, anywhere between its release and its deadline; checks come at any
        // time.
        let jobs: Vec<u64> =
            (0..400).map(|job| job * period + rng.random_range(0..=period - burst)).collect();
        let mut now = 0;
        while now < 400 * period {
            now += rng.random_range(1..200 * MS);
            let done = |start: &u64| now.saturating_sub(*start).min(burst);
            let used = Service::from_nanos(jobs.iter().map(done).sum());
            assert_eq!(bucket.look(at(now), used), Verdict::Within, "{burst} of {period}");
        }
    }
}

#[test]
fn four_missed_periods_may_be_caught_up_with() {
    for (period, job) in [(ms(20), work(2)), (ms(900), work(90))] {
        let terms = Terms::new(100_000, job, period);
        let mut bucket = Overuse::new(terms, at(0), Service::ZERO, Duration::ZERO);
        let now = Instant::ZERO + period * 5;
        assert_eq!(bucket.look(now, job * 4), Verdict::Within);
    }
}

#[test]
fn debt_survives_a_change_and_a_new_grant() {
    let mut bucket = Overuse::new(terms(), at(0), Service::ZERO, Duration::ZERO);
    assert!(matches!(bucket.look(at(200 * MS), work(200)), Verdict::Over(_)));
    let owed = bucket.rest_owed();
    assert_eq!(owed, Duration::from_nanos((200 * MS - 15_750_000) * 1_000_000 / 78_750 + 1));
    bucket.change(Terms::new(10_000, Service::ZERO, Duration::ZERO));
    assert_eq!(bucket.rest_owed(), owed);
    bucket.change(terms());
    let mut next = Overuse::new(terms(), at(200 * MS), work(7), owed);
    // When idle, it owes nothing after that time, and not a nanosecond sooner.
    let _ = next.look(at(200 * MS + owed.as_nanos() - 1), work(7));
    assert!(next.level > 0);
    let _ = next.look(at(200 * MS + owed.as_nanos()), work(7));
    assert_eq!(next.level, 0);
}

#[test]
fn clocks_that_stand_or_go_back_forgive_nothing() {
    let mut bucket = Overuse::new(terms(), at(5), work(9), Duration::ZERO);
    let _ = bucket.look(at(5), work(9) + Service::from_nanos(3));
    let level = bucket.level;
    let _ = bucket.look(at(1), work(2));
    assert_eq!(bucket.level, level);
    let most = Terms::new(u64::MAX, Service::MAX, Duration::MAX);
    let mut bucket = Overuse::new(most, at(0), Service::ZERO, Duration::MAX);
    assert_eq!(bucket.look(Instant::MAX, Service::MAX), Verdict::Within);
}

#[test]
fn nearness_is_reported_once_until_use_has_been_well_below() {
    let terms = Terms::new(100_000, work(2), ms(20));
    let mut near = Nearness::new(at(0), Service::ZERO);
    let (mut now, mut used) = (Instant::ZERO, Service::ZERO);
    let mut told = Vec::new();
    for percent_of_grant in [50, 89, 90, 100, 85, 95, 79, 91] {
        let mut averages = Vec::new();
        for _ in 0..10 {
            now += ms(100);
            used += Service::from_micros(percent_of_grant * 100);
            averages.extend(near.look(now, used, 100_000, &terms));
        }
        assert_eq!(averages.len(), 1);
        assert_eq!(averages[0].ppm, percent_of_grant * 1_000);
        told.extend(averages[0].comes_near.then_some(percent_of_grant));
    }
    assert_eq!(told, [90, 91]);
}

/// An adversary: the lengths in nanoseconds for which it runs, idles, runs, …, repeated.
type Rhythm = Vec<u64>;

/// Returns the most that `rhythm` takes ahead of the rate in any window, until its grant is
/// revoked.
///
/// `gap` returns the time between checks. Each check reads the sum at once and revokes at once.
fn most_ahead(terms: Terms, rhythm: &Rhythm, mut gap: impl FnMut() -> u64, end: u64) -> i128 {
    let rate = i128::from(terms.rate_ppm);
    let mut bucket = Overuse::new(terms, at(0), Service::ZERO, Duration::ZERO);
    let (mut now, mut used, mut next_look) = (0u64, 0u64, gap());
    // The least and the greatest rise of use over rate.
    let (mut least, mut most) = (0i128, 0i128);
    for (at_segment, length) in rhythm.iter().cycle().enumerate() {
        let runs = (at_segment % rhythm.len()).is_multiple_of(2);
        let mut left = *length;
        while left > 0 {
            let step = left.min(next_look - now);
            now += step;
            left -= step;
            used += if runs { step } else { 0 };
            // Use over rate falls while idle and rises while running, so extremes are at the ends
            // of segments.
            let ahead = i128::from(used) * 1_000_000 - i128::from(now) * rate;
            least = least.min(ahead);
            most = most.max(ahead - least);
            if now == next_look {
                if let Verdict::Broken(_) = bucket.look(at(now), Service::from_nanos(used)) {
                    return most;
                }
                next_look += gap();
            }
            if now >= end {
                return most;
            }
        }
    }
    most
}

/// Changes one length, or two at once with a constant sum.
fn mutate(rng: &mut ChaCha8Rng, rhythm: &mut Rhythm, gap: u64) {
    let which = rng.random_range(0..rhythm.len());
    let size = [1_000, MS, gap / 4, 20 * gap][rng.random_range(0..4)];
    let by = rng.random_range(0..=size);
    let longer = rng.random();
    rhythm[which] =
        if longer { rhythm[which] + by } else { rhythm[which].saturating_sub(by).max(1) };
    if rng.random() {
        let other = rng.random_range(0..rhythm.len());
        let taken = rhythm[other].saturating_sub(by).max(1);
        rhythm[other] = if longer { taken } else { rhythm[other] + by };
    }
}

#[test]
fn no_rhythm_takes_more_than_the_bound() {
    let mut rng = ChaCha8Rng::seed_from_u64(23);
    for (share, burst, period) in [(75_000, 3, 40), (400_000, 40, 100), (1_000, 0, 0)] {
        let terms = Terms::new(share, work(burst), ms(period));
        for gap in [100 * MS, 17 * MS] {
            let bound = i128::from(terms.ahead(Duration::from_nanos(gap)).as_nanos()) * 1_000_000;
            let mut closest = 0;
            for restart in 0..6u64 {
                // Synchronised to the checks at first: busy from just after one to just before one.
                let mut best: Rhythm = match restart {
                    0 => alloc::vec![gap, gap],
                    1 => alloc::vec![3 * gap - 1, 17 * gap + 1],
                    2 => alloc::vec![1, 10 * gap, terms.most().as_nanos() + gap, 40 * gap],
                    _ => (0..2 * restart).map(|_| rng.random_range(1..30 * gap)).collect(),
                };
                // Every gap is as long as allowed, or drawn anew in each run.
                let regular = restart % 2 == 0;
                let mut draws = ChaCha8Rng::seed_from_u64(restart);
                let mut score = |rhythm: &Rhythm| {
                    let next = || if regular { gap } else { draws.random_range(1..=gap) };
                    most_ahead(terms, rhythm, next, 60_000 * MS)
                };
                let mut height = score(&best);
                for _ in 0..250 {
                    let mut other = best.clone();
                    for _ in 0..rng.random_range(1..4) {
                        mutate(&mut rng, &mut other, gap);
                    }
                    let reached = score(&other);
                    assert!(reached <= bound, "{other:?}: {reached} is more than {bound}");
                    if reached >= height {
                        (best, height) = (other, reached);
                    }
                }
                closest = closest.max(height);
            }
            // The search is effective: it comes close to the bound.
            assert!(closest * 100 >= bound * 95, "{closest} of {bound}");
        }
    }
}
