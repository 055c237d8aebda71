//! Systems for the tests: published ones by hand, random ones from a seed.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

use punctual_analysis::fixed_priority::{ResponseTime, response_times};
use punctual_analysis::{CpuLoad, Steps};
use punctual_model::contract::NamedReservation;
use punctual_model::{Contract, Duration, Policy, Reservation, Service, Task, TaskSpec};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Nanoseconds in one tick of a test: the kernel accepts a reservation of every tick.
pub const TICK: u64 = 100_000;

/// A task in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    pub wcet: u64,
    pub period: u64,
    pub deadline: u64,
    pub jitter: u64,
    pub quantum: u64,
}

impl Ticks {
    /// Creates a task with its deadline at the end of the period, without jitter or quanta.
    pub fn plain(wcet: u64, period: u64) -> Self {
        Self { wcet, period, deadline: period, jitter: 0, quantum: 0 }
    }

    pub fn task(self, name: &str) -> Task {
        Task::new(TaskSpec {
            name: name.into(),
            min_inter_arrival: Duration::from_nanos(self.period * TICK),
            relative_deadline: Duration::from_nanos(self.deadline * TICK),
            release_jitter: Duration::from_nanos(self.jitter * TICK),
            wcet: Service::from_nanos(self.wcet * TICK),
            wcet_high: None,
            quantum: Service::from_nanos(self.quantum * TICK),
            last_segment: Service::ZERO,
        })
        .expect("a valid task")
    }
}

pub fn plain(tasks: &[(u64, u64)]) -> Vec<Ticks> {
    tasks.iter().map(|&(wcet, period)| Ticks::plain(wcet, period)).collect()
}

pub fn tasks(system: &[Ticks]) -> Vec<Task> {
    system.iter().enumerate().map(|(at, ticks)| ticks.task(&format!("t{at}"))).collect()
}

pub fn load(system: &[Ticks]) -> CpuLoad {
    CpuLoad::new(&tasks(system), [], Service::ZERO)
}

pub fn reservation(budget: u64, period: u64) -> Reservation {
    Reservation::new(Service::from_nanos(budget * TICK), Duration::from_nanos(period * TICK))
        .expect("a valid reservation")
}

pub fn contract(policy: Policy, cpus: u16, system: &[Ticks], reserved: &[(u64, u64)]) -> Contract {
    let named = |(at, &(budget, period)): (usize, &(u64, u64))| NamedReservation {
        name: format!("r{at}"),
        reservation: reservation(budget, period),
    };
    Contract {
        reservations: reserved.iter().enumerate().map(named).collect(),
        ..Contract::of_tasks(policy, cpus, tasks(system))
    }
}

/// Returns response times in ticks, or `None` without a finite bound. Nothing may be undecided.
pub fn in_ticks(times: &[ResponseTime]) -> Vec<Option<u64>> {
    times
        .iter()
        .map(|time| match time {
            ResponseTime::AtMost(bound) => {
                assert_eq!(bound.as_nanos() % TICK, 0);
                Some(bound.as_nanos() / TICK)
            }
            ResponseTime::Unbounded => None,
            ResponseTime::Undecided { .. } => panic!("undecided: {times:?}"),
        })
        .collect()
}

/// Returns the response times in the default model of fixed priorities.
pub fn response_ticks(load: &CpuLoad) -> Vec<Option<u64>> {
    in_ticks(&response_times(load, &mut Steps::default()))
}

pub fn utilisation(system: &[Ticks]) -> f64 {
    system.iter().map(|task| task.wcet as f64 / task.period as f64).sum()
}

pub fn hyperperiod(system: &[Ticks]) -> u64 {
    fn gcd(a: u64, b: u64) -> u64 {
        if b == 0 { a } else { gcd(b, a % b) }
    }
    system.iter().fold(1, |so_far, task| so_far / gcd(so_far, task.period) * task.period)
}

/// The features of a random system.
#[derive(Clone, Copy)]
pub struct Draw {
    pub tasks: usize,
    pub longest: u64,
    pub jitter: bool,
    pub quanta: bool,
    /// Whether deadlines are anywhere from the wcet to three periods, instead of at the end of the
    /// period.
    pub any_deadline: bool,
}

pub fn draw(rng: &mut ChaCha8Rng, how: Draw) -> Vec<Ticks> {
    let count = rng.random_range(1..=how.tasks);
    (0..count)
        .map(|_| {
            let period = rng.random_range(2..=how.longest);
            let wcet = rng.random_range(1..=(2 * period / count as u64).clamp(1, period));
            let deadline =
                if how.any_deadline { rng.random_range(wcet..=3 * period) } else { period };
            let jitter = if how.jitter && rng.random() { rng.random_range(0..deadline) } else { 0 };
            let quantum = if how.quanta && rng.random() { rng.random_range(0..=wcet) } else { 0 };
            Ticks { wcet, period, deadline, jitter, quantum }
        })
        .collect()
}
