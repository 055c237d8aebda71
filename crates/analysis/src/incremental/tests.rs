//! The state kept between changes equals a computation from scratch.

use alloc::vec::Vec;

use punctual_model::{Duration, Policy, Reservation, Service, Task, TaskSpec};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Admission, Tasks};
use crate::edf::demand::{DemandVerdict, processor_demand};
use crate::load::{CpuLoad, TaskLoad};
use crate::steps::Steps;

fn draw(rng: &mut ChaCha8Rng) -> Task {
    let period = rng.random_range(4..200u64);
    let wcet = rng.random_range(1..=period.div_ceil(8));
    let deadline = rng.random_range(wcet.max(period / 2)..=3 * period);
    let jitter = if rng.random() { rng.random_range(0..deadline.min(period)) } else { 0 };
    let quantum = if rng.random() { rng.random_range(0..=wcet) } else { 0 };
    let last = if rng.random() { rng.random_range(0..=quantum) } else { 0 };
    Task::new(TaskSpec {
        relative_deadline: Duration::from_nanos(deadline),
        release_jitter: Duration::from_nanos(jitter),
        quantum: Service::from_nanos(quantum),
        last_segment: Service::from_nanos(last),
        ..TaskSpec::periodic("drawn", Duration::from_nanos(period), Service::from_nanos(wcet))
    })
    .expect("valid")
}

fn check(cpu: &Admission) -> usize {
    let load = cpu.load();
    match &cpu.tasks {
        Tasks::FixedPriority(tasks) => {
            let mut points = 0;
            for (at, mark) in tasks.marks().iter().enumerate() {
                let own = load.tasks[at];
                let less_urgent = load.tasks[at + 1..].iter().map(|task| task.quantum);
                assert_eq!(mark.blocking, less_urgent.max().unwrap_or(0).max(load.wake_up));
                for point in mark.certificate.points() {
                    // The number of the task's own jobs at the point is not kept. The rest must be
                    // a multiple of them, less a last segment if one starts there.
                    let others = load.tasks[..at].iter().map(|task| task.work_in(point.at));
                    let reserved = load.reservations.iter().map(|r| r.interference_in(point.at));
                    let work: u64 = others.chain(reserved).map(|work| work.expect("small")).sum();
                    let counted = work + point.counted(mark.blocking);
                    let own_work = point.at - point.spare - counted;
                    let last = if point.start { own.last } else { 0 };
                    assert!((own_work + last).is_multiple_of(own.work) && own_work + last > 0);
                    points += 1;
                }
            }
            points
        }
        Tasks::EarliestDeadline(tasks) => {
            tasks.assert_kept();
            load.tasks.len()
        }
        Tasks::FullTest(_) => 0,
    }
}

#[test]
fn nothing_drifts() {
    let reservation = || Reservation::new(Service::from_nanos(3), Duration::from_nanos(40));
    for (seed, policy) in (1..).zip([Policy::Rm, Policy::Fp, Policy::Edf]) {
        for reservations in [Vec::new(), Vec::from([reservation().expect("valid")])] {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let wake_up = Service::from_nanos(3 * (seed % 2));
            let mut cpu = Admission::new(policy, reservations, Service::ZERO).with_wake_up(wake_up);
            let (mut checked, mut denied) = (0, 0);
            for _ in 0..2_000 {
                let ids: Vec<_> = cpu.ids().collect();
                let some = (!ids.is_empty()).then(|| ids[rng.random_range(0..ids.len())]);
                let mut steps = Steps::default();
                let task = draw(&mut rng);
                if rng.random_ratio(1, 10) {
                    let more = Reservation::new(Service::from_nanos(2), Duration::from_nanos(50));
                    let more = more.expect("valid");
                    let briefly = cpu.clone().reserve(more, &mut Steps::default().briefly());
                    let reserved = cpu.reserve(more, &mut steps);
                    assert_eq!(briefly.is_ok(), reserved.is_ok());
                    denied += usize::from(reserved.is_err());
                    while rng.random() && cpu.unreserve(more) {}
                    checked += check(&cpu);
                }
                let answer = match (some, rng.random_range(0..3)) {
                    (Some(id), 0) => {
                        assert!(cpu.remove(id) && !cpu.remove(id));
                        Ok(id)
                    }
                    (Some(id), 1) => cpu.admit_above(id, &task, &mut steps),
                    _ => {
                        let briefly = cpu.clone().admit(&task, &mut Steps::default().briefly());
                        let admitted = cpu.admit(&task, &mut steps);
                        assert_eq!(briefly.is_ok(), admitted.is_ok());
                        admitted
                    }
                };
                denied += usize::from(answer.is_err());
                checked += check(&cpu);
            }
            assert!(checked > 5_000 && denied > 200, "{policy:?}: {checked}, {denied} denied");
        }
    }
}

/// Many tasks, so that blocks are split and become empty.
#[test]
fn blocks_of_many_tasks_decide_as_the_full_test_does() {
    let longest_quanta = [0, 2_000, 20_000, 2_000_000].into_iter().cycle();
    for (seed, longest_quantum) in (1..=8).zip(longest_quanta) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let wake_up = Service::from_nanos(seed % 3 * 4_000);
        let mut cpu = Admission::new(Policy::Edf, [], Service::ZERO).with_wake_up(wake_up);
        let mut tasks = Vec::new();
        let (mut most, mut denied) = (0, 0);
        for request in 0..600 {
            if !tasks.is_empty() && rng.random_ratio(request / 120, 9) {
                let (id, _) = tasks.swap_remove(rng.random_range(0..tasks.len()));
                assert!(cpu.remove(id));
                continue;
            }
            let task = draw_small(&mut rng, longest_quantum);
            let answer = cpu.admit(&task, &mut Steps::default());
            let all = tasks.iter().map(|(_, task)| task).chain([&task]);
            let load = CpuLoad::new(all, [], Service::ZERO).with_wake_up(wake_up);
            let verdict = processor_demand(&load, &mut Steps::default());
            assert_eq!(answer.is_ok(), verdict == DemandVerdict::Fits, "{seed}.{request}");
            match answer {
                Ok(id) => tasks.push((id, task)),
                Err(_) => denied += 1,
            }
            if request % 50 == 0 {
                check(&cpu);
            }
            most = most.max(tasks.len());
        }
        check(&cpu);
        assert!(most > 60 && denied > 30, "seed {seed}: {most}, {denied} denied");
        tasks.iter().for_each(|(id, _)| assert!(cpu.remove(*id)));
        check(&cpu);
    }
}

/// Draws a task of about a hundredth of the CPU, with periods of many magnitudes, and sometimes an
/// early deadline.
fn draw_small(rng: &mut ChaCha8Rng, longest_quantum: u64) -> Task {
    let magnitude = 1u64 << rng.random_range(17..27);
    let period = rng.random_range(magnitude..2 * magnitude);
    let wcet = rng.random_range(period / 200..period / 60);
    let earliest = if rng.random_ratio(1, 4) { period / 20 } else { period / 2 };
    let quantum = if rng.random_ratio(1, 4) { longest_quantum.min(wcet) } else { 0 };
    // Some deadlines coincide.
    let deadline = rng.random_range(earliest..=period) / 1_000 * 1_000;
    Task::new(TaskSpec {
        relative_deadline: Duration::from_nanos(deadline),
        quantum: Service::from_nanos(quantum),
        ..TaskSpec::periodic("small", Duration::from_nanos(period), Service::from_nanos(wcet))
    })
    .expect("valid")
}

/// The deciding quantum is in a block that is examined task by task, at its least d; the previous
/// block would be proven as a whole.
#[test]
fn a_quantum_at_the_edge_of_a_block_blocks_the_one_before() {
    let task = |deadline, wcet, quantum| {
        Task::new(TaskSpec {
            relative_deadline: Duration::from_nanos(deadline),
            quantum: Service::from_nanos(quantum),
            ..TaskSpec::periodic("t", Duration::from_nanos(100_000), Service::from_nanos(wcet))
        })
        .expect("valid")
    };
    let steps = &mut Steps::default();
    let mut cpu = Admission::new(Policy::Edf, [], Service::ZERO);
    for deadline in [500, 510, 520] {
        cpu.admit(&task(deadline, 1, 0), steps).expect("room");
    }
    let blocker = cpu.admit(&task(1_000, 300, 50), steps).expect("room");
    for deadline in [1_400, 1_800, 2_200] {
        cpu.admit(&task(deadline, 300, 0), steps).expect("room");
    }
    let (window, by) = (Duration::from_nanos(40), Duration::from_nanos(11));
    assert_eq!(cpu.admit(&task(40, 1, 0), steps), Err(super::Denial::Demand { window, by }));
    assert!(cpu.remove(blocker));
    cpu.admit(&task(40, 1, 0), steps).expect("nobody blocks it");
}

/// The cost of a reservation above many tasks of which none has a certificate that bears it, and of
/// one that is denied again.
#[test]
fn neighbours_share_an_instant_and_a_denial_keeps_what_was_found() {
    const TASKS: u64 = 1_000;
    let rng = &mut ChaCha8Rng::seed_from_u64(1);
    let mut cpu = Admission::new(Policy::Rm, [], Service::ZERO);
    for _ in 0..TASKS {
        let period = rng.random_range(20_000_000..120_000_000);
        let wcet = Service::from_nanos(period * 2 / 5 / TASKS);
        let task = Task::new(TaskSpec::periodic("t", Duration::from_nanos(period), wcet));
        // In the order of the periods, as tasks are handed over that bands have proven.
        cpu.insert_load(TaskLoad::new(&task.expect("valid"), Service::ZERO), None);
    }
    let cost = |cpu: &mut Admission, text: &str, mut steps: Steps| {
        let is_admitted = cpu.reserve(text.parse().expect("valid"), &mut steps).is_ok();
        (is_admitted, (Steps::ADMISSION - steps.left()) / TASKS)
    };
    let (admitted, first) = cost(&mut cpu, "1ms/10ms", Steps::default());
    assert!(admitted && first < 50, "{first} steps a task, not half of {TASKS}");
    let (admitted, denied) = cost(&mut cpu, "4ms/10ms", Steps::default());
    let (_, again) = cost(&mut cpu, "4ms/10ms", Steps::default());
    assert!(!admitted && 2 * again < denied, "{denied} steps a task, then {again}");
    let (_, briefly) = cost(&mut cpu.clone(), "4200us/10ms", Steps::default().briefly());
    let (admitted, denied) = cost(&mut cpu, "4200us/10ms", Steps::default());
    assert!(!admitted && 2 * briefly < denied, "{briefly} steps a task, then {denied}");
    check(&cpu);
}
