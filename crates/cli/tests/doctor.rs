//! `punctual doctor` on this host, with the rights of the tests and without any.

mod common;

use common::{punctual, text, unprivileged};
use serde_json::Value;

/// Returns the check of this name.
fn check<'a>(diagnosis: &'a Value, name: &str) -> &'a Value {
    let checks = diagnosis["checks"].as_array().expect("a list");
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn every_check_has_a_name_a_state_and_what_was_found() {
    let output = punctual(&["doctor", "--json"]);
    let diagnosis: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for check in diagnosis["checks"].as_array().expect("a list") {
        let state = check["state"].as_str().expect("text");
        assert!(["ok", "warning", "cannot", "unknown"].contains(&state), "{check}");
        assert!(!check["name"].as_str().expect("text").is_empty());
        assert!(!check["found"].as_str().expect("text").is_empty());
        // Each check that is not in order has a remedy.
        assert_eq!(state == "ok", check["remedy"].is_null(), "{check}");
    }
    let code = if diagnosis["able"] == true { 0 } else { 3 };
    assert_eq!(output.status.code(), Some(code));
    assert_eq!(diagnosis["upcalls"] == true, check(&diagnosis, "SCHED_FIFO")["state"] == "ok");
}

#[test]
fn timers_on_idle_cpus_are_counted_as_the_host_is_and_with_its_cpus_awake() {
    let output = punctual(&["doctor", "--json"]);
    let diagnosis: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let found = check(&diagnosis, "idle CPUs")["found"].as_str().expect("text").to_owned();
    let figures = &diagnosis["idle_cpus"];
    for side in ["free", "awake"] {
        let number = |key: &str| figures[side][key].as_u64().unwrap_or_else(|| panic!("{figures}"));
        let (late, timers) = (number("late"), number("timers"));
        assert!(timers > 0 && late <= timers && number("worst_ns") > 0, "{figures}");
        assert!(found.contains(&format!("{late} of {timers}")), "{found}, {figures}");
    }
    let fifo = check(&diagnosis, "SCHED_FIFO")["state"] == "ok";
    assert_eq!(figures["class"], if fifo { "SCHED_FIFO" } else { "SCHED_OTHER" });
}

#[test]
fn the_table_has_no_colour_when_no_terminal_reads_it() {
    let output = punctual(&["doctor"]);
    let table = text(&output.stdout);
    assert!(table.contains("SCHED_FIFO") && table.contains("steal"), "{table}");
    assert!(!table.contains('\u{1b}'), "{table}");
}

#[test]
fn without_privilege_it_says_what_would_give_it() {
    let Some(output) = unprivileged(&["doctor", "--json"]) else { return };
    let diagnosis: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(output.status.code(), Some(3), "{diagnosis}");
    assert_eq!(diagnosis["able"], false);
    let fifo = check(&diagnosis, "SCHED_FIFO");
    assert_eq!(fifo["state"], "cannot");
    assert!(fifo["remedy"].as_str().expect("text").contains("/etc/security/limits.conf"), "{fifo}");
    assert_eq!(diagnosis["idle_cpus"]["class"], "SCHED_OTHER", "measured all the same");
    let deadline = check(&diagnosis, "SCHED_DEADLINE");
    assert_eq!(deadline["state"], "cannot");
    assert!(deadline["remedy"].as_str().expect("text").contains("cap_sys_nice"), "{deadline}");
}

#[test]
fn without_privilege_run_refuses_with_the_sentence_that_helps() {
    let Some(output) = unprivileged(&["run", "--reserve", "2ms/8ms", "--", "true"]) else { return };
    assert_eq!(output.status.code(), Some(3));
    let why = text(&output.stderr);
    assert!(why.contains("CAP_SYS_NICE") && why.contains("setcap"), "{why}");
}
