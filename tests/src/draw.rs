//! Random systems on one CPU.

use punctual_model::contract::NamedReservation;
use punctual_model::{
    Contract, Duration, HostProfile, Policy, Reservation, Service, Task, TaskSpec,
};
use rand::{Rng, RngExt};

/// The policies for one CPU, all but EDF with virtual deadlines, whose tasks have two
/// criticalities.
pub const POLICIES: [Policy; 5] = [Policy::Rmdp, Policy::Rm, Policy::Fp, Policy::Edf, Policy::Fifo];

/// The properties of a random set of tasks.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The least and greatest target utilisation, before rounding.
    pub total: (f64, f64),
    /// The greatest ratio of the longest to the shortest period.
    pub spread: f64,
    /// The latest deadline in periods, where deadlines are not at the end of the period.
    pub latest_deadline: u64,
}

impl Kind {
    /// Periods over two decades, deadlines up to two periods, utilisation up to 1.
    pub const ANY: Self = Self { total: (0.1, 1.0), spread: 100.0, latest_deadline: 2 };

    /// A set that may be admitted first in, first out, where one long job delays all tasks.
    pub const FIFO: Self = Self { total: (0.1, 0.8), spread: 4.0, latest_deadline: 2 };
}

/// Draws a random set of 1 to 8 tasks: deadlines before and after the period, jitter, quanta, last
/// segments and jobs that are never preempted, or none of each.
pub fn tasks(rng: &mut impl Rng, kind: Kind) -> Vec<Task> {
    let count = rng.random_range(1..=8);
    let total: f64 = rng.random_range(kind.total.0..kind.total.1);
    let shares: Vec<f64> = (0..count).map(|_| rng.random_range(0.05..1.0)).collect();
    let sum: f64 = shares.iter().sum();
    let with_quanta = rng.random_bool(0.6);
    let with_last_segments = rng.random_bool(0.4);
    let with_whole_jobs = rng.random_bool(0.2);
    let with_jitter = rng.random_bool(0.4);
    let with_deadlines = rng.random_bool(0.5);
    shares
        .iter()
        .enumerate()
        .map(|(i, share)| {
            // From 1 ms on, uniform over the logarithm.
            let period = (1000.0 * kind.spread.powf(rng.random_range(0.0..1.0))).round() as u64;
            let wcet = ((total * share / sum * period as f64) as u64).clamp(1, period);
            let deadline = match rng.random_range(0..8) {
                _ if !with_deadlines => period,
                // Rarely admitted, but any such set that is admitted is at the edge.
                0 => rng.random_range(wcet..=period),
                _ => rng.random_range(period.div_ceil(2).max(wcet)..=period * kind.latest_deadline),
            };
            let jitter = if with_jitter { rng.random_range(0..=deadline / 4) } else { 0 };
            let quantum = if with_quanta { rng.random_range(0..=wcet) } else { 0 };
            let last = if with_last_segments { rng.random_range(0..=quantum) } else { 0 };
            let spec = TaskSpec {
                name: format!("t{i}"),
                min_inter_arrival: Duration::from_micros(period),
                relative_deadline: Duration::from_micros(deadline),
                release_jitter: Duration::from_micros(jitter.min(deadline - 1)),
                wcet: Service::from_micros(wcet),
                wcet_high: None,
                quantum: Service::from_micros(quantum),
                last_segment: Service::from_micros(last),
            };
            let whole = with_whole_jobs && rng.random_bool(0.4);
            Task::new(if whole { spec.non_preemptive() } else { spec })
                .expect("drawn within the rules")
        })
        .collect()
}

/// Draws a random contract for one CPU under any policy, with reservations above the tasks or none,
/// and a host for it, whose switches cost something or nothing.
pub fn system(rng: &mut impl Rng) -> (Contract, HostProfile) {
    let policy = POLICIES[rng.random_range(0..POLICIES.len())];
    let kind = if policy == Policy::Fifo { Kind::FIFO } else { Kind::ANY };
    let tasks = tasks(rng, kind);
    let reservations = if rng.random_bool(0.3) { reservations(rng) } else { Vec::new() };
    let switch = if rng.random_bool(0.3) { rng.random_range(1..=20) } else { 0 };
    let host = HostProfile {
        context_switch: Service::from_micros(switch),
        wake_up: wake_up(rng),
        ..HostProfile::ideal(1)
    };
    (Contract { reservations, ..Contract::of_tasks(policy, 1, tasks) }, host)
}

/// Draws a random contract for two to four CPUs, with up to eight tasks for each, and a host for
/// it.
pub fn several(rng: &mut impl Rng) -> (Contract, HostProfile) {
    let policy = POLICIES[rng.random_range(0..POLICIES.len())];
    let kind = if policy == Policy::Fifo { Kind::FIFO } else { Kind::ANY };
    let cpus = rng.random_range(2..=4);
    let named = |(at, task): (usize, Task)| {
        let spec = TaskSpec { name: format!("t{at}"), ..task.spec().clone() };
        Task::new(spec).expect("as valid as before")
    };
    let of_each: Vec<Task> = (0..cpus).flat_map(|_| tasks(rng, kind)).collect();
    let switch = if rng.random_bool(0.3) { rng.random_range(1..=20) } else { 0 };
    let host = HostProfile {
        context_switch: Service::from_micros(switch),
        wake_up: wake_up(rng),
        ..HostProfile::ideal(cpus)
    };
    (Contract::of_tasks(policy, cpus, of_each.into_iter().enumerate().map(named).collect()), host)
}

/// Draws the cost of a wake-up: nothing, or up to half a millisecond.
pub fn wake_up(rng: &mut impl Rng) -> Service {
    let micros = if rng.random_bool(0.3) { rng.random_range(1..=500) } else { 0 };
    Service::from_micros(micros)
}

fn reservations(rng: &mut impl Rng) -> Vec<NamedReservation> {
    (0..rng.random_range(1..=2))
        .map(|i| {
            let period = rng.random_range(1_000..=20_000u64);
            let budget = rng.random_range(period / 50..=period / 5);
            let reservation =
                Reservation::new(Service::from_micros(budget), Duration::from_micros(period));
            let reservation = reservation.expect("a positive budget within its period");
            NamedReservation { name: format!("r{i}"), reservation }
        })
        .collect()
}
