//! Any bytes as a contract: an error that has a place, or a contract whose analysis ends with an
//! answer; never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use punctual_analysis::{CpuLoad, Steps, admit_within, edf, fixed_priority, order, utilisation};
use punctual_model::contract::{MAX_CPUS, MAX_ENTRIES};
use punctual_model::{Contract, HostProfile, Service, Task};

/// Enough to get into every loop; the number that admission allows would take seconds an input.
const STEPS: u64 = 20_000;

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
    for context_switch in [Service::ZERO, Service::from_micros(3)] {
        let host = HostProfile { context_switch, ..HostProfile::ideal(contract.cpus) };
        match admit_within(&contract, &host, &mut Steps::new(10 * STEPS)) {
            Ok(grant) => {
                assert_eq!(grant.tasks.len(), contract.tasks.len() + contract.streams.len());
                assert_eq!(grant.channels.len(), contract.channels.len() + contract.streams.len());
                for task in &grant.tasks {
                    assert!(task.response_time_bound <= task.relative_deadline);
                }
                for channel in &grant.channels {
                    assert!(channel.proven_delay <= channel.delay_bound);
                }
            }
            Err(refusal) => assert!(!refusal.to_string().is_empty()),
        }
    }
});
