//! `punctual watch` on a terminal of its own. The tests press keys and read the screen.
//!
//! They check the final contents of the screen, never the time at which they appear.

mod keys;
mod terminal;

use std::process::{Command, Output};

const PUNCTUAL: &str = env!("CARGO_BIN_EXE_punctual");

/// A command that wakes up fifty times a second.
const PERIODIC: [&str; 3] = ["sh", "-c", "while sleep 0.02; do :; done"];

/// A socket without a broker.
const NOBODY: &str = "/nonexistent/broker.sock";

fn punctual(arguments: &[&str]) -> Output {
    Command::new(PUNCTUAL).args(arguments).output().expect("was built")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[test]
fn one_frame_is_printed_without_a_terminal() {
    let options =
        ["watch", "--once", "--for", "1500ms", "--broker", NOBODY, "--deadline", "1s", "--"];
    let output = punctual(&[&options[..], &PERIODIC].concat());
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(said.lines().count() <= 24 && said.lines().all(|line| line.chars().count() <= 80));
    for words in ["punctual watch", "no broker answers", "> sh", "thread", "q quit"] {
        assert!(said.contains(words), "{words}\n{said}");
    }
    assert!(!said.contains('\u{1b}'), "{said:?}");
    let seen = said.contains("wake-up latency of the last");
    assert!(seen || said.contains("are not seen"), "{said}");
}

#[test]
fn without_a_terminal_it_says_what_to_do_instead() {
    let output = punctual(&["watch", "--broker", NOBODY, "--", "sleep", "100"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("punctual status") && said.contains("--once"), "{said}");
}

#[test]
fn with_nothing_to_watch_it_says_so() {
    for (arguments, code, words) in [
        (&["--broker", NOBODY][..], 3, "no broker answers"),
        (&["--pid", "4294967295"], 2, "no process"),
        (&["--once", "--size", "80", "--", "true"], 2, "columns and rows"),
        (&["--size", "80x24", "--", "true"], 2, "--once"),
        (&["--work", "1ms", "--", "true"], 2, "--deadline"),
        (&["--", "/nonexistent/program"], 2, "cannot be started"),
    ] {
        let output = punctual(&[&["watch"], arguments].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(words), "{said}");
    }
}
