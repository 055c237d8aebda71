//! What the system tests share: random systems.
//!
//! The tests themselves are in `tests/`; they are here and not in a crate below because they hold
//! crates that may not know each other against one another.

use punctual_model::{Duration, Service, Task, TaskSpec};
use rand::{Rng, RngExt};

/// A random set of 1 to 8 tasks: periods over two decades, deadlines before and after the period,
/// jitter and quanta or none, total utilisation up to 1.1 before rounding.
pub fn draw_tasks(rng: &mut impl Rng) -> Vec<Task> {
    let count = rng.random_range(1..=8);
    let total: f64 = rng.random_range(0.2..1.1);
    let shares: Vec<f64> = (0..count).map(|_| rng.random_range(0.05..1.0)).collect();
    let sum: f64 = shares.iter().sum();
    let with_quanta = rng.random_bool(0.6);
    let with_jitter = rng.random_bool(0.4);
    let with_deadlines = rng.random_bool(0.5);
    shares
        .iter()
        .enumerate()
        .map(|(i, share)| {
            // From 1 ms to 100 ms, evenly over the decades.
            let period_us = (1000.0 * 100f64.powf(rng.random_range(0.0..1.0))).round() as u64;
            let wcet_us = ((total * share / sum * period_us as f64) as u64).clamp(1, period_us);
            let deadline_us =
                if with_deadlines { rng.random_range(wcet_us..=period_us * 2) } else { period_us };
            let jitter_us = if with_jitter { rng.random_range(0..deadline_us / 2 + 1) } else { 0 };
            let quantum_us = if with_quanta { rng.random_range(0..=wcet_us) } else { 0 };
            Task::new(TaskSpec {
                name: format!("t{i}"),
                min_inter_arrival: Duration::from_micros(period_us),
                relative_deadline: Duration::from_micros(deadline_us),
                release_jitter: Duration::from_micros(jitter_us.min(deadline_us - 1)),
                wcet: Service::from_micros(wcet_us),
                quantum: Service::from_micros(quantum_us),
                last_segment: Service::ZERO,
            })
            .expect("drawn within the rules")
        })
        .collect()
}
