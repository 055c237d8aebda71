//! Exact response times under fixed priorities, against the crate `response-time-analysis`, whose
//! analyses are instances of theorems proven in Coq. Both must give the same bounds.

use std::hint::black_box;

use punctual_analysis::fixed_priority::response_times;
use punctual_analysis::{CpuLoad, Steps};
use punctual_bench::pairs::{compare, nanos_per_op};
use punctual_bench::systems;
use punctual_model::{Duration, Service, Task};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use response_time_analysis::arrival::Periodic;
use response_time_analysis::demand::RBF;
use response_time_analysis::fixed_priority::fully_preemptive::dedicated_uniproc_rta;
use response_time_analysis::{time, wcet::Scalar};

fn main() {
    for (n, count, pairs) in [(10, 500, 21), (100, 20, 21), (1_000, 2, 11)] {
        let mut rng = ChaCha8Rng::seed_from_u64(u64::from(n));
        let drawn: Vec<Vec<Task>> = (0..count).map(|_| systems::draw(&mut rng, n, 0.7)).collect();
        let ours: Vec<CpuLoad> =
            drawn.iter().map(|tasks| CpuLoad::new(tasks, [], Service::ZERO)).collect();
        let theirs: Vec<Vec<Curve>> =
            drawn.iter().map(|tasks| tasks.iter().map(curve).collect()).collect();
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(our_bounds(ours), their_bounds(theirs));
        }
        let systems = count as u64;
        compare(
            &format!("response times of {n} tasks, ours (A) / response-time-analysis (B)"),
            pairs,
            || nanos_per_op(systems, || ours.iter().for_each(|s| _ = black_box(our_bounds(s)))),
            || nanos_per_op(systems, || theirs.iter().for_each(|s| _ = black_box(their_bounds(s)))),
        );
    }
}

type Curve = RBF<Periodic, Scalar>;

fn curve(task: &Task) -> Curve {
    let period = time::Duration::from(task.min_inter_arrival().as_nanos());
    RBF::new(Periodic::new(period), Scalar::new(time::Service::from(task.wcet().as_nanos())))
}

fn our_bounds(load: &CpuLoad) -> Vec<u64> {
    response_times(load, &mut Steps::default())
        .into_iter()
        .map(|time| time.bound().expect("a utilisation below one has a bound").as_nanos())
        .collect()
}

fn their_bounds(curves: &[Curve]) -> Vec<u64> {
    // The end of a search that does not converge; none here comes near.
    let limit = time::Duration::from(Duration::from_secs(3600).as_nanos());
    (0..curves.len())
        .map(|i| dedicated_uniproc_rta(&curves[i], &curves[..i], limit).expect("below the limit"))
        .map(u64::from)
        .collect()
}
