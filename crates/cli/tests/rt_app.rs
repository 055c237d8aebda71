//! Workloads of rt-app as contracts, run as a process: how they are recognised, their notes,
//! messages and exit codes.

mod common;

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use common::{PROFILE, PUNCTUAL, punctual, text};
use serde_json::Value;

fn example(name: &str) -> String {
    let examples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/rt-app");
    examples.join(name).to_str().expect("UTF-8").to_owned()
}

fn from_stdin(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(PUNCTUAL)
        .env(PROFILE, "ideal")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("was built");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

#[test]
fn a_workload_is_admitted_and_its_notes_go_to_standard_error() {
    let path = example("control-loop.json");
    let output = punctual(&["admit", "--json", &path]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let page: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(page["admitted"], true);
    assert_eq!(page["tasks"][0]["name"], "control");
    assert_eq!(page["tasks"][0]["relative_deadline_ns"], 10_000_000);
    // It takes 1 ms alone, and the reservation of 2 ms every 8 ms is above it.
    let bound = page["tasks"][0]["response_time_bound_ns"].as_u64().expect("a number");
    assert!((3_000_000..=10_000_000).contains(&bound), "{bound}");
    assert_eq!(page["reservations"][0]["budget_ns"], 2_000_000);
    let notes = text(&output.stderr);
    assert!(notes.lines().all(|line| line.starts_with(&format!("note: {path}:"))), "{notes}");
    let lock = "control-loop.json:12:4: \"lock\" (and 1 more here) is not carried over";
    assert!(notes.contains(lock), "{notes}");
    assert_eq!(told(&page), notes);
}

/// Returns the notes of a JSON answer in the form of standard error.
fn told(page: &Value) -> String {
    let notes = page["notes"].as_array().expect("a list").iter();
    notes.map(|note| format!("note: {}\n", note.as_str().expect("text"))).collect()
}

#[test]
fn a_workload_is_simulated() {
    let output = punctual(&["simulate", "--for", "1s", "--json", &example("pipeline.json")]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let page: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let source =
        page["tasks"].as_array().expect("a list").iter().find(|task| task["name"] == "source");
    assert_eq!(source.expect("carried over")["jobs"], 50);
    let notes = text(&output.stderr);
    assert!(notes.contains("\"encoder\" is not carried over"), "{notes}");
    assert_eq!(told(&page), notes);
}

#[test]
fn a_workload_without_any_rate_exits_with_2_and_the_reasons() {
    let output = punctual(&["admit", &example("busy.json")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let message = text(&output.stderr);
    for wanted in ["busy.json:3:2: no thread here has a rate", "\"spin\": it runs without a pause"]
    {
        assert!(message.contains(wanted), "{message}");
    }
}

#[test]
fn bad_workloads_exit_with_2_and_say_where() {
    for (workload, wanted) in [
        ("{\n\"tasks\" : }", "standard input:2:11: \"tasks\" takes an object"),
        (
            "// a workload\n{ \"tasks\" : { \"a\" : { \"run\" : 1.5 } } }",
            "standard input:2:31: \"run\"",
        ),
        ("/* a */ { \"tasks\" : {} }", "standard input:1:11: there is no"),
    ] {
        for command in ["admit", "simulate"] {
            let output = from_stdin(&[command, "-"], workload);
            assert_eq!(output.status.code(), Some(2), "{workload}");
            assert!(output.stdout.is_empty());
            let message = text(&output.stderr);
            assert!(message.contains(wanted), "{workload}\n{message}");
        }
    }
}

#[test]
fn a_workload_has_no_program_to_run() {
    let output = punctual(&["run", &example("pipeline.json")]);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("a workload of rt-app") && !message.contains("[[command]]"),
        "{message}"
    );
}

#[test]
fn the_name_decides_for_a_file_and_the_first_brace_for_standard_input() {
    let workload = "/* c */ // d\n\t{ \"tasks\":{\"a\":{\"run\":1,\"timer\":{\"period\":9}}} }";
    let contract = "# { \n[[task]]\nname = \"a\"\nperiod = \"9us\"\nwcet = \"1us\"\n";
    for input in [workload, contract] {
        let output = from_stdin(&["admit", "--json", "-"], input);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let page: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(page["tasks"][0]["response_time_bound_ns"], 1000);
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (name, content, code) in [
        ("a.json", workload, 0),
        ("b.JSON", workload, 0),
        ("c.json", contract, 2),
        ("d.toml", contract, 0),
        ("e.toml", workload, 2),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("written");
        let output = punctual(&["admit", path.to_str().expect("UTF-8")]);
        assert_eq!(output.status.code(), Some(code), "{name}: {}", text(&output.stderr));
    }
}
