//! Any bytes as a contract: an error that has a place, or a contract whose analysis ends with an
//! answer; never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use punctual_analysis::{CpuLoad, Steps, edf, fixed_priority, order, utilisation};
use punctual_model::contract::{MAX_CPUS, MAX_ENTRIES};
use punctual_model::{Contract, HostProfile, Service, Task};

/// Enough to get into every loop; the number that admission allows would take seconds an input.
const STEPS: u64 = 20_000;

/// The most tasks, and how often the shortest period may fit in the longest time, for which
/// admission as a whole is tried: it takes few steps then.
const MANY: usize = 8;
const FAR: u64 = 1000;

fuzz_target!(|bytes: &[u8]| {
    let contract = match Contract::parse("fuzz.toml", bytes) {
        Ok(contract) => contract,
        Err(error) => {
            assert!((1..=bytes.len() + 1).contains(&error.line), "{error:?}");
            assert!((1..=bytes.len() + 1).contains(&error.column), "{error:?}");
            return;
        }
    };
    assert!((1..=MAX_CPUS).contains(&contract.cpus));
    assert!(contract.tasks.len() + contract.reservations.len() <= MAX_ENTRIES);

    let reservations = || contract.reservations.iter().map(|named| named.reservation);
    let ordered: Vec<&Task> = order::by_priority(contract.policy, &contract.tasks)
        .into_iter()
        .map(|at| &contract.tasks[at])
        .collect();
    for switch in [Service::ZERO, Service::from_micros(3)] {
        let load = CpuLoad::new(ordered.iter().copied(), reservations(), switch);
        let _ = (utilisation::liu_layland(&load), utilisation::hyperbolic(&load));
        let _ = (utilisation::rmdp(&load), utilisation::sha(&load));
        let _ = edf::demand::processor_demand(&load, &mut Steps::new(STEPS));
        let bounds = fixed_priority::response_times(&load, &mut Steps::new(STEPS));
        assert_eq!(bounds.len(), ordered.len());
        let in_time = fixed_priority::all_in_time(&load, &mut Steps::new(STEPS));
        for (task, bound) in ordered.iter().zip(bounds) {
            let bound = bound.bound();
            assert!(bound.is_none_or(|bound| bound >= task.wcet().at_full_speed()));
            assert!(!in_time || bound.is_none_or(|bound| bound <= task.relative_deadline()));
        }
    }
    if is_easy(&contract.tasks) {
        let host = HostProfile::ideal(contract.cpus);
        if let Ok(grant) = punctual_analysis::admit(&contract, &host) {
            assert_eq!(grant.tasks.len(), contract.tasks.len());
            for task in &grant.tasks {
                assert!(task.response_time_bound <= task.relative_deadline);
            }
        }
    }
});

fn is_easy(tasks: &[Task]) -> bool {
    let shortest = tasks.iter().map(Task::min_inter_arrival).min().unwrap_or_default();
    let longest = tasks.iter().map(|task| task.min_inter_arrival().max(task.relative_deadline()));
    let longest = longest.max().unwrap_or_default();
    let needed: f64 = tasks.iter().map(Task::utilisation).sum();
    // Near one, busy windows are long however few the tasks.
    let clear = !(0.9..1.1).contains(&needed);
    tasks.len() <= MANY && clear && longest.as_nanos() / FAR <= shortest.as_nanos()
}
