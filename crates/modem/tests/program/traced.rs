//! The traces of a driver of modems, as the readers of traces see them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use punctual_linux::process::Signal;
use serde_json::Value;

use super::client::Client;
use super::common::{MODEM, run, text};
use super::pair::pair_with;
use super::started::{Modem, eventually};

/// Returns the program that reads traces, which is built beside this one with the whole workspace.
pub(crate) fn reader() -> PathBuf {
    Path::new(MODEM).with_file_name("punctual")
}

fn punctual(arguments: &[&str]) -> Output {
    Command::new(reader()).args(arguments).output().expect("was built")
}

/// Commands sent: each answer takes at least one service.
const COMMANDS: u64 = 5;

fn served(client: &mut Client) {
    (0..COMMANDS).for_each(|_| client.command("AT"));
}

/// Returns `why`'s report on the only driver of a trace, and true if its verdict was that all
/// promises were kept.
fn judged(trace: &Path) -> (Value, bool) {
    let output = punctual(&["why", "--json", trace.to_str().expect("ASCII")]);
    let said = text(&output.stdout);
    let end: Value = serde_json::from_str(said.lines().last().expect("a line")).expect("JSON");
    assert_eq!(end["has_end"], true, "{end}");
    assert_eq!(end["events_lost"], 0, "{end}");
    let drivers = end["threads"].as_array().expect("a list").clone();
    assert_eq!(drivers.len(), 1, "{end}");
    let kept = output.status.code() == Some(0);
    assert_eq!(drivers[0]["verdict"] == "kept", kept, "{end}");
    (drivers[0].clone(), kept)
}

fn exported(trace: &Path, format: &str) -> String {
    exported_with(0, trace, format)
}

fn exported_with(code: i32, trace: &Path, format: &str) -> String {
    let output = punctual(&["export", trace.to_str().expect("ASCII"), "--format", format]);
    assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// The driver stands still for more than half a second: it is late, and skips services.
pub(crate) fn each_service_of_a_pair_is_a_job_and_one_that_was_left_out_is_seen() {
    let (mut modem, mut a, _b) = pair_with(&["--trace", "t.ptrace"]);
    served(&mut a);
    modem.signal(Signal::STOP);
    thread::sleep(Duration::from_millis(900));
    modem.signal(Signal::CONT);
    a.command("AT");
    // The trace is written during the run, and has no end until the run is over.
    let trace = modem.path("t.ptrace");
    let seen = |what: &str| exported_with(4, &trace, "csv").contains(what).then_some(());
    eventually("what was left out is written", || seen(",skip,"));
    eventually("a late service is written", || seen(",overrun,"));
    assert_eq!(modem.end(Signal::TERM).code(), Some(0), "{}", modem.said());
    let (driver, kept) = judged(&trace);
    assert!(!kept, "{driver}");
    assert_eq!(driver["thread"], "pair of modems");
    assert!(driver["late"].as_u64() > Some(20), "{driver}");
    assert!(driver["complete"].as_u64() >= Some(COMMANDS), "{driver}");
    let page = modem.path("page.html");
    let (trace, page) = (trace.to_str().expect("ASCII"), page.to_str().expect("ASCII"));
    let output = punctual(&["report", trace, "-o", page]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    // An existing trace is not overwritten without `--force`, and no tty is left behind.
    let again = run(&["--pair", "/nowhere/a", "/nowhere/b", "--trace", trace]);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("--force"), "{}", text(&again.stderr));
}

pub(crate) fn each_service_of_a_bank_is_a_job() {
    let mut modem = Modem::start(&["--bank", "3", "--dir", ".", "--trace", "t.ptrace"]);
    served(&mut modem.client("0"));
    assert_eq!(modem.end(Signal::TERM).code(), Some(0), "{}", modem.said());
    let (driver, _) = judged(&modem.path("t.ptrace"));
    assert_eq!(driver["thread"], "modems as ordinary thread");
    assert!(driver["complete"].as_u64() >= Some(COMMANDS), "{driver}");
    let perfetto: Value =
        serde_json::from_str(&exported(&modem.path("t.ptrace"), "perfetto")).expect("JSON");
    assert!(perfetto["traceEvents"].as_array().is_some_and(|events| events.len() > 10));
}

pub(crate) fn each_service_of_one_modem_is_a_job() {
    let arguments = ["--tty", "m", "--wav-out", "said.wav", "--trace", "t.ptrace"];
    let mut modem = Modem::start(&arguments);
    served(&mut modem.client("m"));
    assert_eq!(modem.end(Signal::TERM).code(), Some(0), "{}", modem.said());
    let (driver, _) = judged(&modem.path("t.ptrace"));
    assert_eq!(driver["thread"], "modem");
    assert!(driver["complete"].as_u64() >= Some(COMMANDS), "{driver}");
}
