//! Any bytes as a workload of rt-app: a contract that keeps its rules and notes that have a place,
//! or an error that has one; never a panic.
#![no_main]

use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;
use punctual_model::contract::{MAX_CPUS, MAX_ENTRIES};
use punctual_model::rt_app;
use punctual_model::units::MAX_NANOS;

fuzz_target!(|bytes: &[u8]| {
    // A character has at least one byte, so no line is longer and there are no more lines.
    let within = |line: usize, column: usize| {
        assert!((1..=bytes.len() + 1).contains(&line), "line {line}");
        assert!((1..=bytes.len() + 1).contains(&column), "column {column}");
    };
    let imported = match rt_app::parse("fuzz.json", bytes) {
        Ok(imported) => imported,
        Err(error) => {
            within(error.line, error.column);
            assert!(!error.to_string().contains(['\0', '\u{1b}']), "{error}");
            return;
        }
    };
    let mut last = (0, 0);
    for note in &imported.notes {
        within(note.line, note.column);
        assert!(last <= (note.line, note.column), "notes stand in file order");
        assert!(!note.what.contains(char::is_control), "{:?}", note.what);
        last = (note.line, note.column);
    }
    let contract = imported.contract;
    assert!((1..=MAX_CPUS).contains(&contract.cpus));
    assert!((1..=MAX_ENTRIES).contains(&(contract.tasks.len() + contract.reservations.len())));
    let names: BTreeSet<&str> = contract
        .tasks
        .iter()
        .map(|task| task.name())
        .chain(contract.reservations.iter().map(|named| named.name.as_str()))
        .collect();
    assert_eq!(names.len(), contract.tasks.len() + contract.reservations.len());
    for task in &contract.tasks {
        let longest = task.min_inter_arrival().max(task.relative_deadline());
        assert!(longest.as_nanos() <= MAX_NANOS, "{task:?}");
    }
});
