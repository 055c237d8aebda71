//! Incremental admission against the full test of the whole set, over random sequences of requests.

use crate::common::{TICK, reservation};
use punctual_analysis::edf::demand::{DemandVerdict, processor_demand};
use punctual_analysis::fixed_priority::{ResponseTime, all_in_time};
use punctual_analysis::incremental::{Admission, Denial, TaskId};
use punctual_analysis::order::by_priority;
use punctual_analysis::{CpuLoad, Steps, fifo};
use punctual_model::{Duration, Policy, Reservation, Service, Task, TaskSpec};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The features of a sequence.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// The approximate number of tasks at a time; more tasks have smaller shares.
    tasks: u64,
    /// The longest period, in ticks.
    longest: u64,
    jitter: bool,
    quanta: bool,
    last_segments: bool,
    any_deadline: bool,
    reservation: bool,
    /// Whether reservations come and go like tasks.
    reserving: bool,
    context_switch: u64,
}

const PLAIN: Kind = Kind {
    tasks: 5,
    longest: 16,
    jitter: false,
    quanta: false,
    last_segments: false,
    any_deadline: false,
    reservation: false,
    reserving: false,
    context_switch: 0,
};

const EVERYTHING: Kind = Kind {
    jitter: true,
    quanta: true,
    last_segments: true,
    any_deadline: true,
    context_switch: TICK / 20,
    ..PLAIN
};

fn draw(rng: &mut ChaCha8Rng, kind: Kind) -> Task {
    let period = rng.random_range(2..=kind.longest);
    let wcet = rng.random_range(1..=(3 * period / kind.tasks).clamp(1, period));
    let deadline = match (kind.any_deadline, rng.random()) {
        (true, true) => rng.random_range(wcet..=3 * period),
        (true, false) => rng.random_range(wcet..=period),
        (false, _) => period,
    };
    let jitter = if kind.jitter && rng.random() { rng.random_range(0..deadline) } else { 0 };
    let quantum = if kind.quanta && rng.random() { rng.random_range(0..=wcet) } else { 0 };
    let last = if kind.last_segments { rng.random_range(0..=quantum) } else { 0 };
    Task::new(TaskSpec {
        relative_deadline: Duration::from_nanos(deadline * TICK),
        release_jitter: Duration::from_nanos(jitter * TICK),
        quantum: Service::from_nanos(quantum * TICK),
        last_segment: Service::from_nanos(last * TICK),
        ..TaskSpec::periodic(
            "drawn",
            Duration::from_nanos(period * TICK),
            Service::from_nanos(wcet * TICK),
        )
    })
    .expect("valid")
}

/// An oracle that analyses each request from scratch.
struct Oracle {
    policy: Policy,
    reservations: Vec<Reservation>,
    context_switch: Service,
    /// The tasks in file order.
    tasks: Vec<(Option<TaskId>, Task)>,
}

impl Oracle {
    fn all_fit(&self) -> bool {
        let tasks: Vec<Task> = self.tasks.iter().map(|(_, task)| task.clone()).collect();
        let order = by_priority(self.policy, &tasks);
        let in_order = order.iter().map(|&at| &tasks[at]);
        let reservations = self.reservations.iter().copied();
        let load = CpuLoad::new(in_order, reservations, self.context_switch);
        let steps = &mut Steps::new(20_000_000);
        match self.policy {
            Policy::Rmdp | Policy::Rm | Policy::Fp => all_in_time(&load, steps),
            // Without a task of high criticality the two policies are the same.
            Policy::Edf | Policy::EdfVd => {
                let verdict = processor_demand(&load, steps);
                assert_ne!(verdict, DemandVerdict::Undecided);
                verdict == DemandVerdict::Fits
            }
            Policy::Fifo => {
                let times = fifo::response_times(&load, steps).into_iter();
                times.zip(order).all(|(time, at)| {
                    time.bound().is_some_and(|bound| bound <= tasks[at].relative_deadline())
                })
            }
        }
    }
}

#[derive(Debug, Default)]
struct Seen {
    reserved: usize,
    admitted: usize,
    denied: usize,
    removed: usize,
    most: usize,
}

fn agree(policy: Policy, kind: Kind, seed: u64, sequences: usize, requests: usize) -> Seen {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut seen = Seen::default();
    for sequence in 0..sequences {
        let reserved = kind.reservation.then(|| reservation(1, rng.random_range(6..20)));
        let context_switch = Service::from_nanos(kind.context_switch);
        let mut cpu = Admission::new(policy, reserved, context_switch);
        let reservations = Vec::from_iter(reserved);
        let mut oracle = Oracle { policy, reservations, context_switch, tasks: Vec::new() };
        for request in 0..requests {
            let context = || format!("{policy:?} {kind:?} seed {seed}: {sequence}.{request}");
            let there = oracle.tasks.len();
            if kind.reserving && rng.random_ratio(1, 5) {
                reserve_or_not(&mut rng, &mut cpu, &mut oracle, &mut seen, &context());
                continue;
            }
            if there > 0 && rng.random_ratio(1, 4) {
                let (id, _) = oracle.tasks.remove(rng.random_range(0..there));
                assert!(cpu.remove(id.expect("admitted")), "{}", context());
                seen.removed += 1;
                assert!(oracle.all_fit(), "{}", context());
                continue;
            }
            let task = draw(&mut rng, kind);
            let steps = &mut Steps::default();
            // Under policies other than fp, the order among equals differs from the oracle's.
            let above = policy == Policy::Fp && there > 0 && rng.random();
            let (at, answer) = if above {
                let at = rng.random_range(0..there);
                let below = oracle.tasks[at].0.expect("admitted");
                (at, cpu.admit_above(below, &task, steps))
            } else {
                (there, cpu.admit(&task, steps))
            };
            oracle.tasks.insert(at, (answer.ok(), task));
            let fits = oracle.all_fit();
            assert_eq!(answer.is_ok(), fits, "{answer:?} {}", context());
            if fits {
                seen.admitted += 1;
            } else {
                oracle.tasks.remove(at);
                seen.denied += 1;
                assert_ne!(answer, Err(Denial::Undecided), "{}", context());
            }
            assert_eq!(cpu.ids().count(), oracle.tasks.len());
            seen.most = seen.most.max(oracle.tasks.len());
        }
        for (id, bound) in cpu.response_time_bounds(&mut Steps::default()) {
            let (_, task) =
                oracle.tasks.iter().find(|(other, _)| *other == Some(id)).expect("there");
            assert!(bound <= task.relative_deadline() && bound >= task.wcet().at_full_speed());
        }
    }
    assert!(seen.admitted > sequences && seen.denied > sequences, "{policy:?} {kind:?}: {seen:?}");
    seen
}

/// Adds a reservation, or removes one.
fn reserve_or_not(
    rng: &mut ChaCha8Rng,
    cpu: &mut Admission,
    oracle: &mut Oracle,
    seen: &mut Seen,
    context: &str,
) {
    let there = oracle.reservations.len();
    if there > 0 && rng.random_ratio(1, 3) {
        let old = oracle.reservations.remove(rng.random_range(0..there));
        assert!(cpu.unreserve(old), "{context}");
        assert!(oracle.tasks.is_empty() || oracle.all_fit(), "{context}");
        return;
    }
    let more = reservation(rng.random_range(1..4), rng.random_range(6..60));
    let answer = cpu.reserve(more, &mut Steps::default());
    oracle.reservations.push(more);
    assert_eq!(answer.is_ok(), oracle.all_fit(), "{answer:?} {context}");
    assert_ne!(answer, Err(Denial::Undecided), "{context}");
    if answer.is_ok() {
        seen.reserved += 1;
    } else {
        oracle.reservations.pop();
        seen.denied += 1;
    }
}

#[test]
fn reservations_come_and_go() {
    for (seed, policy) in
        (1..).zip([Policy::Rm, Policy::Rmdp, Policy::Fp, Policy::Edf, Policy::Fifo])
    {
        for kind in [PLAIN, Kind { reservation: true, ..PLAIN }, EVERYTHING] {
            let seen = agree(policy, Kind { reserving: true, ..kind }, seed, 150, 40);
            assert!(seen.reserved > 150, "{policy:?} {kind:?}: {seen:?}");
        }
    }
}

/// Most certificates bear the change within their spares; some need the exact test.
#[test]
fn reservations_above_many_tasks() {
    let many =
        Kind { tasks: 120, longest: 2_000, reserving: true, context_switch: 0, ..EVERYTHING };
    for policy in [Policy::Rm, Policy::Fp, Policy::Edf] {
        let seen = agree(policy, many, 2, 3, 250);
        assert!(seen.most > 15 && seen.reserved > 20, "{policy:?}: {seen:?}");
    }
}

const FIXED: [Policy; 3] = [Policy::Rm, Policy::Rmdp, Policy::Fp];

#[test]
fn fixed_priority_of_plain_tasks() {
    for policy in FIXED {
        agree(policy, PLAIN, 1, 400, 40);
    }
}

#[test]
fn fixed_priority_with_each_feature() {
    let kinds = [
        Kind { quanta: true, ..PLAIN },
        Kind { quanta: true, last_segments: true, ..PLAIN },
        Kind { jitter: true, ..PLAIN },
        Kind { any_deadline: true, ..PLAIN },
        Kind { reservation: true, ..PLAIN },
        Kind { reservation: true, quanta: true, last_segments: true, ..PLAIN },
        Kind { context_switch: TICK / 10, ..PLAIN },
    ];
    for (seed, kind) in (1..).zip(kinds) {
        for policy in FIXED {
            agree(policy, kind, seed, 200, 40);
        }
    }
}

#[test]
fn fixed_priority_with_everything() {
    for reservation in [false, true] {
        let kind = Kind { reservation, ..EVERYTHING };
        for policy in FIXED {
            agree(policy, kind, 2, 500, 40);
        }
    }
}

#[test]
fn edf_of_plain_tasks() {
    agree(Policy::Edf, PLAIN, 1, 400, 40);
}

#[test]
fn edf_with_each_feature() {
    let kinds = [
        Kind { quanta: true, ..PLAIN },
        Kind { jitter: true, ..PLAIN },
        Kind { any_deadline: true, ..PLAIN },
        Kind { reservation: true, any_deadline: true, ..PLAIN },
        Kind { context_switch: TICK / 10, any_deadline: true, ..PLAIN },
    ];
    for (seed, kind) in (1..).zip(kinds) {
        agree(Policy::Edf, kind, seed, 300, 40);
    }
}

#[test]
fn edf_with_everything() {
    for reservation in [false, true] {
        let kind = Kind { reservation, ..EVERYTHING };
        agree(Policy::Edf, kind, 2, 1_000, 40);
    }
}

#[test]
fn virtual_deadlines_without_a_second_criticality() {
    agree(Policy::EdfVd, EVERYTHING, 1, 200, 40);
}

#[test]
fn first_in_first_out() {
    agree(Policy::Fifo, EVERYTHING, 1, 200, 40);
}

/// Many tasks with small shares: the certificates hold for long and fail one at a time.
#[test]
fn many_tasks() {
    let many = Kind { tasks: 120, longest: 2_000, context_switch: 0, ..EVERYTHING };
    for kind in [
        Kind { tasks: 60, longest: 2_000, ..PLAIN },
        Kind { any_deadline: false, jitter: false, ..many },
        many,
    ] {
        for policy in [Policy::Rm, Policy::Fp, Policy::Edf] {
            let seen = agree(policy, kind, 1, 3, 250);
            assert!(seen.most > 15, "{policy:?} {kind:?}: {seen:?}");
        }
    }
}

#[test]
fn a_denial_says_why_and_changes_nothing() {
    let task = |wcet, period| {
        let (period, wcet) = (Duration::from_nanos(period), Service::from_nanos(wcet));
        Task::new(TaskSpec::periodic("task", period, wcet)).expect("valid")
    };
    let steps = &mut Steps::default();
    let mut cpu = Admission::new(Policy::Rm, [], Service::ZERO);
    let slow = cpu.admit(&task(6, 12), steps).expect("alone");
    let fast = cpu.admit(&task(2, 4), steps).expect("6 + 3 · 2 ≤ 12");
    let late = Denial::Late {
        task: Some(slow),
        response_time: ResponseTime::Unbounded,
        relative_deadline: Duration::from_nanos(12),
    };
    assert_eq!(cpu.admit(&task(1, 6), steps), Err(late));
    assert_eq!(cpu.admit(&task(1, 1), &mut Steps::new(0)), Err(Denial::Undecided));
    assert_eq!(cpu.ids().collect::<Vec<_>>(), [fast, slow]);
    assert!(cpu.remove(slow) && !cpu.remove(slow));
    assert_eq!(cpu.admit_above(slow, &task(1, 6), steps), Err(Denial::NoSuchTask));
    let again = cpu.admit(&task(6, 12), steps).expect("as before");
    assert_ne!(again, slow, "a name is not given twice");
}
