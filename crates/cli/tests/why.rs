//! `punctual why` and `punctual inject`, as a user types them.

use std::process::{Command, Output};

use serde_json::Value;

fn punctual(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_punctual")).args(arguments).output().expect("punctual runs")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("an exit code")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_program_is_watched_to_its_end_and_every_share_adds_up() {
    let output = punctual(&[
        "why",
        "--deadline",
        "1ns",
        "--thread",
        "sh",
        "--json",
        "--",
        "sh",
        "-c",
        "for i in 1 2 3; do sleep 0.05; done",
    ]);
    if code(&output) == 3 {
        println!("skipped: {}", said(&output));
        return;
    }
    assert_eq!(code(&output), 1, "{}", said(&output));
    let text = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let (end, rest) = lines.split_last().expect("lines");
    let (late, releases): (Vec<&Value>, Vec<&Value>) =
        rest.iter().partition(|line| line["late"].is_object());
    assert_eq!(releases[0]["release"]["thread"], "sh", "{text}");
    assert!(end["threads"].as_array().is_some_and(|threads| !threads.is_empty()), "{end}");
    for number in ["records", "records_lost", "records_skipped", "holes"] {
        assert!(end[number].is_u64(), "{number}: {end}");
    }
    for number in ["unjudged", "unseen_ns"] {
        assert!(end["threads"][0][number].is_u64(), "{number}: {end}");
    }
    assert!(!late.is_empty(), "{text}");
    for one in late {
        let shares = one["causes"].as_array().expect("causes").iter();
        let sum: u64 = shares.map(|cause| cause["share_ns"].as_u64().expect("a number")).sum();
        assert_eq!(Some(sum), one["late"]["tardiness_ns"].as_u64(), "{one}");
    }
}

#[test]
fn a_program_that_goes_on_is_ended_when_the_time_is_over() {
    let output = punctual(&["why", "--deadline", "10s", "--for", "200ms", "--", "sleep", "100"]);
    if code(&output) == 3 {
        println!("skipped: {}", said(&output));
        return;
    }
    // It has waited once, which is no period.
    assert_eq!(code(&output), 4, "{}", said(&output));
}

#[test]
fn bad_usage_says_what_to_write() {
    for (arguments, words) in [
        (&["why", "--deadline", "5ms"][..], "nothing to watch"),
        (&["why", "--deadline", "5", "--", "true"], "unit"),
        (&["why", "--deadline", "0ms", "--", "true"], "at least 1ns"),
        (&["why", "--deadline", "5ms", "--pid", "4294967295"], "no process"),
        (&["inject", "fifo", "--burn", "9ms", "--every", "10ms"], "at most 80 %"),
        (&["inject", "fifo", "--cpu", "9999"], "CPU 9999"),
        (&["inject", "nonsense"], "hard-interrupt"),
    ] {
        let output = punctual(arguments);
        let cannot_here = code(&output) == 3 && said(&output).contains("CAP_");
        assert!(code(&output) == 2 || cannot_here, "{arguments:?}: {}", said(&output));
        assert!(cannot_here || said(&output).contains(words), "{arguments:?}: {}", said(&output));
    }
}

#[test]
fn trouble_ends_when_it_was_said_to() {
    let output = punctual(&[
        "inject", "cache", "--burn", "1ms", "--every", "10ms", "--for", "100ms", "--json",
    ]);
    assert_eq!(code(&output), 0, "{}", said(&output));
    let done: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(done["times"].as_u64().is_some_and(|times| times >= 1), "{done}");
}

/// Threads that sleep at the end, or have ended, were in time: their last wait is not part of a
/// job.
#[test]
fn a_thread_that_sleeps_at_the_end_is_not_late() {
    let script = "sleep 0.1; sleep 2.5";
    let arguments =
        ["why", "--deadline", "2s", "--thread", "sh", "--json", "--", "sh", "-c", script];
    let output = punctual(&arguments);
    if code(&output) == 3 {
        println!("skipped: {}", said(&output));
        return;
    }
    assert_eq!(code(&output), 0, "{}", String::from_utf8_lossy(&output.stdout));
}
