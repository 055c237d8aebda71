//! `punctual report`, as a user types it. The tests of the report crate check the contents of
//! pages.

mod common;

use std::path::{Path, PathBuf};

use common::{punctual, text};
use serde_json::Value;
use tempfile::TempDir;

const STUDIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/studio.toml");

/// Makes a folder with the trace of a simulation in which one job in four takes six times as long
/// as it should.
fn simulated() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("studio.ptrace");
    let name = trace.to_str().expect("UTF-8");
    let output = punctual(&[
        "simulate",
        STUDIO,
        "--for",
        "2s",
        "--overrun",
        "6:1/4",
        "--seed",
        "3",
        "--trace",
        name,
    ]);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", text(&output.stderr));
    (folder, trace)
}

fn report(trace: &Path, more: &[&str]) -> (i32, String, String) {
    let name = trace.to_str().expect("UTF-8");
    let output = punctual(&[&["report", name], more].concat());
    let code = output.status.code().expect("an exit code");
    (code, text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_trace_of_a_simulation_is_a_page_and_tables() {
    let (folder, trace) = simulated();
    let page = folder.path().join("studio.html");
    let page_name = page.to_str().expect("UTF-8");
    let (code, said, complaints) = report(&trace, &["-o", page_name]);
    assert_eq!((code, said.as_str(), complaints.as_str()), (0, "", ""));
    let html = std::fs::read_to_string(&page).expect("a page");
    for words in ["<!DOCTYPE html>", "capture", "admitted under rmdp", "studio.ptrace", "--seed 3"]
    {
        assert!(html.contains(words), "{words}");
    }
    // The page shows broken promises without judging them, so the exit code is 0.
    let (code, said, _) = report(&trace, &["--json"]);
    let json: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(code, 0);
    assert!(json["promises_broken"].as_u64().is_some_and(|broken| broken > 0), "{said}");
    assert_eq!(json["late_jobs"], json["late_jobs_explained_by_events"], "{said}");
    let row = &json["tables"]["times"][0];
    assert!(row["p50_ns"].as_u64() <= row["max_ns"].as_u64(), "{row}");
}

#[test]
fn a_page_that_is_there_stays_unless_forced() {
    let (folder, trace) = simulated();
    let page = folder.path().join("a.html");
    std::fs::write(&page, "mine").expect("written");
    let name = page.to_str().expect("UTF-8");
    let (code, _, complaints) = report(&trace, &["-o", name]);
    assert!(code == 2 && complaints.contains("--force"), "{complaints}");
    assert_eq!(std::fs::read_to_string(&page).expect("still there"), "mine");
    assert_eq!(report(&trace, &["-o", name, "--force"]).0, 0);
    assert!(std::fs::read_to_string(&page).expect("a page").contains("<html"));
    let itself = trace.to_str().expect("UTF-8");
    let (code, _, complaints) = report(&trace, &["-o", itself, "--force"]);
    assert!(code == 2 && complaints.contains("trace itself"), "{complaints}");
}

#[test]
fn a_file_that_is_no_trace_is_refused_and_damage_is_reported() {
    let (folder, trace) = simulated();
    let mut bytes = std::fs::read(&trace).expect("a trace");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    bytes.truncate(bytes.len() - 5);
    let damaged = folder.path().join("damaged.ptrace");
    std::fs::write(&damaged, &bytes).expect("written");
    let (code, said, complaints) = report(&damaged, &["-o", "-"]);
    assert_eq!(code, 4, "{complaints}");
    for words in ["damaged in 1 place", "has no end"] {
        assert!(complaints.contains(words) && said.contains(words), "{words}: {complaints}");
    }
    for (bytes, words) in [(&b"[system]\ncpus = 1\n"[..], "not a trace"), (b"PUNCTUAL\x09\x00", "")]
    {
        let other = folder.path().join("other.toml");
        std::fs::write(&other, [bytes, &[0; 6]].concat()).expect("written");
        let (code, _, complaints) = report(&other, &["--json"]);
        assert!(code == 2 && complaints.contains(words), "{complaints}");
    }
    assert_eq!(report(&folder.path().join("none"), &["--json"]).0, 2);
    assert_eq!(report(&trace, &[]).0, 2, "neither a page nor JSON is asked for");
    assert_eq!(report(&trace, &["--json", "-o", "-"]).0, 2);
    let nowhere = folder.path().join("no/such/page.html");
    assert_ne!(report(&trace, &["-o", nowhere.to_str().expect("UTF-8")]).0, 0);
}
