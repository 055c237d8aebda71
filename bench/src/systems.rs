//! Random task systems, preemptible anywhere.

use punctual_model::{Duration, Instant, Service, Task, TaskSpec};
use punctual_policy::jobs::Jobs;
use punctual_sim::arrivals::Periodic;
use punctual_sim::tasks;
use punctual_trace::{Event, Kind, Sink};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The deadlines, in periods.
#[derive(Clone, Copy, Debug)]
pub enum Deadlines {
    /// All at this part of the period.
    OfPeriod(f64),
    /// Uniformly distributed between two parts of the period.
    Between(f64, f64),
}

/// Draws `n` tasks, the shortest period first, that need `utilisation` of a CPU together, each with
/// its deadline at the end of the period, and periods from 1 ms to 1 s.
pub fn draw(rng: &mut ChaCha8Rng, n: u32, utilisation: f64) -> Vec<Task> {
    draw_with(rng, n, utilisation, 1e6, Deadlines::OfPeriod(1.0))
}

/// Draws like [`draw`], with periods from `shortest` nanoseconds to 1 s and these deadlines, cut to
/// the wcet.
///
/// Utilisations are drawn uniformly among all with that sum (UUniFast; Bini & Buttazzo, 2005),
/// periods log-uniformly, so that each order of magnitude is equally likely.
pub fn draw_with(
    rng: &mut ChaCha8Rng,
    n: u32,
    utilisation: f64,
    shortest: f64,
    deadlines: Deadlines,
) -> Vec<Task> {
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
            let period = shortest * (1e9 / shortest).powf(rng.random());
            let wcet = (share * period).max(1.0) as u64;
            let part = match deadlines {
                Deadlines::OfPeriod(part) => part,
                Deadlines::Between(from, to) => rng.random_range(from..to),
            };
            let deadline = ((period * part) as u64).max(wcet);
            Task::new(TaskSpec {
                relative_deadline: Duration::from_nanos(deadline),
                ..TaskSpec::periodic(
                    "drawn",
                    Duration::from_nanos(period as u64),
                    Service::from_nanos(wcet),
                )
            })
            .expect("a positive wcet below the deadline")
        })
        .collect();
    tasks.sort_by_key(Task::min_inter_arrival);
    tasks
}

/// A system to simulate, and the end of the run.
pub struct System {
    /// The tasks in rank order.
    pub tasks: Vec<Task>,
    /// The first release of each.
    pub phases: Vec<Duration>,
    /// The end of the run.
    pub until: Instant,
}

impl System {
    /// Draws `n` tasks at a utilisation of 0.7, for as long as about `jobs` releases take.
    pub fn draw(n: u32, jobs: f64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(u64::from(n));
        let tasks = draw(&mut rng, n, 0.7);
        let phase = |task: &Task| rng.random_range(0..task.min_inter_arrival().as_nanos());
        let phases = tasks.iter().map(phase).map(Duration::from_nanos).collect();
        let rate = |task: &Task| 1.0 / task.min_inter_arrival().as_nanos() as f64;
        let jobs_per_nanosecond: f64 = tasks.iter().map(rate).sum();
        let until = Instant::from_nanos((jobs / jobs_per_nanosecond) as u64);
        Self { tasks, phases, until }
    }

    /// Runs it under rate-monotonic priorities.
    pub fn simulate(&self, sink: &mut impl Sink) {
        let order: Vec<u32> = (0..self.tasks.len() as u32).collect();
        let mut arrivals = Periodic::new(&self.tasks, &self.phases);
        tasks::run(&self.tasks, Jobs::fixed_priority(&order), &mut arrivals, self.until, sink);
    }

    /// Returns the number of jobs that such a run completes.
    pub fn completions(&self) -> u64 {
        let mut count = Completions(0);
        self.simulate(&mut count);
        count.0
    }
}

struct Completions(u64);

impl Sink for Completions {
    fn record(&mut self, event: Event) {
        self.0 += u64::from(event.kind == Kind::Complete);
    }
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

    #[test]
    fn periods_and_deadlines_are_where_they_were_asked_for() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let drawn = draw_with(&mut rng, 1000, 0.7, 1e7, Deadlines::Between(0.5, 0.8));
        let part = |task: &Task| {
            task.relative_deadline().as_secs_f64() / task.min_inter_arrival().as_secs_f64()
        };
        assert!(drawn.iter().all(|task| (0.49..0.81).contains(&part(task))));
        assert!(drawn[0].min_inter_arrival() >= Duration::from_millis(10));
        assert!(drawn[0].min_inter_arrival() < Duration::from_millis(11));
    }
}
