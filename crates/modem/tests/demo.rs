//! `punctual-modem demo`: wrong arguments, and the virtual call. (The live one takes a minute and a
//! half, and is `make demo`.)

mod common;

use common::{run, text, unprivileged};
use serde_json::Value;

#[test]
fn the_virtual_call_keeps_its_promises_and_says_the_same_each_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |name: &str| {
        let path = folder.path().join(name);
        let path = path.to_str().expect("UTF-8");
        let output = run(&["demo", "--virtual", "--seed", "3", "--json", path]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        (text(&output.stdout), std::fs::read_to_string(path).expect("written"))
    };
    let (table, json) = run("one.json");
    assert_eq!((table.clone(), json.clone()), run("two.json"));
    assert!(table.contains("bytes delivered intact"), "{table}");

    let report: Value = serde_json::from_str(&json).expect("JSON");
    let rows = report["rows"].as_array().expect("a list");
    for row in rows {
        let lost = row["samples_lost"].as_u64().expect("a number");
        assert_eq!(row["promised"] == true, lost == 0, "{row}");
    }
}

#[test]
fn a_file_of_ones_own_is_sent() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("message");
    std::fs::write(&path, "Mr. Watson, come here").expect("written");
    let path = path.to_str().expect("UTF-8");
    let output = run(&["demo", "--virtual", "--for", "6s", "--file", path]);
    assert!(text(&output.stdout).contains("21/21"), "{}", text(&output.stdout));
}

#[test]
fn bad_input_is_reported_before_anything_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "").expect("written");
    let empty = empty.to_str().expect("UTF-8");
    for (arguments, wanted) in [
        (&["demo", "--file", "/nowhere/at/all"][..], "/nowhere/at/all"),
        (&["demo", "--file", empty], "empty"),
        (&["demo", "--json", "/nowhere/at/all"], "/nowhere/at/all"),
        (&["demo", "--for", "0s"], "--for"),
        (&["demo", "--for", "6"], "--for"),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(wanted), "{}", text(&output.stderr));
    }
}

#[test]
fn without_the_privilege_it_says_what_helps() {
    let Some(output) = unprivileged(&["demo", "--for", "1s"]) else { return };
    assert_eq!(output.status.code(), Some(3));
    let said = text(&output.stderr);
    assert!(said.contains("RLIMIT_RTPRIO") && said.contains("punctual doctor"), "{said}");
}
