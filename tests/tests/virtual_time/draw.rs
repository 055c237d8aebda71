//! Draws random tasks, feasible ones and overloads.

use punctual_model::{Duration, Service, Task, TaskSpec};
use rand::{Rng, RngExt};

/// Draws 1 to 8 tasks that use between `total.0` and `total.1` of a processor, all lengths whole
/// microseconds: periods from 1 ms, the longest up to `spread` times as long; deadlines before and
/// after the period, jitter, quanta and last segments, or none of each.
pub(crate) fn tasks(rng: &mut impl Rng, total: (f64, f64), spread: f64) -> Vec<Task> {
    let count = rng.random_range(1..=8);
    let total: f64 = rng.random_range(total.0..total.1);
    let shares: Vec<f64> = (0..count).map(|_| rng.random_range(0.05..1.0)).collect();
    let sum: f64 = shares.iter().sum();
    let with = [0.6, 0.4, 0.4, 0.5].map(|often| rng.random_bool(often));
    let task = |share: &f64| {
        let period = (1000.0 * spread.powf(rng.random_range(0.0..1.0))).round() as u64;
        let wcet = ((total * share / sum * period as f64) as u64).clamp(1, period);
        let mut up_to = |yes: bool, most: u64| if yes { rng.random_range(0..=most) } else { 0 };
        let deadline = if with[3] { wcet + up_to(true, 2 * period - wcet) } else { period };
        let quantum = up_to(with[0], wcet);
        Task::new(TaskSpec {
            relative_deadline: Duration::from_micros(deadline),
            release_jitter: Duration::from_micros(up_to(with[1], deadline / 2).min(deadline - 1)),
            quantum: Service::from_micros(quantum),
            last_segment: Service::from_micros(up_to(with[2], quantum)),
            ..TaskSpec::periodic("t", Duration::from_micros(period), Service::from_micros(wcet))
        })
        .expect("drawn within the rules")
    };
    shares.iter().map(task).collect()
}
