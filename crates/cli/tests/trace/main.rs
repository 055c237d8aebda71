//! Trace files from end to end: written by simulate, demo and run, judged by why, and read back
//! from every export.

#[path = "../common/mod.rs"]
mod common;
mod constraints;
mod damage;
mod perfetto;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{PUNCTUAL, punctual, text};
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use punctual_linux::clock;
use punctual_model::Duration;
use serde_json::Value;
use tempfile::TempDir;

const STUDIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/studio.toml");

/// A task that is late because of another on its CPU.
const LATE: &str = "
[system]
policy = 'fp'
[[task]]
name = 'first'
period = '10ms'
wcet = '6ms'
[[task]]
name = 'second'
period = '20ms'
wcet = '9ms'
relative_deadline = '15ms'
";

/// Writes a trace of `contract`, simulated until `until`.
fn traced(contract: &str, until: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let (from, to) = (folder.path().join("c.toml"), folder.path().join("a.ptrace"));
    std::fs::write(&from, contract).expect("written");
    let output = punctual(&[
        "simulate",
        from.to_str().expect("UTF-8"),
        "--for",
        until,
        "--trace",
        to.to_str().expect("UTF-8"),
    ]);
    assert!(to.is_file(), "{}", text(&output.stderr));
    (folder, to)
}

fn why(path: &Path) -> (Option<i32>, Vec<Value>) {
    let output = punctual(&["why", "--json", path.to_str().expect("UTF-8")]);
    let lines = text(&output.stdout);
    let lines = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    (output.status.code(), lines)
}

fn export(path: &Path, format: &str) -> String {
    let output = punctual(&["export", path.to_str().expect("UTF-8"), "--format", format]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn a_contract_that_is_kept_is_judged_so_and_a_trace_is_not_overwritten_unasked() {
    let contract = std::fs::read_to_string(STUDIO).expect("there");
    let (folder, path) = traced(&contract, "200ms");
    let (code, lines) = why(&path);
    assert_eq!(code, Some(0), "{lines:?}");
    let end = lines.last().expect("a line");
    let verdicts: BTreeSet<&str> = end["threads"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one["verdict"].as_str().expect("text"))
        .collect();
    assert_eq!(verdicts, BTreeSet::from(["kept"]));
    let again = ["simulate", STUDIO, "--trace", path.to_str().expect("UTF-8")];
    let refused = punctual(&again);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("--force"), "{}", text(&refused.stderr));
    let before = std::fs::read(&path).expect("there");
    let forced = punctual(&[&again[..], &["--force"]].concat());
    assert_eq!(forced.status.code(), Some(0), "{}", text(&forced.stderr));
    assert_ne!(std::fs::read(&path).expect("there"), before);
    drop(folder);
}

#[test]
fn the_events_alone_show_which_thread_ran_instead() {
    let (_folder, path) = traced(LATE, "200ms");
    let (code, lines) = why(&path);
    assert_eq!(code, Some(1));
    let late: Vec<&Value> = lines.iter().filter(|line| line["late"].is_object()).collect();
    // Of its 9 ms, 4 ms fit into each gap: job 0 is complete at 27 ms, and job 1 waits for it.
    let end = |nth: usize| late[nth]["late"]["end_ns"].as_u64();
    assert_eq!((late.len(), end(0)), (10, Some(27_000_000)));
    assert!(late[1]["causes"].to_string().contains("its own earlier jobs"), "{}", late[1]);
    for one in late {
        assert_eq!(one["by_kernel"], false);
        assert_eq!(one["late"]["thread"], "second");
        assert!(one["causes"].to_string().contains("first ran instead"), "{one}");
        let shares = one["causes"].as_array().expect("causes").iter();
        let sum: u64 = shares.map(|cause| cause["share_ns"].as_u64().expect("a number")).sum();
        assert_eq!(Some(sum), one["late"]["tardiness_ns"].as_u64(), "{one}");
    }
    let page = text(&punctual(&["why", path.to_str().expect("UTF-8")]).stdout);
    for words in ["first ran instead", "broken", "kept", "from the events alone"] {
        assert!(page.contains(words), "{words}: {page}");
    }
}

#[test]
fn a_damaged_or_truncated_trace_is_read_up_to_the_damage_and_says_so() {
    let (folder, path) = traced(LATE, "200ms");
    let whole = std::fs::read(&path).expect("there");
    let cut = folder.path().join("cut");
    std::fs::write(&cut, &whole[..whole.len() - 5]).expect("written");
    let (code, lines) = why(&cut);
    let end = lines.last().expect("a line");
    assert_eq!((code, &end["has_end"]), (Some(1), &Value::Bool(false)));
    assert!(lines.iter().any(|line| line["late"].is_object()), "late jobs are late all the same");
    let mut damaged = whole.clone();
    let last = damaged.len() - 60;
    damaged[last] ^= 1;
    std::fs::write(&cut, &damaged).expect("written");
    let (_, lines) = why(&cut);
    let end = lines.last().expect("a line");
    assert!(end["events_missing"].as_u64() >= Some(1), "{end}");
    assert!(end["notes"].to_string().contains("damaged at byte"), "{end}");
    for rubbish in [&b"no trace at all"[..], b"", &whole[..9]] {
        std::fs::write(&cut, rubbish).expect("written");
        for command in [&["why"][..], &["export", "--format", "csv"]] {
            let arguments = [command, &[cut.to_str().expect("UTF-8")]].concat();
            assert_eq!(punctual(&arguments).status.code(), Some(2), "{arguments:?}");
        }
    }
}

/// All exports have the same contents.
#[test]
fn every_export_reads_back() {
    let (_folder, path) = traced(LATE, "200ms");
    let lines: Vec<Value> = export(&path, "json")
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    let events: Vec<&Value> = lines.iter().filter_map(|line| line.get("event")).collect();
    assert!(lines[0]["run"]["contract"].as_str().expect("text").contains("second"));
    assert!(events.len() > 50, "{}", events.len());

    let csv = export(&path, "csv");
    let mut rows = csv::Reader::from_reader(csv.as_bytes());
    let rows: Vec<csv::StringRecord> = rows.records().map(|row| row.expect("a row")).collect();
    assert_eq!(rows.len(), events.len());
    for (row, event) in rows.iter().zip(&events) {
        assert_eq!(row[8], event["at_ns"].to_string());
        assert_eq!(row[9], *event["kind"].as_str().expect("text"));
    }

    let count = |kind: &str| events.iter().filter(|event| event["kind"] == kind).count() as u64;
    let log = export(&path, "hdr");
    let (mut wakeups, mut responses) = (0, 0);
    for entry in IntervalLogIterator::new(log.as_bytes()) {
        let LogEntry::Interval(interval) = entry.expect("a log") else { continue };
        let tag = interval.tag().expect("a tag").as_str();
        let bytes = decoded(interval.encoded_histogram());
        let histogram: hdrhistogram::Histogram<u64> =
            Deserializer::new().deserialize(&mut &bytes[..]).expect("a histogram");
        match tag.rsplit_once(':').expect("two parts").1 {
            "wakeup" => wakeups += histogram.len(),
            _ => responses += histogram.len(),
        }
    }
    assert_eq!((wakeups, responses), (count("start"), count("complete")));
}

fn decoded(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'=').map(value).collect();
    let bytes = |four: &[u8]| {
        let word = four.iter().fold(0u32, |word, digit| word << 6 | u32::from(*digit));
        let word = word << (6 * (4 - four.len()));
        word.to_be_bytes()[1..four.len()].to_vec()
    };
    digits.chunks(4).flat_map(bytes).collect()
}

#[test]
fn the_virtual_call_is_traced_driver_by_driver() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("demo.ptrace");
    let arguments = ["demo", "--virtual", "--for", "5s", "--trace"];
    let output = punctual(&[&arguments[..], &[path.to_str().expect("UTF-8")]].concat());
    assert!(output.status.code().is_some_and(|code| code < 2), "{}", text(&output.stderr));
    let (code, lines) = why(&path);
    assert_eq!(code, Some(1), "an ordinary thread is late");
    let end = lines.last().expect("a line");
    let verdict = |context: &str| {
        let mut threads = end["threads"].as_array().expect("a list").iter();
        let is = |one: &&Value| one["thread"].as_str().is_some_and(|name| name.contains(context));
        threads.find(is).map(|one| one["verdict"].clone())
    };
    assert_eq!(verdict("real-time upcall"), Some(Value::from("kept")), "{end}");
    assert_eq!(verdict("ordinary thread"), Some(Value::from("broken")), "{end}");
}

#[test]
fn a_timetable_tells_of_each_period_and_the_trace_grows_meanwhile() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.ptrace");
    let name = path.to_str().expect("UTF-8");
    let mut child = Command::new(PUNCTUAL)
        .args([
            "run",
            "--quiet",
            "--backend",
            "timetable",
            "--reserve",
            "2ms/20ms",
            "--trace",
            name,
        ])
        .args(["--", "cat"])
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("starts");
    let start = clock::now();
    let mut goes_on = child.stdin.take();
    let mut grew = false;
    let status = loop {
        if let Some(status) = child.try_wait().expect("asked") {
            break status;
        }
        // More than its first two blocks.
        grew |= path.is_file()
            && why(&path).1.iter().any(|line| line["threads"][0]["complete"].as_u64() > Some(0));
        let ran = clock::now().saturating_since(start);
        if grew && ran > Duration::from_secs(1) || ran > Duration::from_secs(60) {
            goes_on = None;
        }
        clock::sleep(Duration::from_millis(50));
    };
    drop(goes_on);
    let ran = clock::now().saturating_since(start);
    if status.code() == Some(3) {
        println!("skipped: this host or user cannot follow a timetable");
        return;
    }
    assert_eq!(status.code(), Some(0));
    assert!(grew, "it can be read while the program runs");
    let (_, lines) = why(&path);
    let end = lines.last().expect("a line");
    let told = &end["threads"][0];
    assert_eq!((&told["thread"], &end["has_end"]), (&Value::from("cat"), &Value::Bool(true)));
    let periods = told["complete"].as_u64().unwrap_or(0) + told["late"].as_u64().unwrap_or(0);
    assert!((1..=ran.as_nanos() / 20_000_000 + 2).contains(&periods), "{end}");
    let kinds: BTreeSet<String> = export(&path, "csv")
        .lines()
        .skip(1)
        .filter_map(|row| row.split(',').nth(9).map(str::to_owned))
        .collect();
    for kind in ["replenish", "unthrottle", "start", "complete", "throttle"] {
        assert!(kinds.contains(kind), "{kinds:?}");
    }
}

#[test]
fn the_trace_has_the_late_jobs_that_why_found_live() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("why.ptrace");
    let name = path.to_str().expect("UTF-8");
    let program = "for i in 1 2 3; do sleep 0.05; done";
    let options = ["why", "--deadline", "1ns", "--thread", "sh", "--json", "--trace", name];
    let arguments: Vec<&str> = options.into_iter().chain(["--", "sh", "-c", program]).collect();
    let output = punctual(&arguments);
    if output.status.code() == Some(3) {
        println!("skipped: {}", text(&output.stderr));
        return;
    }
    let live = text(&output.stdout);
    let live: Vec<Value> =
        live.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let (_, lines) = why(&path);
    let late = |lines: &[Value]| -> Vec<(Value, Value)> {
        let late = lines.iter().filter(|line| line["late"].is_object());
        late.map(|line| (line["late"].clone(), line["causes"].clone())).collect()
    };
    let (mut told, mut written) = (late(&live), late(&lines));
    // A thread may have changed its name in between.
    for (job, _) in told.iter_mut().chain(&mut written) {
        job["thread"] = Value::Null;
    }
    assert!(!told.is_empty());
    assert_eq!(told, written);
    let by_kernel = lines.iter().filter(|line| line["late"].is_object());
    assert!(by_kernel.map(|line| &line["by_kernel"]).all(|told| *told == true));
}
