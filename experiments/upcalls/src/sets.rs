//! Draws random sets of upcalls and tasks.

use punctual_analysis::CpuLoad;
use punctual_model::{Duration, Service, Task, TaskSpec};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Draws `n` utilisations with the sum `total`, uniformly among all such (UUniFast: Bini &
/// Buttazzo, Real-Time Systems 30, 2005).
pub(crate) fn shares(rng: &mut ChaCha8Rng, n: u32, total: f64) -> Vec<f64> {
    let mut left = total;
    let mut shares = Vec::new();
    for others in (0..n).rev() {
        let after = match others {
            0 => 0.0,
            _ => left * rng.random::<f64>().powf(1.0 / f64::from(others)),
        };
        shares.push(left - after);
        left = after;
    }
    shares
}

/// A set of upcalls before the amount of work is fixed.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    upcalls: Vec<Upcall>,
}

#[derive(Clone, Copy, Debug)]
struct Upcall {
    period: Duration,
    /// Its share of all work.
    share: f64,
    batch: u64,
    quantum: u64,
}

impl Shape {
    /// Draws from 2 to 12 upcalls: periods log-uniform from 10 to 100 ms in whole microseconds,
    /// batches of 1 to 16 PDUs, quanta of 1 PDU to a whole batch, shares by UUniFast.
    pub(crate) fn draw(rng: &mut ChaCha8Rng) -> Self {
        let n = rng.random_range(2..=12);
        Self::draw_of(rng, n)
    }

    pub(crate) fn draw_of(rng: &mut ChaCha8Rng, n: u32) -> Self {
        let upcalls = shares(rng, n, 1.0)
            .into_iter()
            .map(|share| {
                let batch = rng.random_range(1..=16);
                Upcall {
                    period: period(rng, 10_000.0, 10.0),
                    share,
                    batch,
                    quantum: rng.random_range(1..=batch),
                }
            })
            .collect();
        Self { upcalls }
    }

    /// Returns the set as tasks at this utilisation, the shortest period first.
    pub(crate) fn at(&self, utilisation: f64) -> Vec<Task> {
        let mut upcalls = self.upcalls.clone();
        upcalls.sort_by_key(|upcall| upcall.period);
        let task = |upcall: &Upcall| {
            let work = upcall.share * utilisation * upcall.period.as_nanos() as f64;
            let a_pdu = ((work / upcall.batch as f64) as u64).max(1);
            let wcet = Service::from_nanos(a_pdu * upcall.batch);
            Task::new(TaskSpec {
                quantum: Service::from_nanos(a_pdu * upcall.quantum),
                ..TaskSpec::periodic("u", upcall.period, wcet)
            })
            .expect("a batch within its period")
        };
        upcalls.iter().map(task).collect()
    }
}

/// Draws a period log-uniformly from `[shortest, shortest·spread)` microseconds, in whole
/// microseconds.
pub(crate) fn period(rng: &mut ChaCha8Rng, shortest: f64, spread: f64) -> Duration {
    Duration::from_micros((shortest * spread.powf(rng.random())) as u64)
}

/// Returns the load of one CPU with free switches.
pub(crate) fn load(tasks: &[Task]) -> CpuLoad {
    CpuLoad::new(tasks, [], Service::ZERO)
}
