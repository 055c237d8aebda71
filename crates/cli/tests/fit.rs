//! `punctual fit`, as a user types it. The watched programs are this test program again.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use punctual_linux::clock;
use punctual_model::Duration;
use serde_json::Value;

/// The variable that selects what the program does.
const PROGRAM: &str = "PUNCTUAL_FITTED";
/// The program ends by itself after this time, even if its parent is gone.
const LENGTH: Duration = Duration::from_secs(60);

#[test]
#[ignore = "the program of the other tests"]
fn program() {
    let Ok(what) = std::env::var(PROGRAM) else { return };
    let mut due = clock::now();
    let end = due + LENGTH;
    while clock::now() < end {
        if what == "periodic" {
            due += Duration::from_millis(20);
            clock::sleep_until(due);
            let until = clock::now() + Duration::from_millis(1);
            while clock::now() < until {
                std::hint::spin_loop();
            }
        }
    }
}

fn fit(what: &str, arguments: &[&str]) -> Option<Output> {
    let this = std::env::current_exe().expect("this program");
    let output = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .arg("fit")
        .args(arguments)
        .arg("--")
        .arg(this)
        .args(["--ignored", "--exact", "program", "--quiet"])
        .env(PROGRAM, what)
        .output()
        .expect("punctual runs");
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) && output.stdout.is_empty() {
        println!("skipped: {said}");
        return None;
    }
    Some(output)
}

/// Skips the output of the harness, which comes before the answer.
fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let from = text.find("{\n  \"watched_ns\"").unwrap_or_else(|| panic!("no answer: {text}"));
    let mut values = serde_json::Deserializer::from_str(&text[from..]).into_iter();
    values.next().expect("a value").expect("JSON")
}

fn thread<'a>(page: &'a Value, name: &str) -> &'a Value {
    let all = page["threads"].as_array().expect("threads");
    all.iter().find(|one| one["thread"] == name).unwrap_or_else(|| panic!("no {name} in {page:#}"))
}

#[test]
fn a_period_is_found_and_the_proposal_is_tried() {
    let Some(output) = fit("periodic", &["--json", "--for", "2s", "--settle", "500ms"]) else {
        return;
    };
    let page = json(&output);
    let found = thread(&page, "program");
    let period = found["periods"][0]["period_ns"].as_f64().expect("periodic");
    assert!((period - 2e7).abs() < 4e5, "{found:#}");
    let (budget, every) = (&found["reservation"]["budget_ns"], &found["reservation"]["period_ns"]);
    assert!(budget.as_u64() >= Some(1_000_000) && every.as_u64() == Some(20_000_000), "{found:#}");
    // A busy machine may make jobs late; the exit code must agree with the answer.
    let kept = found["trial"]["kept"].as_bool();
    match output.status.code() {
        Some(0) => assert_eq!(kept, Some(true), "{found:#}"),
        Some(1) => assert_eq!(kept, Some(false), "{found:#}"),
        // The host has no bandwidth for the trial, or the test has no privilege.
        Some(3) => println!("not tried: {}", page["trial"]["why_not"]),
        other => panic!("{other:?}: {found:#}"),
    }
}

#[test]
fn a_program_that_never_waits_has_no_period() {
    let Some(output) = fit("spins", &["--json", "--for", "3s", "--settle", "300ms"]) else {
        return;
    };
    assert_eq!(output.status.code(), Some(1));
    let page = json(&output);
    let found = thread(&page, "program");
    // On a busy machine it may get too little of a CPU to show that it never waits.
    assert!(found["not_periodic"].is_string() && found["reservation"].is_null(), "{found:#}");
}

#[test]
fn the_contract_is_one_that_is_admitted() {
    let Some(output) = fit("periodic", &["--toml", "--no-try", "--for", "1500ms"]) else { return };
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let contract = &text[text.find("# program").expect("a contract")..];
    // Nothing follows the contract: the harness prints nothing when it is ended.
    let mut admit = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(["admit", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("punctual runs");
    let mut input = admit.stdin.take().expect("piped");
    input.write_all(contract.as_bytes()).expect("written");
    drop(input);
    let admitted = admit.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&admitted.stdout);
    assert_eq!(admitted.status.code(), Some(0), "{contract}\n{said}");
}

#[test]
fn bad_usage_says_what_to_write() {
    for (arguments, words) in [
        (&["fit"][..], "nothing to watch"),
        (&["fit", "--pid", "4294967295"], "no process"),
        (&["fit", "--quantile", "101", "--", "true"], "from 0 to 100"),
        (&["fit", "--for", "5", "--", "true"], "unit"),
        (&["fit", "--", "/nonexistent"], "cannot be started"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_punctual")).args(arguments).output();
        let output = output.expect("punctual runs");
        let said = String::from_utf8_lossy(&output.stderr);
        let cannot_here = output.status.code() == Some(3) && said.contains("CAP_");
        assert!(output.status.code() == Some(2) || cannot_here, "{arguments:?}: {said}");
        assert!(cannot_here || said.contains(words), "{arguments:?}: {said}");
    }
}
