//! `punctual simulate`: deterministic, so everything about it can be checked.

mod common;

use common::{punctual, text};
use serde_json::Value;

const STUDIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/studio.toml");
const OVERLOADED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/overloaded.toml");

#[test]
fn what_is_admitted_is_never_late_nor_beyond_its_bound() {
    for more in [&[][..], &["--seed", "5"], &["--seed", "6"]] {
        let output = punctual(&[&["simulate", STUDIO, "--json"], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let entries: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(entries.len(), 4);
        for entry in entries {
            assert_eq!(entry["late"], 0);
            if let Some(bound) = entry["response_time_bound_ns"].as_u64() {
                assert!(entry["max_response_time_ns"].as_u64() <= Some(bound), "{entry}");
            }
        }
    }
}

#[test]
fn a_late_job_is_exit_1_and_a_seed_replays_a_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("late.toml");
    let slow = std::fs::read_to_string(OVERLOADED).expect("there").replace("21ms", "28ms");
    std::fs::write(&path, slow).expect("written");
    let path = path.to_str().expect("UTF-8");
    assert_eq!(punctual(&["simulate", path]).status.code(), Some(1));
    let once = punctual(&["simulate", path, "--seed", "9"]).stdout;
    assert_eq!(once, punctual(&["simulate", path, "--seed", "9"]).stdout);
    assert_ne!(once, punctual(&["simulate", path, "--seed", "8"]).stdout);
}

#[test]
fn the_trace_is_one_slice_a_stretch_and_they_do_not_overlap() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.json");
    let path = path.to_str().expect("UTF-8");
    let output = punctual(&["simulate", STUDIO, "--until", "400ms", "--perfetto", path]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let trace: Value =
        serde_json::from_slice(&std::fs::read(path).expect("written")).expect("JSON");
    let mut end = 0.0;
    let slices = trace["traceEvents"].as_array().expect("a list");
    assert!(slices.len() > 100);
    for slice in slices {
        let number = |key: &str| slice[key].as_f64().expect("a number");
        assert!(number("ts") >= end - 1e-6, "{slice}");
        end = number("ts") + number("dur");
    }
}

#[test]
fn bad_input_is_exit_2() {
    for (arguments, wanted) in [
        (&["simulate", "/nowhere.toml"][..], "/nowhere.toml"),
        (&["simulate", STUDIO, "--until", "10"], "no unit"),
        (&["simulate", STUDIO, "--until", "0s"], "at least 1ns"),
        (&["simulate", STUDIO, "--perfetto", "/nowhere/at/all"], "/nowhere/at/all"),
    ] {
        let output = punctual(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(wanted), "{}", text(&output.stderr));
    }
}
