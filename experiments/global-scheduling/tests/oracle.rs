//! Random runs on several CPUs stay within the bounds.

use global_scheduling::bounds::workload::{self, Slack};
use global_scheduling::bounds::{density, fixed_priority};
use punctual_analysis::{CpuLoad, Steps};
use punctual_model::{Duration, Service, Task, TaskSpec};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A task in nanoseconds, the tick of these analyses.
#[derive(Clone, Copy, Debug)]
struct Ticks {
    wcet: u64,
    period: u64,
    deadline: u64,
}

impl Ticks {
    fn spec(&self) -> TaskSpec {
        let (period, wcet) = (Duration::from_nanos(self.period), Service::from_nanos(self.wcet));
        let relative_deadline = Duration::from_nanos(self.deadline);
        TaskSpec { relative_deadline, ..TaskSpec::periodic("t", period, wcet) }
    }
}

fn tasks(system: &[Ticks]) -> Vec<Task> {
    system.iter().map(|ticks| Task::new(ticks.spec()).expect("a valid task")).collect()
}

fn draw(rng: &mut ChaCha8Rng, cpus: u64) -> Vec<Ticks> {
    let count = rng.random_range(1..=6);
    (0..count)
        .map(|_| {
            let period = rng.random_range(2..=16);
            let wcet = rng.random_range(1..=(2 * cpus * period / count).clamp(1, period));
            let deadline = if rng.random() { period } else { rng.random_range(wcet..=period) };
            Ticks { wcet, period, deadline }
        })
        .collect()
}

/// Returns the worst response time of each task in one run on `cpus` CPUs, job by job and tick by
/// tick.
fn run(
    rng: &mut ChaCha8Rng,
    system: &[Ticks],
    cpus: usize,
    by_deadline: bool,
    ticks: u64,
) -> Vec<u64> {
    let mut worst = vec![0; system.len()];
    let together = rng.random_bool(0.3);
    let dense = rng.random_bool(0.7);
    let mut next: Vec<u64> = system
        .iter()
        .map(|task| if together { 0 } else { rng.random_range(0..task.period) })
        .collect();
    // Urgency, task, release, work left. Within a deadline a task has one job at a time.
    let mut jobs: Vec<(u64, usize, u64, u64)> = Vec::new();
    for now in 0..ticks {
        for (at, task) in system.iter().enumerate() {
            if next[at] <= now {
                let urgency = if by_deadline { now + task.deadline } else { at as u64 };
                jobs.push((urgency, at, now, task.wcet));
                next[at] = now + task.period + if dense { 0 } else { rng.random_range(0..4) };
            }
        }
        jobs.sort_unstable();
        let (mut free, mut on_cpu) = (cpus, 0u64);
        for (_, at, release, left) in &mut jobs {
            // The jobs of one task run one after the other.
            if free > 0 && on_cpu & 1 << *at == 0 {
                (free, on_cpu) = (free - 1, on_cpu | 1 << *at);
                *left -= 1;
                if *left == 0 {
                    worst[*at] = worst[*at].max(now + 1 - *release);
                }
            }
        }
        jobs.retain(|&(.., left)| left > 0);
    }
    for (_, at, release, _) in jobs {
        worst[at] = worst[at].max(ticks - release);
    }
    worst
}

type Bounds = Vec<Option<Duration>>;

#[test]
fn fixed_priority_stays_within_its_bounds() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    // By analysis: the number of bounds, and of those reached.
    let mut counts = [(0, 0); 3];
    for round in 0..3_000 {
        let cpus = rng.random_range(1..=3u16);
        let system = draw(&mut rng, u64::from(cpus));
        let tasks = tasks(&system);
        let steps = &mut Steps::default();
        let bounds: [Bounds; 3] = [
            fixed_priority::response_times(&tasks, cpus, steps),
            workload::fixed_priority(&tasks, cpus, Slack::Used, steps),
            workload::fixed_priority(&tasks, cpus, Slack::Ignored, steps),
        ];
        let mut seen = vec![0; system.len()];
        for _ in 0..6 {
            let run = run(&mut rng, &system, usize::from(cpus), false, 200);
            seen.iter_mut().zip(run).for_each(|(seen, run)| *seen = run.max(*seen));
        }
        for (bounds, (proven, reached)) in bounds.iter().zip(&mut counts) {
            for (at, (bound, &seen)) in bounds.iter().zip(&seen).enumerate() {
                let Some(bound) = bound.map(Duration::as_nanos) else { continue };
                assert!(
                    seen <= bound && bound <= system[at].deadline,
                    "round {round}: task {at} took {seen}, bound {bound}: {cpus} CPUs, {system:?}"
                );
                *proven += 1;
                *reached += usize::from(seen == bound);
            }
        }
        // Slack can only help.
        for (used, ignored) in bounds[1].iter().zip(&bounds[2]) {
            assert!(ignored.is_none() || used.is_some_and(|used| Some(used) <= *ignored));
        }
    }
    let [carriers, used, ignored] = counts.map(|(proven, _)| proven);
    assert!(carriers >= used && used > ignored && ignored > 3_000, "{counts:?}");
    assert!(counts.iter().all(|&(proven, reached)| reached > proven / 4), "{counts:?}");
}

/// On one CPU the analyses find the exact response times.
#[test]
fn on_one_cpu_fixed_priority_is_exact() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let mut compared = 0;
    for round in 0..2_000 {
        let system = draw(&mut rng, 1);
        let tasks = tasks(&system);
        let load = CpuLoad::new(&tasks, [], Service::ZERO);
        let exact = punctual_analysis::fixed_priority::response_times(&load, &mut Steps::default());
        let bounds = fixed_priority::response_times(&tasks, 1, &mut Steps::default());
        let in_time = exact.iter().zip(&system).take_while(|(time, task)| {
            time.bound().is_some_and(|bound| bound.as_nanos() <= task.deadline)
        });
        let expected: Bounds = in_time.map(|(time, _)| time.bound()).collect();
        assert_eq!(&bounds[..expected.len()], &expected[..], "round {round}: {system:?}");
        assert!(bounds[expected.len()..].iter().all(Option::is_none), "round {round}: {system:?}");
        compared += expected.len();
    }
    assert!(compared > 2_000, "{compared}");
}

#[test]
fn earliest_deadline_stays_within_its_bounds() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let (mut by_density, mut by_workload, mut missed) = (0, 0, 0);
    for round in 0..4_000 {
        let cpus = rng.random_range(1..=3u16);
        let system = draw(&mut rng, u64::from(cpus));
        let tasks = tasks(&system);
        let dense = density::density(&tasks, cpus);
        let bounds = workload::earliest_deadline(&tasks, cpus, &mut Steps::default());
        by_density += usize::from(dense.admits);
        by_workload += usize::from(bounds.is_some());
        for _ in 0..4 {
            let seen = run(&mut rng, &system, usize::from(cpus), true, 200);
            let late = seen.iter().zip(&system).any(|(&seen, task)| seen > task.deadline);
            missed += usize::from(late);
            assert!(!(late && dense.admits), "round {round}: {cpus} CPUs, {system:?}");
            for (bound, seen) in bounds.iter().flatten().zip(seen) {
                let bound = bound.as_nanos();
                assert!(seen <= bound, "round {round}: {seen} > {bound}: {cpus} CPUs, {system:?}");
            }
        }
    }
    assert!(by_density > 300 && by_workload > 300, "{by_density}, {by_workload}");
    assert!(missed > 300, "some systems are too much: {missed}");
}

/// Nothing outside the assumptions of the analyses is admitted.
#[test]
fn nothing_is_proven_outside_the_assumptions() {
    let quick = || Ticks { wcet: 10, period: 100, deadline: 100 }.spec();
    for odd in [
        TaskSpec { relative_deadline: Duration::from_nanos(101), ..quick() },
        TaskSpec { release_jitter: Duration::from_nanos(1), ..quick() },
        TaskSpec { quantum: Service::from_nanos(1), ..quick() },
    ] {
        let tasks = [Task::new(odd).expect("a valid task")];
        let steps = &mut Steps::default();
        assert!(!density::density(&tasks, 2).admits);
        assert_eq!(fixed_priority::response_times(&tasks, 2, steps), [None]);
        assert_eq!(workload::fixed_priority(&tasks, 2, Slack::Used, steps), [None]);
        assert_eq!(workload::earliest_deadline(&tasks, 2, steps), None);
    }
}
