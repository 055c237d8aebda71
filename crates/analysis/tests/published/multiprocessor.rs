//! Several processors, each with tasks of its own.

use punctual_analysis::admit;
use punctual_model::{HostProfile, Policy};

use crate::common::{contract, plain};

/// Each pair has a utilisation of 4/3. Global EDF needs three CPUs, too
/// (`experiments/global-scheduling`).
#[test]
fn mp_01_three_tasks_of_two_thirds() {
    let system = plain(&[(2, 3), (2, 3), (2, 3)]);
    for policy in [Policy::Edf, Policy::Rm, Policy::Fifo] {
        let on = |cpus| admit(&contract(policy, cpus, &system, &[]), &HostProfile::ideal(4));
        assert!(on(2).is_err());
        let grant = on(3).expect("one each");
        let mut cpus: Vec<u16> = grant.tasks.iter().map(|task| task.cpu).collect();
        cpus.sort_unstable();
        assert_eq!(cpus, [0, 1, 2]);
    }
}
