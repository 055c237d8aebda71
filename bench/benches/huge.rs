//! Measures a verdict for 10,000 tasks at a utilisation of 0.999, whose hyperperiod fits in no
//! integer here, against the same question about 1,000 tasks. The bound on steps ends it, if
//! nothing else.

use std::hint::black_box;

use punctual_analysis::admit;
use punctual_bench::pairs::{compare, nanos_per_op};
use punctual_bench::systems;
use punctual_model::{Contract, HostProfile, Policy};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

fn main() {
    for policy in [Policy::Rm, Policy::Edf] {
        let contract = |n| {
            let tasks = systems::draw(&mut ChaCha8Rng::seed_from_u64(u64::from(n)), n, 0.999);
            Contract::of_tasks(policy, 1, tasks)
        };
        let host = HostProfile::ideal(1);
        let (large, small) = (contract(10_000), contract(1_000));
        let name = policy.name();
        match admit(&large, &host) {
            Ok(_) => println!("10000 tasks under {name}: admitted"),
            Err(refusal) => println!("10000 tasks under {name}: {refusal}"),
        }
        let found = compare(
            &format!("admission of 10000 tasks, utilisation 0.999, {name} (A) / of 1000 (B)"),
            2,
            || nanos_per_op(1, || _ = black_box(admit(&large, &host))),
            || nanos_per_op(1, || _ = black_box(admit(&small, &host))),
        );
        println!("10000 tasks under {name}: {:.1} s to the verdict", found.a / 1e9);
    }
}
