//! Measures jobs a second in virtual time.
//!
//! There is no other simulator of this kind in Rust to compare with (`simso` has one in Python);
//! the reference is a bare event loop, a heap that pops and pushes as many events (two a job) and
//! does nothing else.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;

use punctual_bench::pairs::{compare, nanos_per_op};
use punctual_bench::systems::System;
use punctual_model::{Duration, Instant};

/// The approximate number of jobs in a run.
const JOBS: f64 = 100_000.0;

fn main() {
    for n in [10, 1_000] {
        let system = System::draw(n, JOBS);
        let jobs = system.completions();
        let found = compare(
            &format!("simulated job, {n} tasks (A) / two events through a bare heap (B)"),
            21,
            || nanos_per_op(jobs, || system.simulate(&mut ())),
            || nanos_per_op(jobs, || _ = black_box(bare_heap(&system, jobs))),
        );
        println!("simulation, {n} tasks: {:.1} million jobs a second", 1e3 / found.a);
    }
}

/// Runs a bare heap, in which each release is followed by its end, and each end by the next
/// release.
fn bare_heap(system: &System, jobs: u64) -> Instant {
    let release = |(phase, task): (&Duration, u32)| (Instant::ZERO + *phase, task, false);
    let mut events: BinaryHeap<_> =
        system.phases.iter().zip(0..).map(release).map(Reverse).collect();
    let mut now = Instant::ZERO;
    for _ in 0..2 * jobs {
        let Some(Reverse((at, task, ends))) = events.pop() else { break };
        now = at;
        let contract = &system.tasks[task as usize];
        let busy = contract.wcet().at_full_speed();
        let gap = if ends { contract.min_inter_arrival() - busy } else { busy };
        events.push(Reverse((at + gap, task, !ends)));
    }
    now
}
