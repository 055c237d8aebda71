//! What is kept between changes is what counting from nothing gives.

use alloc::vec::Vec;

use punctual_model::{Duration, Policy, Reservation, Service, Task, TaskSpec};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Admission, Tasks};
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
                assert_eq!(mark.blocking, less_urgent.max().unwrap_or(0));
                for point in mark.certificate.points() {
                    // How many own jobs it stands for is not kept; the rest must be a number of
                    // them, less a last segment where one starts.
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
            tasks.assert_sums();
            load.tasks.len()
        }
        Tasks::FirstIn(_) => 0,
    }
}

#[test]
fn nothing_drifts() {
    let reservation = || Reservation::new(Service::from_nanos(3), Duration::from_nanos(40));
    for (seed, policy) in (1..).zip([Policy::Rm, Policy::Fp, Policy::Edf]) {
        for reservations in [Vec::new(), Vec::from([reservation().expect("valid")])] {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut cpu = Admission::new(policy, reservations, Service::ZERO);
            let (mut checked, mut denied) = (0, 0);
            for _ in 0..2_000 {
                let ids: Vec<_> = cpu.ids().collect();
                let some = (!ids.is_empty()).then(|| ids[rng.random_range(0..ids.len())]);
                let mut steps = Steps::default();
                let task = draw(&mut rng);
                let answer = match (some, rng.random_range(0..3)) {
                    (Some(id), 0) => {
                        assert!(cpu.remove(id) && !cpu.remove(id));
                        Ok(id)
                    }
                    (Some(id), 1) => cpu.admit_above(id, &task, &mut steps),
                    _ => cpu.admit(&task, &mut steps),
                };
                denied += usize::from(answer.is_err());
                checked += check(&cpu);
            }
            assert!(checked > 5_000 && denied > 200, "{policy:?}: {checked}, {denied} denied");
        }
    }
}
