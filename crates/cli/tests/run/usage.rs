//! Valid and invalid command lines.

use std::process::Command;

use super::common::unprivileged;
use super::live::{PUNCTUAL, alone, run, text};

fn typed(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(PUNCTUAL).arg("run").args(arguments).output().expect("was built");
    (output.status.code(), text(&output.stderr))
}

#[test]
fn an_invalid_reservation_is_refused_with_a_correction() {
    for (reserve, right) in [
        ("2ms", "2ms/8ms"),
        ("2/8ms", "ns, us, ms or s"),
        ("9ms/8ms", "more than one whole CPU"),
        ("0ms/8ms", "at least 1ns"),
        ("\u{ff}/\u{1}", "unit"),
    ] {
        let (code, why) = typed(&["--reserve", reserve, "--", "true"]);
        assert_eq!(code, Some(2), "{reserve}: {why}");
        assert!(why.contains(right) && !why.contains("panicked"), "{reserve}: {why}");
    }
}

#[test]
fn a_contract_and_a_program_are_told_apart() {
    for (arguments, right) in [
        (&[][..], "nothing to run"),
        (&["--reserve", "2ms/8ms"], "no program to run"),
        (
            &["--reserve", "2ms/8ms", "true"],
            "behind \"--\": punctual run --reserve 2ms/8ms -- true",
        ),
        (&["--", "true"], "nothing is reserved"),
        (&["a.toml", "--", "true"], "a contract names its own programs"),
        (&["a.toml"], "a.toml: cannot read the contract"),
        (&["a.toml", "--soft"], "--reserve"),
        (&["--dry-run"], "nothing to run"),
        (&["--reserve", "2ms/8ms", "--soft", "--hard", "--", "true"], "cannot be used with"),
        (
            &["--reserve", "2ms/8ms", "--no-broker", "--broker", "/x", "--", "true"],
            "cannot be used with",
        ),
        (&["--reserve", "2ms/8ms", "--quiet", "--json", "--", "true"], "cannot be used with"),
    ] {
        let (code, why) = typed(arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {why}");
        assert!(why.contains(right), "{arguments:?}: {why}");
    }
}

#[test]
fn an_unexecutable_program_gives_the_shells_codes() {
    let _alone = alone();
    for backend in ["kernel", "timetable"] {
        for (program, code) in
            [("/nonexistent/program", 127), ("no-such-command-here", 127), ("/etc/passwd", 126)]
        {
            let arguments = ["--backend", backend, "--reserve", "2ms/100ms", "--", program];
            let Some(output) = run(&arguments) else { return };
            assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
            assert!(text(&output.stderr).contains(program));
        }
    }
}

#[test]
fn without_the_right_it_says_what_would_give_it() {
    for (backend, word) in [("auto", "SCHED_FIFO"), ("kernel", "SCHED_DEADLINE")] {
        let by = ["run", "--no-broker", "--backend", backend];
        let arguments = [&by[..], &["--reserve", "2ms/8ms", "--", "echo", "ran"]].concat();
        let Some(output) = unprivileged(&arguments) else { return };
        let why = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(3), String::new()), "{why}");
        assert!(why.contains(word) && why.contains("CAP_SYS_NICE"), "{why}");
    }
}

#[test]
fn help_has_examples_and_the_codes() {
    let output = Command::new(PUNCTUAL).args(["run", "--help"]).output().expect("was built");
    let help = text(&output.stdout);
    for part in ["punctual run --reserve 2ms/8ms -- ", "punctual run commands.toml", "Exit codes"] {
        assert!(help.contains(part), "{help}");
    }
}
