//! Compares the simulation of several processors with one that goes tick by tick, and with
//! published examples.

use super::*;
use punctual_model::{Duration, TaskSpec};
use punctual_sim::arrivals::{Listed, Periodic};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn task(period: u64, deadline: u64, wcet: u64) -> Task {
    let (period, wcet) = (Duration::from_nanos(period), Service::from_nanos(wcet));
    let spec = TaskSpec::periodic("t", period, wcet);
    Task::new(TaskSpec { relative_deadline: Duration::from_nanos(deadline), ..spec })
        .expect("valid")
}

/// Returns the earliest deadline that is missed.
fn first_miss(tasks: &[Task], cpus: u32) -> Option<u64> {
    let mut events: Vec<Event> = Vec::new();
    let policy = Global::earliest_deadline(cpus, tasks.len());
    let phases = vec![Duration::ZERO; tasks.len()];
    let mut arrivals = Periodic::new(tasks, &phases);
    run(tasks, cpus, policy, &mut arrivals, Instant::from_nanos(300), &mut events);
    let late = events.iter().filter(|event| event.kind == Kind::Complete).filter_map(|event| {
        let deadline = event.release + tasks[event.job.task as usize].relative_deadline();
        (event.at > deadline).then_some(deadline.as_nanos())
    });
    late.min()
}

#[test]
fn three_tasks_of_two_thirds_miss_at_3_on_two_processors_and_never_on_three() {
    let tasks = [task(3, 3, 2), task(3, 3, 2), task(3, 3, 2)];
    assert_eq!(first_miss(&tasks, 1), Some(3));
    assert_eq!(first_miss(&tasks, 2), Some(3));
    assert_eq!(first_miss(&tasks, 3), None);
}

#[test]
fn dhalls_effect_a_heavy_task_misses_beside_light_ones() {
    // As many light tasks as processors, and a heavy one with a slightly later deadline.
    let tasks = [task(100, 100, 2), task(100, 100, 2), task(101, 101, 100)];
    assert_eq!(first_miss(&tasks, 2), Some(101));
    assert_eq!(first_miss(&tasks, 3), None);
}

#[test]
fn the_most_urgent_run_side_by_side() {
    let tasks = [task(100, 100, 2), task(100, 100, 2), task(101, 101, 100)];
    let mut events: Vec<Event> = Vec::new();
    let policy = Global::fixed_priority(2, &[0, 1, 2]);
    let mut arrivals = Periodic::new(&tasks, &[Duration::ZERO; 3]);
    run(&tasks, 2, policy, &mut arrivals, Instant::from_nanos(1), &mut events);
    let seen = events.iter().map(|event| (event.at.as_nanos(), event.job.task, event.kind));
    let [start, complete] = [Kind::Start, Kind::Complete];
    let side_by_side = [(0, 0, start), (0, 1, start), (2, 0, complete), (2, 1, complete)];
    assert_eq!(seen.collect::<Vec<_>>()[..4], side_by_side);
}

/// Simulates tick by tick: the most urgent known jobs run, and among equally urgent ones those that
/// ran in the tick before.
fn by_ticks(
    tasks: &[Task],
    cpus: usize,
    lists: &[Vec<Arrival>],
    by_deadline: bool,
) -> Vec<(u64, u32, u64)> {
    let mut left: Vec<VecDeque<(Arrival, u64)>> = lists
        .iter()
        .map(|list| list.iter().map(|job| (*job, job.exec_time.as_nanos())).collect())
        .collect();
    let mut done = vec![0u64; tasks.len()];
    let mut ran = vec![false; tasks.len()];
    let mut completions = Vec::new();
    for now in 0.. {
        if left.iter().all(VecDeque::is_empty) {
            break;
        }
        let mut ready: Vec<(u64, bool, usize)> = (0..tasks.len())
            .filter_map(|at| {
                let (job, _) = left[at].front()?;
                let deadline = job.release + tasks[at].relative_deadline();
                let urgency = if by_deadline { deadline.as_nanos() } else { at as u64 };
                (job.known.as_nanos() <= now).then_some((urgency, !ran[at], at))
            })
            .collect();
        ready.sort_unstable();
        ran.fill(false);
        for &(_, _, at) in ready.iter().take(cpus) {
            ran[at] = true;
            let job = left[at].front_mut().expect("ready");
            job.1 -= 1;
            if job.1 == 0 {
                left[at].pop_front();
                completions.push((now + 1, at as u32, done[at]));
                done[at] += 1;
                ran[at] = false;
            }
        }
    }
    completions.sort_unstable();
    completions
}

#[test]
fn agrees_with_a_simulation_tick_by_tick() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let (mut jobs, mut preemptions) = (0, 0);
    for _ in 0..600 {
        let tasks: Vec<Task> = (0..rng.random_range(1..=7))
            .map(|_| {
                let period = rng.random_range(2..=20);
                let wcet = rng.random_range(1..=period);
                task(period, rng.random_range(wcet..=2 * period), wcet)
            })
            .collect();
        let lists: Vec<Vec<Arrival>> = tasks
            .iter()
            .map(|task| {
                let mut release = Instant::from_nanos(rng.random_range(0..10));
                (0..rng.random_range(1..12))
                    .map(|_| {
                        let exec = rng.random_range(1..=task.wcet().as_nanos());
                        let exec_time = Service::from_nanos(exec);
                        let job = Arrival { release, known: release, exec_time };
                        let slack = Duration::from_nanos(rng.random_range(0..4));
                        release = release + task.min_inter_arrival() + slack;
                        job
                    })
                    .collect()
            })
            .collect();
        let cpus = rng.random_range(1..=4);
        for by_deadline in [false, true] {
            let order: Vec<u32> = (0..tasks.len() as u32).collect();
            let policy = if by_deadline {
                Global::earliest_deadline(cpus, tasks.len())
            } else {
                Global::fixed_priority(cpus, &order)
            };
            let mut events: Vec<Event> = Vec::new();
            let mut arrivals = Listed::new(&lists);
            run(&tasks, cpus, policy, &mut arrivals, Instant::MAX, &mut events);
            let mut seen: Vec<(u64, u32, u64)> = events
                .iter()
                .filter(|event| event.kind == Kind::Complete)
                .map(|event| (event.at.as_nanos(), event.job.task, event.job.index))
                .collect();
            seen.sort_unstable();
            assert_eq!(seen, by_ticks(&tasks, cpus as usize, &lists, by_deadline));
            jobs += seen.len();
            preemptions += events.iter().filter(|e| e.kind == Kind::GiveWay).count();
        }
    }
    assert!(jobs > 10_000 && preemptions > 1_000, "{jobs} {preemptions}");
}
