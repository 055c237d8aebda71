//! Any bytes as a host profile: an error that has a place, or a calibration that is written and read
//! back the same, and that admission can be asked with; never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use punctual_analysis::{Steps, admit_within};
use punctual_model::host::{Calibration, DeadlineLimits};
use punctual_model::{Contract, Duration, Policy, Service, Task, TaskSpec};

fuzz_target!(|bytes: &[u8]| {
    let calibration = match Calibration::parse("fuzz.toml", bytes) {
        Ok(calibration) => calibration,
        Err(error) => {
            assert!((1..=bytes.len() + 1).contains(&error.line), "{error:?}");
            assert!((1..=bytes.len() + 1).contains(&error.column), "{error:?}");
            return;
        }
    };
    let text = calibration.to_string();
    assert_eq!(
        Calibration::parse("own.toml", text.as_bytes()).as_ref(),
        Ok(&calibration),
        "{text}"
    );
    let (_, month, day) = calibration.run.date();
    assert!((1..=12).contains(&month) && (1..=31).contains(&day));

    // A switch of up to two days must not overflow what is computed with it.
    let host = calibration.profile(DeadlineLimits::DEFAULT);
    let spec = TaskSpec::periodic("a", Duration::from_millis(10), Service::from_millis(2));
    let task = Task::new(spec).expect("valid");
    let contract = Contract::of_tasks(Policy::Rm, 1, vec![task]);
    match admit_within(&contract, &host, &mut Steps::new(10_000)) {
        Ok(grant) => assert!(grant.tasks[0].response_time_bound <= Duration::from_millis(10)),
        Err(refusal) => assert!(!refusal.to_string().is_empty()),
    }
});
