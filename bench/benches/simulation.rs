//! Jobs a second in virtual time.
//!
//! There is no other simulator of this kind in Rust to hold against; the measure is a bare event
//! loop, a heap that takes and gives as many events (two a job) and does nothing else.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;

use punctual_bench::pairs::{compare, nanos_per_op};
use punctual_bench::systems;
use punctual_model::{Duration, Instant, Task};
use punctual_policy::jobs::Jobs;
use punctual_sim::arrivals::Periodic;
use punctual_sim::tasks;
use punctual_trace::{Event, Kind, Sink};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// About so many jobs a run.
const JOBS: f64 = 100_000.0;

fn main() {
    for n in [10, 1_000] {
        let system = System::draw(n);
        let mut count = Completions(0);
        system.simulate(&mut count);
        let Completions(jobs) = count;
        let found = compare(
            &format!("simulated job, {n} tasks (A) / two events through a bare heap (B)"),
            21,
            || nanos_per_op(jobs, || system.simulate(&mut ())),
            || nanos_per_op(jobs, || _ = black_box(system.bare_heap(jobs))),
        );
        println!("simulation, {n} tasks: {:.1} million jobs a second", 1e3 / found.a);
    }
}

struct System {
    /// In rank order.
    tasks: Vec<Task>,
    phases: Vec<Duration>,
    until: Instant,
}

impl System {
    fn draw(n: u32) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(u64::from(n));
        let tasks = systems::draw(&mut rng, n, 0.7);
        let phase = |task: &Task| rng.random_range(0..task.min_inter_arrival().as_nanos());
        let phases = tasks.iter().map(phase).map(Duration::from_nanos).collect();
        let rate = |task: &Task| 1.0 / task.min_inter_arrival().as_nanos() as f64;
        let jobs_per_nanosecond: f64 = tasks.iter().map(rate).sum();
        let until = Instant::from_nanos((JOBS / jobs_per_nanosecond) as u64);
        Self { tasks, phases, until }
    }

    fn simulate(&self, sink: &mut impl Sink) {
        let order: Vec<u32> = (0..self.tasks.len() as u32).collect();
        let mut arrivals = Periodic::new(&self.tasks, &self.phases);
        tasks::run(&self.tasks, Jobs::fixed_priority(&order), &mut arrivals, self.until, sink);
    }

    /// Each release is followed by its end, and each end by the next release.
    fn bare_heap(&self, jobs: u64) -> Instant {
        let release = |(phase, task): (&Duration, u32)| (Instant::ZERO + *phase, task, false);
        let mut events: BinaryHeap<_> =
            self.phases.iter().zip(0..).map(release).map(Reverse).collect();
        let mut now = Instant::ZERO;
        for _ in 0..2 * jobs {
            let Some(Reverse((at, task, ends))) = events.pop() else { break };
            now = at;
            let contract = &self.tasks[task as usize];
            let busy = contract.wcet().at_full_speed();
            let gap = if ends { contract.min_inter_arrival() - busy } else { busy };
            events.push(Reverse((at + gap, task, !ends)));
        }
        now
    }
}

struct Completions(u64);

impl Sink for Completions {
    fn record(&mut self, event: Event) {
        self.0 += u64::from(event.kind == Kind::Complete);
    }
}
