//! `punctual run` on live programs. Nothing here asserts how long anything takes.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const PUNCTUAL: &str = env!("CARGO_BIN_EXE_punctual");

fn run(options: &[&str], program: &[&str]) -> Output {
    let mut command = Command::new(PUNCTUAL);
    command.arg("run").args(options).arg("--").args(program).output().expect("was built")
}

/// Exit 3: the tests have no right to reservations. Says so.
fn skipped(output: &Output) -> bool {
    let skip = output.status.code() == Some(3);
    if skip {
        println!("skipped: {}", text(&output.stderr));
    }
    skip
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The policy is field 41 of /proc/PID/stat (proc_pid_stat(5)): 6 is SCHED_DEADLINE.
const SHOW_POLICY: &str = "read s < /proc/$$/stat; set -- ${s#*) }; shift 38; echo $1";

#[test]
fn the_program_runs_under_sched_deadline_and_its_children_do_not() {
    let script = format!("{SHOW_POLICY}; sh -c '{SHOW_POLICY}'; :");
    let output = run(&["--reserve", "2ms/100ms"], &["sh", "-c", &script]);
    if skipped(&output) {
        return;
    }
    assert_eq!(text(&output.stdout), "6\n0\n", "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("that 2ms/100ms offered"), "{}", text(&output.stderr));
}

#[test]
fn a_hog_is_told_what_it_used() {
    let hog = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; exit 7";
    let output = run(&["--reserve", "2ms/10ms", "--json"], &["sh", "-c", hog]);
    if skipped(&output) {
        return;
    }
    assert_eq!(output.status.code(), Some(7));
    let summary: Value = serde_json::from_slice(&output.stderr).expect("one line of JSON");
    let number = |key: &str| summary[key].as_u64().unwrap_or_else(|| panic!("{key}: {summary}"));
    assert_eq!((number("budget_ns"), number("period_ns")), (2_000_000, 10_000_000));
    assert_eq!(number("offered_ns"), 2_000_000 * number("periods"));
    assert!(number("exec_time_ns") > 0 && number("wall_ns") > number("exec_time_ns"));
    assert!(number("exec_time_of_first_thread_ns") <= number("exec_time_ns") + 1_000_000);
    assert!(summary["used_percent"].as_f64().expect("a number") > 0.0);
    assert_eq!((&summary["exit_code"], &summary["signal"]), (&7.into(), &Value::Null));
    assert_eq!(summary["command"][0], "sh");
}

#[test]
fn input_and_output_are_the_programs_own() {
    use std::io::Write as _;
    let mut child = Command::new(PUNCTUAL)
        .args(["run", "--reserve", "2ms/100ms", "--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("was built");
    // A refused run closes its end: then the text goes nowhere.
    let _ = child.stdin.take().expect("piped").write_all(b"through\n");
    let output = child.wait_with_output().expect("waits");
    if !skipped(&output) {
        assert_eq!(text(&output.stdout), "through\n");
    }
}

#[test]
fn a_signal_is_passed_on_and_the_summary_still_printed() {
    let mut child = Command::new(PUNCTUAL)
        .args(["run", "--reserve", "2ms/100ms", "--json", "--"])
        .args(["sh", "-c", "echo $$; exec sleep 600"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("was built");
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("reads");
    let Ok(program) = line.trim().parse::<i32>() else {
        assert!(skipped(&child.wait_with_output().expect("waits")));
        return;
    };
    let term = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(term.expect("kill is there").success());
    let output = child.wait_with_output().expect("waits");
    assert_eq!(output.status.code(), Some(128 + 15));
    let summary: Value = serde_json::from_slice(&output.stderr).expect("JSON");
    assert_eq!(summary["signal"], 15);
    assert!(!std::path::Path::new(&format!("/proc/{program}")).exists(), "reaped");
}

#[test]
fn the_program_dies_with_punctual() {
    let mut child = Command::new(PUNCTUAL)
        .args(["run", "--reserve", "2ms/100ms", "--", "sh", "-c", "echo $$; exec sleep 600"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("was built");
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("reads");
    child.kill().expect("ours");
    child.wait().expect("ours");
    if line.is_empty() {
        return println!("skipped: no reservation here");
    }
    // `sleep` holds the pipe open: its end is the end of the text.
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("reads");
}

#[test]
fn what_is_not_a_reservation_is_refused_with_what_would_be_right() {
    for (reserve, right) in [
        ("2ms", "2ms/8ms"),
        ("2/8ms", "ns, us, ms or s"),
        ("9ms/8ms", "more than one whole CPU"),
        ("0ms/8ms", "at least 1ns"),
        ("10ns/1ms", "1.024us"),
        ("1ms/10s", "sched_deadline_period_max_us"),
        ("2us/50us", "sched_deadline_period_min_us"),
        ("\u{0}\u{ff}/\u{1}".trim_start_matches('\u{0}'), "unit"),
    ] {
        let output = run(&["--reserve", reserve], &["true"]);
        let why = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{reserve}: {why}");
        assert!(why.contains(right), "{reserve}: {why}");
        assert!(!why.contains("panicked"), "{why}");
    }
    for arguments in [&["run"][..], &["run", "--reserve", "2ms/8ms"], &["run", "--", "true"]] {
        let output = Command::new(PUNCTUAL).args(arguments).output().expect("was built");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn what_cannot_be_executed_has_the_shells_codes() {
    for (program, code) in
        [("/nonexistent/program", 127), ("no-such-command-here", 127), ("/etc/passwd", 126)]
    {
        let output = run(&["--reserve", "2ms/100ms"], &[program]);
        if skipped(&output) {
            return;
        }
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(program));
    }
}

#[test]
fn help_has_an_example_and_the_codes() {
    let output = run_help();
    for part in ["punctual run --reserve 2ms/8ms -- ", "first thread", "Exit codes"] {
        assert!(output.contains(part), "{output}");
    }
}

fn run_help() -> String {
    text(&Command::new(PUNCTUAL).args(["run", "--help"]).output().expect("was built").stdout)
}
