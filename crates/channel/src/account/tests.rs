use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_model::{Duration, Instant};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

fn ns(n: u64) -> Instant {
    Instant::from_nanos(n)
}

fn bound(n: u64) -> Option<Duration> {
    Some(Duration::from_nanos(n))
}

fn send(recorder: &mut Recorder, logical: u64, handed_over: u64, ends: u64) {
    recorder.offered(10);
    recorder.taken(10, ns(logical), true);
    let (arrived, handed_over, ends) = (ns(logical), ns(handed_over), ns(ends));
    recorder.sent(Delivered { bytes: 10, arrived, handed_over, ends });
}

#[test]
fn lateness_follows_the_promise_at_the_time_of_leaving() {
    let mut recorder = Recorder::new(bound(100));
    send(&mut recorder, 1_000, 1_090, 1_100);
    let seen = recorder.account().snapshot();
    assert_eq!((seen.late, seen.worst_lateness_nanos), (0, Some(0)));
    assert_eq!(seen.verdict(ns(5_000)), Verdict::Kept);
    recorder.change(bound(50));
    send(&mut recorder, 2_000, 2_010, 2_060);
    let seen = recorder.account().snapshot();
    let late = Broken::Late { messages: 1, of: 2, tardiness: Duration::from_nanos(10) };
    assert_eq!(seen.verdict(ns(5_000)), Verdict::Broken(late));
    assert_eq!(seen.verdict(ns(0)).to_string(), "broken: 1 of 2 messages late, by up to 10ns");
    // Delays of 90 and 10, so the gap was 80 shorter than the logical one.
    assert_eq!((seen.worst_delay, seen.worst_jitter), (bound(90).unwrap(), bound(80).unwrap()));
}

#[test]
fn a_message_that_does_not_leave_is_overdue() {
    let mut recorder = Recorder::new(bound(100));
    let nothing = Verdict::NotJudgeable(Unknown::NothingSent);
    assert_eq!(recorder.account().snapshot().verdict(ns(9_999)), nothing);
    recorder.offered(10);
    recorder.taken(10, ns(1_000), true);
    let seen = recorder.account().snapshot();
    assert_eq!(seen.verdict(ns(1_100)), nothing);
    let overdue = Broken::Overdue { since: Duration::from_nanos(1) };
    assert_eq!(seen.verdict(ns(1_101)), Verdict::Broken(overdue));
    recorder.lost(Loss::Closed);
    assert_eq!(recorder.account().snapshot().verdict(ns(1_101)), nothing);
}

#[test]
fn a_promise_that_was_not_looked_at_is_not_called_kept() {
    let mut recorder = Recorder::new(bound(100));
    send(&mut recorder, 0, 1, 2);
    let seen = recorder.account().snapshot();
    let after = |nanos| seen.verdict_unheard(ns(1_000), Duration::from_nanos(nanos));
    assert_eq!((after(0), after(100)), (Verdict::Kept, Verdict::Kept));
    let since = Duration::from_nanos(101);
    assert_eq!(after(101), Verdict::NotJudgeable(Unknown::NotLooked { since }));
    // A known breach is reported in any case.
    send(&mut recorder, 1_000, 1_200, 1_200);
    let seen = recorder.account().snapshot();
    assert!(matches!(seen.verdict_unheard(ns(2_000), since), Verdict::Broken(_)));
    // Nothing is promised to best effort.
    let free = Recorder::new(None).account().snapshot();
    assert_eq!(free.verdict_unheard(ns(1), since), Verdict::NotJudgeable(Unknown::BestEffort));
}

#[test]
fn only_what_we_lose_breaks_the_promise() {
    let mut recorder = Recorder::new(bound(100));
    for loss in [Loss::TooEarly, Loss::WrongSize] {
        recorder.offered(10);
        recorder.lost(loss);
    }
    send(&mut recorder, 0, 1, 2);
    assert_eq!(recorder.account().snapshot().verdict(ns(10)), Verdict::Kept);
    for loss in [Loss::Closed, Loss::Refused, Loss::Unreachable] {
        recorder.offered(10);
        recorder.taken(10, ns(10), false);
        recorder.lost(loss);
    }
    let seen = recorder.account().snapshot();
    let lost = Broken::Lost { messages: 2, of: 4 };
    assert_eq!(seen.verdict(ns(10)), Verdict::Broken(lost));
    assert_eq!((seen.losses.of_taken(), seen.losses.total()), (3, 5));
    assert_eq!((seen.offered, seen.taken, seen.not_conforming), (6, 4, 3));
    let mut free = Recorder::new(None);
    send(&mut free, 0, 1_000_000, 1_000_000);
    let seen = free.account().snapshot();
    assert_eq!(seen.verdict(ns(u64::MAX)), Verdict::NotJudgeable(Unknown::BestEffort));
    assert_eq!((seen.late, seen.worst_lateness_nanos), (0, None));
}

/// Compares the figures with lists of all delays.
#[test]
fn the_figures_are_those_of_a_list_of_all_messages() {
    for seed in 0..100 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let most = rng.random_range(1..2_000_000);
        let mut recorder = Recorder::new(bound(most));
        let mut list: Vec<(u64, u64, u64)> = Vec::new();
        let mut logical = 0;
        for _ in 0..rng.random_range(1..60) {
            logical += rng.random_range(1..1_000_000);
            let handed_over = logical + rng.random_range(0..1_000_000);
            let ends = handed_over + rng.random_range(0..1_000_000);
            send(&mut recorder, logical, handed_over, ends);
            list.push((logical, handed_over, ends));
        }
        let seen = recorder.account().snapshot();
        let late = list.iter().filter(|(logical, _, ends)| ends - logical > most);
        assert_eq!(seen.late, late.count() as u64);
        let worst = list.iter().map(|(logical, _, ends)| (ends - logical) as i64 - most as i64);
        assert_eq!(seen.worst_lateness_nanos, worst.max());
        let longest = list.iter().map(|(logical, handed_over, _)| handed_over - logical).max();
        assert_eq!(Some(seen.worst_delay.as_nanos()), longest);
        let jitter = list.windows(2).map(|two| {
            let gap = (two[1].1 as i64) - (two[0].1 as i64);
            gap.abs_diff(two[1].0 as i64 - two[0].0 as i64)
        });
        assert_eq!(seen.worst_jitter.as_nanos(), jitter.max().unwrap_or(0));
        assert_eq!(seen.delays.count(), list.len() as u64);
    }
}

#[test]
fn concurrent_snapshots_respect_the_order_of_events() {
    let mut recorder = Recorder::new(bound(100));
    let account = Arc::clone(recorder.account());
    let done = Arc::new(AtomicBool::new(false));
    let is_done = Arc::clone(&done);
    let reader = std::thread::spawn(move || {
        let mut looks = 0_u64;
        let mut last = account.snapshot();
        while !is_done.load(Ordering::Acquire) {
            let seen = account.snapshot();
            assert!(seen.sent + seen.losses.of_taken() <= seen.taken, "{seen:?}");
            assert!(seen.taken + seen.losses.too_early <= seen.offered, "{seen:?}");
            assert!(seen.sent <= seen.delays.count(), "{seen:?}");
            assert!(seen.sent >= last.sent && seen.offered >= last.offered);
            assert!(10 * seen.sent <= seen.sent_bytes, "{seen:?}");
            (last, looks) = (seen, looks + 1);
        }
        looks
    });
    for n in 0..300_000_u64 {
        if n % 7 == 0 {
            recorder.offered(10);
            recorder.lost(Loss::TooEarly);
        }
        send(&mut recorder, n, n + 50, n + 60);
    }
    done.store(true, Ordering::Release);
    println!("{} looks", reader.join().expect("no panic"));
    assert_eq!(recorder.account().snapshot().sent, 300_000);
}
