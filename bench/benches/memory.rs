//! Measures the peak heap for each task at three sizes: the ratio of the largest to the smallest
//! shows whether memory is linear in the tasks.

use peak_alloc::PeakAlloc;
use punctual_analysis::admit;
use punctual_bench::systems::{self, System};
use punctual_model::{Contract, HostProfile, Policy};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

fn main() {
    let simulation = [1_000, 10_000, 100_000].map(|n| {
        let system = System::draw(n, 100_000.0);
        per_task(n, || system.simulate(&mut ()))
    });
    print("simulation without a trace", simulation);
    for policy in [Policy::Rm, Policy::Edf] {
        let admission = [1_000, 3_000, 10_000].map(|n| {
            let tasks = systems::draw(&mut ChaCha8Rng::seed_from_u64(u64::from(n)), n, 0.7);
            let contract = Contract::of_tasks(policy, 1, tasks);
            per_task(n, || assert!(admit(&contract, &HostProfile::ideal(1)).is_ok()))
        });
        print(&format!("admission under {}", policy.name()), admission);
    }
}

/// Returns the peak bytes a task that `work` uses in addition to the memory in use before.
fn per_task(n: u32, work: impl FnOnce()) -> (u32, f64) {
    let before = HEAP.current_usage();
    HEAP.reset_peak_usage();
    work();
    (n, (HEAP.peak_usage() - before) as f64 / f64::from(n))
}

fn print(what: &str, found: [(u32, f64); 3]) {
    let all = found.map(|(n, bytes)| format!("{bytes:.0} with {n}")).join(", ");
    let ratio = found[2].1 / found[0].1;
    println!("{what}: bytes of heap a task: {all}; last (A) / first (B) {ratio:.3}");
}
