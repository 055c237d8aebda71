use alloc::vec::Vec;

use punctual_model::channel::{LinearBounded, TooEarly};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::regulator::Promise;
use super::*;

fn ns(n: u64) -> Instant {
    Instant::from_nanos(n)
}

/// Makes a link of a nanosecond a byte, with packets of 100 bytes, two to a block.
fn egress(order: ServiceOrder, room: u32) -> EgressScheduler {
    let link = Link::new(Duration::ZERO, 1).expect("valid");
    EgressScheduler::new(link, Packetisation::new(100, 2).expect("valid"), order, room)
}

fn terms(spacing: u64, burst: u32, delay_bound: u64) -> Terms {
    Terms {
        arrivals: LinearBounded::new(1, 1_000, Duration::from_nanos(spacing), burst)
            .expect("valid"),
        promise: Promise::RealTime {
            rank: Rank(0),
            delay_bound: Duration::from_nanos(delay_bound),
        },
        too_early: TooEarly::Wait,
    }
}

fn best_effort(spacing: u64) -> Terms {
    Terms { promise: Promise::BestEffort, ..terms(spacing, 1, 1) }
}

#[test]
fn a_message_leaves_block_by_block_as_fast_as_the_link() {
    let mut egress = egress(ServiceOrder::Deadline, 1);
    let channel = egress.open(terms(1_000, 1, 500)).expect("room");
    let offered = egress.offer(ns(7), channel, ns(7), 450);
    assert_eq!(offered, Offered::Taken { logical: ns(7), conforming: true });
    let mut left = Vec::new();
    let mut now = ns(7);
    loop {
        match egress.next(now) {
            Next::Send(block) => {
                assert_eq!(block.absolute_deadline, Some(ns(507)));
                left.push((now.as_nanos(), block.offset, block.bytes, block.is_last));
                let sent = egress.sent(now);
                assert_eq!(sent == Sent::Complete { leaves_by: ns(457) }, block.is_last);
            }
            Next::At(at) => now = at,
            Next::Idle => break,
        }
    }
    assert_eq!(left, [(7, 0, 200, false), (207, 200, 200, false), (407, 400, 50, true)]);
}

#[test]
fn an_early_message_waits_or_is_lost_without_a_trace() {
    let mut egress = egress(ServiceOrder::Deadline, 2);
    let waits = egress.open(terms(100, 1, 50)).expect("room");
    let loses =
        egress.open(Terms { too_early: TooEarly::Discard, ..terms(100, 1, 50) }).expect("room");
    assert_eq!(egress.open(terms(100, 1, 50)), Err(NoRoom));
    for channel in [waits, loses] {
        assert_eq!(egress.offer(ns(0), channel, ns(0), 0), Offered::WrongSize);
        assert_eq!(egress.offer(ns(0), channel, ns(0), 1_001), Offered::WrongSize);
        let first = egress.offer(ns(0), channel, ns(0), 1);
        assert_eq!(first, Offered::Taken { logical: ns(0), conforming: true });
    }
    for _ in 0..2 {
        let now = egress.free_at();
        assert!(matches!(egress.next(now), Next::Send(_)));
        assert!(matches!(egress.sent(now), Sent::Complete { .. }));
    }
    let now = ns(30);
    assert_eq!(
        egress.offer(now, waits, now, 1),
        Offered::Taken { logical: ns(100), conforming: false }
    );
    for _ in 0..2 {
        let lost = egress.offer(now, loses, now, 1);
        assert_eq!(lost, Offered::TooEarly { conforms_at: ns(100) });
    }
    assert_eq!(egress.next(now), Next::At(ns(100)));
    let taken = egress.offer(ns(100), loses, ns(100), 1);
    assert_eq!(taken, Offered::Taken { logical: ns(100), conforming: true });
}

#[test]
fn best_effort_goes_when_nothing_else_does_and_no_faster_than_its_share() {
    let mut egress = egress(ServiceOrder::Deadline, 3);
    let low = egress.open(best_effort(1_000)).expect("room");
    let high = egress.open(terms(100, 1, u64::MAX / 4)).expect("room");
    let _ = egress.offer(ns(0), low, ns(0), 10);
    let _ = egress.offer(ns(0), high, ns(0), 10);
    let mut order = Vec::new();
    for _ in 0..2 {
        let now = egress.free_at();
        if let Next::Send(block) = egress.next(now) {
            order.push(block.channel);
            let _ = egress.sent(now);
        }
    }
    assert_eq!(order, [high, low]);
    let _ = egress.offer(ns(20), low, ns(20), 10);
    assert_eq!(egress.next(ns(20)), Next::At(ns(1_000)));
}

#[test]
fn a_late_hand_over_is_made_up_for_by_one_block_and_no_more() {
    let mut egress = egress(ServiceOrder::Deadline, 1);
    let channel = egress.open(terms(100, 1, 50)).expect("room");
    for (now, free_at) in [(0, 100), (150, 200), (201, 300), (401, 501)] {
        let _ = egress.offer(ns(now), channel, ns(now.min(free_at - 100)), 100);
        assert!(matches!(egress.next(ns(now)), Next::Send(_)));
        assert_eq!(egress.sent(ns(now)), Sent::Complete { leaves_by: ns(free_at) });
    }
}

#[test]
fn a_closed_channel_sends_nothing_more_and_gives_its_number_back() {
    let mut egress = egress(ServiceOrder::Rank, 2);
    let first = egress.open(terms(10, 1, 10)).expect("room");
    let second = egress.open(terms(10, 1, 10)).expect("room");
    let _ = egress.offer(ns(0), first, ns(0), 300);
    let _ = egress.offer(ns(0), second, ns(0), 300);
    // Closed between hand-out and hand-over.
    let Next::Send(block) = egress.next(ns(0)) else { panic!("two wait") };
    assert!(egress.close(block.channel) && !egress.close(block.channel));
    assert_eq!(egress.sent(ns(0)), Sent::Closed);
    // Closed while it is queued.
    let other = if block.channel == first { second } else { first };
    assert!(egress.close(other));
    assert_eq!(egress.next(ns(0)), Next::Idle);
    // Closed without a message; and a channel that does not exist.
    let third = egress.open(terms(10, 1, 10)).expect("room");
    assert!(egress.close(third) && !egress.close(third) && !egress.close(7));
    assert!((0..2).all(|_| egress.open(terms(10, 1, 10)).is_ok()));
    assert_eq!(egress.open(terms(10, 1, 10)), Err(NoRoom));
}

#[test]
fn a_block_not_accepted_comes_again_and_an_unsendable_one_is_given_up() {
    let mut egress = egress(ServiceOrder::Deadline, 2);
    let urgent = egress.open(terms(1_000, 1, 10)).expect("room");
    let other = egress.open(terms(1_000, 1, 900)).expect("room");
    let _ = egress.offer(ns(0), urgent, ns(0), 300);
    let _ = egress.offer(ns(0), other, ns(0), 50);
    let leaving = |next: Next| match next {
        Next::Send(block) => (block.channel, block.offset, block.bytes),
        other => panic!("{other:?}"),
    };
    // One of two packets is accepted.
    assert_eq!(leaving(egress.next(ns(0))), (urgent, 0, 200));
    assert_eq!(egress.sent_part(ns(0), 1), Sent::MorePackets);
    assert_eq!(egress.free_at(), ns(100));
    // None is accepted: the other channel sends before it.
    assert_eq!(leaving(egress.next(ns(100))), (urgent, 100, 200));
    egress.put_back(ns(100), ns(170));
    assert_eq!(leaving(egress.next(ns(100))), (other, 0, 50));
    assert_eq!(egress.sent(ns(100)), Sent::Complete { leaves_by: ns(150) });
    assert_eq!(egress.next(ns(150)), Next::At(ns(170)));
    assert_eq!(leaving(egress.next(ns(170))), (urgent, 100, 200));
    egress.give_up();
    assert_eq!((egress.next(ns(170)), egress.free_at()), (Next::Idle, ns(150)));
    // Closed while its block is handed out.
    for close_by in [true, false] {
        let _ = egress.offer(ns(5_000), urgent, ns(5_000), 300);
        assert_eq!(leaving(egress.next(ns(9_000))), (urgent, 0, 200));
        assert!(egress.close(urgent));
        if close_by {
            egress.give_up()
        } else {
            egress.put_back(ns(9_000), ns(9_500))
        }
        assert_eq!(egress.next(ns(9_500)), Next::Idle);
        assert_eq!(egress.open(terms(1_000, 1, 10)), Ok(urgent));
    }
}

/// One channel of the slow oracle below.
#[derive(Clone)]
struct Slow {
    terms: Terms,
    next: u64,
    /// Bytes left, logical arrival, and the time at which it last began to wait.
    head: Option<(u32, u64, u64)>,
}

/// Compares with a scheduler that searches all channels each time.
#[test]
fn blocks_leave_as_from_a_searched_list() {
    for seed in 0..400 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let order = if rng.random_bool(0.5) { ServiceOrder::Rank } else { ServiceOrder::Deadline };
        let count = rng.random_range(1..6_u32);
        let mut egress = egress(order, count);
        let mut slow: Vec<Slow> = Vec::new();
        for rank in 0..count {
            let mut terms =
                terms(rng.random_range(1..600), rng.random_range(1..3), rng.random_range(1..2_000));
            if let Promise::RealTime { rank: of, .. } = &mut terms.promise {
                *of = Rank(rank);
            }
            if rng.random_bool(0.3) {
                terms.promise = Promise::BestEffort;
            }
            assert_eq!(egress.open(terms), Ok(rank));
            slow.push(Slow { terms, next: 0, head: None });
        }
        let (mut now, mut free_at, mut waits) = (0_u64, 0_u64, 0_u64);
        for _ in 0..300 {
            now += rng.random_range(0..150);
            for (at, channel) in slow.iter_mut().enumerate() {
                if channel.head.is_none() && rng.random_bool(0.4) {
                    let bytes = rng.random_range(1..500);
                    let _ = egress.offer(ns(now), at as u32, ns(now), bytes);
                    let logical = channel.next.max(now);
                    channel.next = logical + channel.terms.arrivals.min_inter_arrival().as_nanos();
                    waits += 1;
                    channel.head = Some((bytes, logical, waits));
                }
            }
            let place = |channel: &Slow| {
                let (_, logical, since) = channel.head?;
                let key = match (channel.terms.promise, order) {
                    (Promise::BestEffort, ServiceOrder::Rank) => (u64::MAX, logical),
                    (Promise::BestEffort, ServiceOrder::Deadline) => (u64::MAX, u64::MAX),
                    (Promise::RealTime { rank, .. }, ServiceOrder::Rank) => {
                        (u64::from(rank.0), logical)
                    }
                    (Promise::RealTime { rank, delay_bound }, ServiceOrder::Deadline) => {
                        (logical + delay_bound.as_nanos(), u64::from(rank.0))
                    }
                };
                (logical <= now).then_some((key, since))
            };
            let first = (0..slow.len())
                .filter_map(|at| Some((place(&slow[at])?, at)))
                .min()
                .filter(|_| now >= free_at)
                .map(|(_, at)| at);
            match (egress.next(ns(now)), first) {
                (Next::Send(block), Some(at)) => {
                    assert_eq!(block.channel as usize, at, "seed {seed}");
                    let (left, logical, _) = slow[at].head.expect("it waits");
                    let bytes = left.min(200);
                    assert_eq!((block.bytes, block.is_last), (bytes, left <= 200));
                    let due = free_at.max(logical);
                    let busy = u64::from(bytes);
                    free_at = due.max(now.saturating_sub(200)) + busy;
                    waits += 1;
                    slow[at].head =
                        Some((left - bytes, logical, waits)).filter(|(left, ..)| *left > 0);
                    let done = matches!(egress.sent(ns(now)), Sent::Complete { .. });
                    assert_eq!(done, slow[at].head.is_none());
                    assert_eq!(egress.free_at(), ns(free_at));
                }
                (Next::Send(block), None) => panic!("seed {seed}: {block:?} too early"),
                (Next::At(at), None) => {
                    let next = slow.iter().filter_map(|channel| channel.head).map(|head| head.1);
                    assert_eq!(at.as_nanos(), next.min().expect("one waits").max(free_at));
                }
                (Next::Idle, None) => assert!(slow.iter().all(|channel| channel.head.is_none())),
                (other, Some(at)) => panic!("seed {seed}: {other:?} instead of {at}"),
            }
        }
    }
}

#[test]
fn packets_rest_as_long_as_the_pace_says_however_fast_the_link_is() {
    let mut egress = egress(ServiceOrder::Deadline, 1).with_pace(Duration::from_nanos(250));
    let channel = egress.open(terms(1_000, 1, 5_000)).expect("room");
    let _taken = egress.offer(ns(0), channel, ns(0), 450);
    let mut left = Vec::new();
    let mut now = ns(0);
    loop {
        match egress.next(now) {
            Next::Send(block) => {
                left.push((now.as_nanos(), block.bytes));
                // Twenty nanoseconds of work: the pace counts from one beginning to the next.
                now += Duration::from_nanos(20);
                if let Sent::Complete { leaves_by } = egress.sent(now) {
                    assert_eq!(leaves_by, ns(1_050), "the link has no rest");
                }
            }
            Next::At(at) => now = at,
            Next::Idle => break,
        }
    }
    assert_eq!(left, [(0, 200), (500, 200), (1_000, 50)]);
    assert_eq!((egress.free_at(), egress.rests_until()), (ns(1_050), ns(1_250)));
}

/// A thread that wakes up late after each pause, by up to the pace, keeps the pace over time.
/// Greater lateness loses the excess.
#[test]
fn a_late_packet_is_made_up_for() {
    for (late, last) in [(0, 8_900), (40, 8_940), (99, 8_999), (150, 11_151)] {
        let mut egress = egress(ServiceOrder::Deadline, 1).with_pace(Duration::from_nanos(100));
        let channel = egress.open(terms(1, 1, 5_000)).expect("room");
        let mut now = ns(10_000);
        // The second packet follows the first at once: pause and lateness look the same.
        for _ in 0..91 {
            let _taken = egress.offer(now, channel, now, 1);
            while let Next::At(at) = egress.next(now) {
                now = at + Duration::from_nanos(late);
            }
            let _complete = egress.sent(now);
        }
        assert_eq!(now, ns(10_000 + last), "{late} ns late");
    }
}

/// Returns the stretches of work of a thread that other threads delay at random, while its channels
/// always have messages.
fn work_at_a_pace(rng: &mut ChaCha8Rng, work: u64, pace: u64, per_block: u32) -> Vec<(u64, u64)> {
    let cut = Packetisation::new(100, per_block).expect("valid");
    let link = Link::new(Duration::ZERO, rng.random_range(0..3)).expect("valid");
    let mut egress = EgressScheduler::new(link, cut, ServiceOrder::Deadline, 4)
        .with_pace(Duration::from_nanos(pace));
    let (interrupted, pauses) = (rng.random_range(0.0..0.9), rng.random_range(0.0..0.6));
    let channels: Vec<u32> =
        (0..4).map(|_| egress.open(terms(1, 1, 5_000)).expect("room")).collect();
    let mut has = [false; 4];
    let mut now = 0;
    let mut worked = Vec::new();
    while now < 40_000 {
        for (&channel, has) in channels.iter().zip(&mut has) {
            if !*has && !rng.random_bool(pauses) {
                *has = true;
                let _taken = egress.offer(ns(now), channel, ns(now), rng.random_range(1..=1_000));
            }
        }
        match egress.next(ns(now)) {
            Next::Send(block) => {
                let mut left = work * u64::from(cut.packets_of(block.bytes));
                while left > 0 {
                    if rng.random_bool(interrupted) {
                        now += rng.random_range(0..3 * pace);
                    }
                    let stretch = rng.random_range(1..=left);
                    worked.push((now, now + stretch));
                    (now, left) = (now + stretch, left - stretch);
                }
                if let Sent::Complete { .. } = egress.sent(ns(now)) {
                    has[channels.iter().position(|one| *one == block.channel).expect("open")] =
                        false;
                }
            }
            Next::At(at) => now = at.as_nanos(),
            Next::Idle => now += rng.random_range(1..200),
        }
    }
    worked
}

/// Checks every window from the beginning of one stretch of work to the end of another; other
/// windows hold less.
#[test]
fn no_window_holds_more_work_than_the_pace_allows() {
    let (mut windows, mut met) = (0, 0);
    for seed in 0..400 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let work = rng.random_range(1..60_u64);
        let pace = rng.random_range(work..200);
        let per_block = rng.random_range(1..=4);
        let worked = work_at_a_pace(&mut rng, work, pace, per_block);
        for first in 0..worked.len() {
            let mut sum = 0;
            for &(start, end) in worked[first..].iter().take(200) {
                sum += end - start;
                let window = end - worked[first].0;
                // Both sides are multiplied by the pace.
                let at_once = 2 * u64::from(per_block) * work * (pace - work) + work * pace;
                let most = work * window + at_once;
                assert!(sum * pace <= most, "seed {seed}: {sum} in {window}");
                windows += 1;
                met += u64::from(sum * pace * 100 >= most * 98);
            }
        }
    }
    assert!(windows > 1_000_000 && met > 100, "{met} of {windows}");
}
