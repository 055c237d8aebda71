//! Decides whether a system fits under earliest deadline first, and how long each task can take.
//!
//! At 1,000 tasks the reference is the exact test of the same system under fixed priorities. The
//! crate `response-time-analysis` has no test of feasibility; its response times answer the same
//! question, and are compared with Punctual's at sizes that it finishes. Both must give the same
//! bounds.

use std::hint::black_box;

use punctual_analysis::edf::demand::{DemandVerdict, processor_demand};
use punctual_analysis::edf::response_time::response_times;
use punctual_analysis::fixed_priority::all_in_time;
use punctual_analysis::{CpuLoad, Granularity, Steps};
use punctual_bench::pairs::{compare, nanos_per_op};
use punctual_bench::systems::{self, Deadlines};
use punctual_model::{Duration, Service, Task};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use response_time_analysis::arrival::Periodic;
use response_time_analysis::demand::RBF;
use response_time_analysis::edf::fully_preemptive::{self, dedicated_uniproc_rta};
use response_time_analysis::{time, wcet::Scalar};

/// Periods from 10 ms to 1 s.
const SHORTEST: f64 = 1e7;

fn main() {
    let four_fifths = Deadlines::OfPeriod(0.8);
    feasibility("D = 0.8 T", 0.7, four_fifths);
    feasibility("D = 0.5–1 T", 0.9, Deadlines::Between(0.5, 1.0));
    feasibility("D = 0.1–0.5 T", 0.7, Deadlines::Between(0.1, 0.5));
    feasibility("D = T", 0.999, Deadlines::OfPeriod(1.0));
    for (n, count, pairs) in [(10, 20, 11), (50, 1, 5)] {
        against_peer(n, count, pairs, four_fifths);
    }
}

fn feasibility(what: &str, utilisation: f64, deadlines: Deadlines) {
    const TASKS: u32 = 1_000;
    const SYSTEMS: u64 = 40;
    let loads: Vec<CpuLoad> = drawn(TASKS, SYSTEMS, utilisation, deadlines)
        .iter()
        .map(|tasks| CpuLoad::new(tasks, [], Service::ZERO))
        .collect();
    let fits = |load: &CpuLoad| processor_demand(load, &mut Steps::default());
    let fitting = loads.iter().filter(|load| fits(load) == DemandVerdict::Fits).count();
    let found = compare(
        &format!(
            "feasibility of {TASKS} tasks, {what}, utilisation {utilisation}, {fitting} of \
             {SYSTEMS} fit, edf (A) / fixed priority (B)"
        ),
        11,
        || nanos_per_op(SYSTEMS, || loads.iter().for_each(|load| _ = black_box(fits(load)))),
        || {
            nanos_per_op(SYSTEMS, || {
                let all = |load| all_in_time(load, &mut Steps::default());
                loads.iter().for_each(|load| _ = black_box(all(load)));
            })
        },
    );
    println!("edf, {TASKS} tasks, {what}: {:.0} systems a second", 1e9 / found.a);
}

fn against_peer(n: u32, count: u64, pairs: usize, deadlines: Deadlines) {
    let drawn = drawn(n, count, 0.7, deadlines);
    let ours: Vec<CpuLoad> =
        drawn.iter().map(|tasks| CpuLoad::new(tasks, [], Service::ZERO)).collect();
    for (ours, tasks) in ours.iter().zip(&drawn) {
        let (bounds, peers) = (our_bounds(ours), their_bounds(tasks));
        assert_eq!(bounds, peers);
        let in_time = |(task, bound): (&Task, &u64)| *bound <= task.relative_deadline().as_nanos();
        let fits = processor_demand(ours, &mut Steps::default()) == DemandVerdict::Fits;
        assert_eq!(fits, tasks.iter().zip(&peers).all(in_time));
    }
    compare(
        &format!("edf response times of {n} tasks, ours (A) / response-time-analysis (B)"),
        pairs,
        || nanos_per_op(count, || ours.iter().for_each(|s| _ = black_box(our_bounds(s)))),
        || nanos_per_op(count, || drawn.iter().for_each(|s| _ = black_box(their_bounds(s)))),
    );
    compare(
        &format!("edf feasibility of {n} tasks, ours (A) / response-time-analysis (B)"),
        pairs,
        || {
            nanos_per_op(count * 100, || {
                for load in (0..100).flat_map(|_| &ours) {
                    black_box(processor_demand(load, &mut Steps::default()));
                }
            })
        },
        || nanos_per_op(count, || drawn.iter().for_each(|s| _ = black_box(their_bounds(s)))),
    );
}

fn drawn(n: u32, count: u64, utilisation: f64, deadlines: Deadlines) -> Vec<Vec<Task>> {
    let mut rng = ChaCha8Rng::seed_from_u64(u64::from(n));
    (0..count).map(|_| systems::draw_with(&mut rng, n, utilisation, SHORTEST, deadlines)).collect()
}

fn our_bounds(load: &CpuLoad) -> Vec<u64> {
    response_times(load, Granularity::Continuous, &mut Steps::default())
        .into_iter()
        .map(|time| time.bound().expect("a utilisation below one has a bound").as_nanos())
        .collect()
}

fn their_bounds(tasks: &[Task]) -> Vec<u64> {
    // The end of a search that does not converge; none here comes near.
    let limit = time::Duration::from(Duration::from_secs(3600).as_nanos());
    let curves: Vec<RBF<Periodic, Scalar>> = tasks.iter().map(curve).collect();
    let theirs = |at: usize| fully_preemptive::Task {
        rbf: &curves[at],
        deadline: time::Duration::from(tasks[at].relative_deadline().as_nanos()),
    };
    (0..tasks.len())
        .map(|at| {
            let others: Vec<_> = (0..tasks.len()).filter(|&it| it != at).map(theirs).collect();
            dedicated_uniproc_rta(&theirs(at), &others, limit).expect("below the limit")
        })
        .map(u64::from)
        .collect()
}

fn curve(task: &Task) -> RBF<Periodic, Scalar> {
    let period = time::Duration::from(task.min_inter_arrival().as_nanos());
    RBF::new(Periodic::new(period), Scalar::new(time::Service::from(task.wcet().as_nanos())))
}
