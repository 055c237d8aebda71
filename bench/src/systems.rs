//! Random task systems: implicit deadlines, preemptible anywhere.

use punctual_model::{Duration, Service, Task, TaskSpec};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// `n` tasks, the shortest period first, that need `utilisation` of a CPU together.
///
/// Utilisations are drawn evenly among all that have that sum (UUniFast; Bini & Buttazzo, 2005),
/// periods log-uniformly from 1 ms to 1 s, so that each order of magnitude is as likely.
pub fn draw(rng: &mut ChaCha8Rng, n: u32, utilisation: f64) -> Vec<Task> {
    let mut left = utilisation;
    let mut tasks: Vec<Task> = (0..n)
        .map(|i| {
            let others = n - 1 - i;
            let after = match others {
                0 => 0.0,
                _ => left * rng.random::<f64>().powf(1.0 / f64::from(others)),
            };
            let share = left - after;
            left = after;
            let period = 1e6 * 1000f64.powf(rng.random());
            let wcet = (share * period).max(1.0);
            Task::new(TaskSpec::periodic(
                "drawn",
                Duration::from_nanos(period as u64),
                Service::from_nanos(wcet as u64),
            ))
            .expect("a positive wcet below the period")
        })
        .collect();
    tasks.sort_by_key(Task::min_inter_arrival);
    tasks
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn the_utilisation_is_what_was_asked_for() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for n in [1, 10, 1000] {
            let tasks = draw(&mut rng, n, 0.7);
            assert_eq!(tasks.len(), n as usize);
            let sum: f64 = tasks.iter().map(Task::utilisation).sum();
            // Each wcet is rounded to a nanosecond of a period of at least 1 ms.
            assert!((sum - 0.7).abs() < 1e-6 * f64::from(n), "{sum}");
        }
    }
}
