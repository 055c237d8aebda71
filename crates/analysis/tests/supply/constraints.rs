//! One-shot time constraints against a schedule tick by tick in the free time.

use punctual_analysis::supply::{Commitments, TimeConstraint};
use punctual_model::{Duration, Instant, Service, Slot, Timetable};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn constraint(start: u64, estimate: u64, deadline: u64) -> TimeConstraint {
    TimeConstraint {
        start: Instant::from_nanos(start),
        estimate: Service::from_nanos(estimate),
        deadline: Instant::from_nanos(deadline),
    }
}

fn table(cycle: u64, slots: &[(u64, u64)]) -> Timetable {
    let slots = slots.iter().map(|&(start, end)| Slot {
        start: Duration::from_nanos(start),
        length: Duration::from_nanos(end - start),
        owner: 0,
    });
    Timetable::new(Duration::from_nanos(cycle), slots.collect()).expect("valid")
}

/// Returns whether EDF over the free ticks meets all deadlines.
fn feasible(table: &Timetable, origin: u64, all: &[TimeConstraint]) -> bool {
    let mut left: Vec<u64> = all.iter().map(|one| one.estimate.as_nanos()).collect();
    let end = all.iter().map(|one| one.deadline.as_nanos()).max().unwrap_or(0);
    for now in origin..end {
        let offset = Duration::from_nanos((now - origin) % table.cycle().as_nanos());
        if table.slots().iter().any(|slot| slot.start <= offset && offset < slot.end()) {
            continue;
        }
        let ready = |at: &usize| left[*at] > 0 && all[*at].start.as_nanos() <= now;
        if let Some(at) = (0..all.len()).filter(ready).min_by_key(|at| all[*at].deadline) {
            if now >= all[at].deadline.as_nanos() {
                return false;
            }
            left[at] -= 1;
        }
    }
    left.iter().all(|left| *left == 0)
}

#[test]
fn yes_and_no_and_both_counter_offers_are_exact() {
    let mut rng = ChaCha8Rng::seed_from_u64(51);
    let (mut yes, mut no, mut offers) = (0, 0, 0);
    for _ in 0..600 {
        let cycle = rng.random_range(1..12);
        let mut slots = Vec::new();
        let mut at = rng.random_range(0..=cycle);
        while at < cycle {
            let end = rng.random_range(at + 1..=cycle);
            slots.push((at, end));
            at = end + rng.random_range(1..4);
        }
        let (table, origin) = (table(cycle, &slots), rng.random_range(0..5));
        let mut commitments = Commitments::new(&table, Instant::from_nanos(origin), Service::ZERO);
        let mut accepted = Vec::new();
        for _ in 0..10 {
            let start = rng.random_range(0..50);
            let asked = constraint(start, rng.random_range(1..10), start + rng.random_range(1..40));
            let with = |asked: TimeConstraint| {
                let all: Vec<_> = accepted.iter().copied().chain([asked]).collect();
                feasible(&table, origin, &all)
            };
            match commitments.accept(asked) {
                Ok(()) => {
                    assert!(with(asked), "{asked:?} {accepted:?} {table:?}");
                    yes += 1;
                    accepted.push(asked);
                }
                Err(room) => {
                    assert!(!with(asked), "{asked:?} {accepted:?} {table:?}");
                    no += 1;
                    let estimate = |n| TimeConstraint { estimate: Service::from_nanos(n), ..asked };
                    let largest = room.largest_estimate.as_nanos();
                    assert!(with(estimate(largest)) && !with(estimate(largest + 1)), "{room}");
                    let Some(deadline) = room.earliest_deadline else {
                        // Only a table without free time has none at all.
                        assert_eq!(slots, [(0, cycle)]);
                        continue;
                    };
                    let until = |n| TimeConstraint { deadline: Instant::from_nanos(n), ..asked };
                    let deadline = deadline.as_nanos();
                    assert!(with(until(deadline)) && !with(until(deadline - 1)), "{room}");
                    offers += 1;
                }
            }
        }
    }
    assert!(yes > 1_000 && no > 1_000 && offers > 500, "{yes} {no} {offers}");
}

#[test]
fn a_refusal_reads_as_a_sentence() {
    // Free: 6 of every 10.
    let table = table(10, &[(0, 4)]);
    let mut commitments = Commitments::new(&table, Instant::ZERO, Service::ZERO);
    assert!(commitments.accept(constraint(0, 6, 10)).is_ok());
    let refusal = commitments.accept(constraint(5, 8, 20)).expect_err("only 6 are left");
    assert_eq!(
        refusal.to_string(),
        "8ns of work does not fit between 5ns and 20ns: at most 6ns does, or all of it by 26ns"
    );
    assert_eq!(commitments.len(), 1);
    commitments.pass(Instant::from_nanos(10));
    assert!(commitments.is_empty());
}

/// Each free stretch loses a switch at its start, and each constraint is charged two.
#[test]
fn switches_are_charged() {
    let table = table(100, &[(0, 40), (60, 80)]);
    let mut commitments = Commitments::new(&table, Instant::ZERO, Service::from_nanos(3));
    // [43, 60) and [83, 100) are left: 34, less 6.
    let refusal = commitments.accept(constraint(0, 29, 100)).expect_err("28 fit");
    assert_eq!(refusal.largest_estimate, Service::from_nanos(28));
    assert_eq!(refusal.earliest_deadline, Some(Instant::from_nanos(144)));
    assert!(commitments.accept(constraint(0, 28, 100)).is_ok());
}

#[test]
fn their_number_is_bounded_and_the_end_of_time_is_no_trouble() {
    let free = Timetable::free(Duration::from_nanos(10)).expect("valid");
    let mut commitments = Commitments::new(&free, Instant::ZERO, Service::ZERO);
    for at in 0..Commitments::MOST as u64 {
        assert!(commitments.accept(constraint(at, 1, at + 1)).is_ok());
    }
    assert!(commitments.accept(constraint(5_000, 1, 6_000)).is_err());
    commitments.pass(Instant::from_nanos(1_000));
    assert!(commitments.accept(constraint(5_000, 1, u64::MAX)).is_ok());
    let forever = commitments.accept(constraint(0, u64::MAX, u64::MAX)).expect_err("too much");
    assert_eq!(forever.earliest_deadline, None);
    let dear = Service::from_nanos(u64::MAX);
    let mut none = Commitments::new(&table(10, &[(0, 4)]), Instant::ZERO, dear);
    let refusal = none.accept(constraint(0, 1, 1_000)).expect_err("no time is left");
    assert_eq!((refusal.largest_estimate, refusal.earliest_deadline), (Service::ZERO, None));
}
