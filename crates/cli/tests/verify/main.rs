//! `punctual verify`, as a user types it. The programs are this test program again.

mod broker;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use punctual_linux::clock;
use punctual_model::Duration;
use quick_junit::{Report, TestCaseStatus};
use serde_json::Value;

/// The program ends by itself after this time, even if its parent is gone.
const LENGTH: Duration = Duration::from_secs(60);

/// Works every 20 ms, or as soon as the last job is done, for as many milliseconds as its
/// environment says.
#[test]
#[ignore = "the program of the other tests"]
fn program() {
    let Ok(work) = std::env::var("PUNCTUAL_WORK_MS") else { return };
    let work = Duration::from_millis(work.parse().expect("a number"));
    let mut due = clock::now();
    let end = due + LENGTH;
    while clock::now() < end {
        due += Duration::from_millis(20);
        // It always waits a little, since a thread that never waits has no jobs.
        clock::sleep_until(due.max(clock::now() + Duration::from_millis(1)));
        let until = clock::now() + work;
        while clock::now() < until {
            std::hint::spin_loop();
        }
    }
}

fn verify(folder: &Path, contract: &str, arguments: &[&str]) -> Output {
    let file = folder.join("contract.toml");
    fs::write(&file, contract).expect("written");
    Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(["verify", "--host-profile", "ideal"])
        .arg(&file)
        .args(arguments)
        .output()
        .expect("punctual runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn skipped(output: &Output) -> bool {
    let skipped = output.status.code() == Some(3);
    if skipped {
        println!("skipped: {}", said(output));
    }
    skipped
}

fn command(name: &str, work_ms: u32) -> String {
    let this = std::env::current_exe().expect("this program");
    format!(
        "[[reservation]]\nname = \"{name}\"\nbudget = \"4ms\"\nperiod = \"20ms\"\n\
         [[command]]\nname = \"run {name}\"\nreservation = \"{name}\"\n\
         run = [{:?}, \"--ignored\", \"--exact\", \"program\"]\n\
         environment = {{ PUNCTUAL_WORK_MS = \"{work_ms}\" }}\n",
        this.to_str().expect("text")
    )
}

fn promise<'a>(page: &'a Value, name: &str) -> &'a Value {
    let all = page["promises"].as_array().expect("promises");
    all.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("no {name} in {page:#}"))
}

#[test]
fn a_program_that_needs_more_than_it_said_breaks_the_promise() {
    let folder = tempfile::tempdir().expect("a folder");
    let junit = folder.path().join("junit.xml");
    let path = junit.to_str().expect("text");
    let output =
        verify(folder.path(), &command("greedy", 30), &["--for", "2s", "--json", "--junit", path]);
    if skipped(&output) {
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let page: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let broken = promise(&page, "run greedy");
    assert_eq!(broken["verdict"], "broken", "{page:#}");
    assert!(broken["late"].as_u64() > Some(0), "{broken:#}");
    assert!(!broken["causes"].as_array().expect("causes").is_empty(), "{broken:#}");
    assert_eq!(promise(&page, "admission")["verdict"], "kept");
    let report = Report::deserialize_from_str(&fs::read_to_string(&junit).expect("written"));
    let report = report.expect("JUnit XML");
    assert_eq!((report.tests, report.failures, report.errors), (2, 1, 0));
    let cases = &report.test_suites[0].test_cases;
    assert!(matches!(cases[1].status, TestCaseStatus::NonSuccess { .. }), "{cases:#?}");
}

/// Checks that a verdict agrees with the numbers beside it, whatever the load of the machine.
fn agrees(one: &Value) {
    let late = one["late"].as_u64().expect("a number");
    let verdict = if late > 0 { "broken" } else { "kept" };
    assert_eq!(one["verdict"], verdict, "{one:#}");
}

fn judged(output: &Output) -> Value {
    let page: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(output)));
    let code = match (page["broken"].as_bool(), page["kept"].as_bool()) {
        (Some(true), Some(false)) => 1,
        (Some(false), Some(true)) => 0,
        _ => 4,
    };
    assert_eq!(output.status.code(), Some(code), "{page:#}");
    page
}

/// Lateness depends on the load of the machine, but the parts of the answer must agree.
#[test]
fn upcalls_and_programs_run_together_and_the_answer_agrees_with_the_exit_code() {
    let folder = tempfile::tempdir().expect("a folder");
    let contract = command("modest", 1)
        + "[[command]]\nname = \"ordinary\"\nrun = [\"sleep\", \"100\"]\n\
           [[upcall]]\nname = \"codec\"\nperiod = \"40ms\"\nbatch = 4\nquantum = 1\n\
           time_per_pdu = \"500us\"\n\
           [[task]]\nname = \"control\"\nperiod = \"50ms\"\nwcet = \"1ms\"\n";
    let output = verify(folder.path(), &contract, &["--for", "2s", "--json"]);
    if skipped(&output) {
        return;
    }
    let page = judged(&output);
    for (name, least, evidence) in [
        ("run modest", 20, "program"),
        ("codec", 10, "synthetic work"),
        ("control", 10, "synthetic work"),
    ] {
        let one = promise(&page, name);
        assert!(one["jobs"].as_u64() >= Some(least), "{one:#}");
        assert_eq!(one["evidence"], serde_json::json!([evidence]), "{one:#}");
        agrees(one);
    }
    assert_eq!(promise(&page, "admission")["evidence"], serde_json::json!(["admission"]));
    let ordinary = promise(&page, "ordinary");
    assert_eq!(
        (&ordinary["verdict"], &ordinary["evidence"]),
        (&"not judgeable".into(), &Value::Array(vec![]))
    );
}

/// A stream is an upcall and a channel. The trace of the run, read by `why`, agrees with the
/// verdict.
#[test]
fn streams_and_channels_are_tried_and_the_trace_tells_of_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let (junit, trace) = (folder.path().join("junit.xml"), folder.path().join("a.ptrace"));
    let path = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let contract = "[sending]\nbandwidth = \"160mbit/s\"\nstartup = \"40us\"\n\
        packet = \"4KiB\"\npackets_per_block = 2\n\
        [sending.costs]\nswitch = \"10us\"\ncache = \"15us\"\nfirst_packet = \"60us\"\n\
        packet = \"40us\"\nlink_scheduling = \"10us\"\n\
        [[stream]]\nname = \"camera\"\nclass = \"continuous-media\"\nframe_rate = \"25/s\"\n\
        frame_size = \"24KiB\"\ndelay = \"200ms\"\ntime_per_pdu = \"50us\"\n\
        [[channel]]\nname = \"voice\"\nmax_message = \"160B\"\nmin_inter_arrival = \"20ms\"\n\
        max_burst = 3\ndelay_bound = \"150ms\"\n\
        [[channel]]\nname = \"heard\"\ndirection = \"receive\"\nlisten = \"127.0.0.1:40960\"\n\
        max_message = \"160B\"\nmin_inter_arrival = \"20ms\"\ndelay_bound = \"150ms\"\n";
    let arguments = ["--for", "2s", "--json", "--junit", &path(&junit), "--trace", &path(&trace)];
    let output = verify(folder.path(), contract, &arguments);
    if skipped(&output) {
        return;
    }
    let page = judged(&output);
    let voice = promise(&page, "voice");
    assert_eq!(voice["evidence"], serde_json::json!(["emulated link"]));
    assert!(voice["jobs"].as_u64() >= Some(20), "{voice:#}");
    agrees(voice);
    let camera = promise(&page, "camera");
    assert_eq!(camera["evidence"], serde_json::json!(["synthetic work", "emulated link"]));
    assert!(camera["jobs"].as_u64() >= Some(40), "both of its parts: {camera:#}");
    agrees(camera);
    assert_eq!(promise(&page, "heard")["verdict"], "not judgeable");
    assert_eq!((&page["unjudged"], &page["kept"]), (&1.into(), &false.into()));
    let xml = fs::read_to_string(&junit).expect("written");
    assert!(xml.contains("emulated link: messages of the largest size"), "{xml}");

    let why = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(["why", "--json", &path(&trace)])
        .output()
        .expect("punctual runs");
    let end = String::from_utf8_lossy(&why.stdout);
    let end: Value = serde_json::from_str(end.lines().last().expect("the end")).expect("JSON");
    assert_eq!((&end["has_end"], &end["events_lost"]), (&true.into(), &0.into()), "{end:#}");
    for (name, kind) in [("camera", "upcall"), ("camera.channel", "channel"), ("voice", "channel")]
    {
        let all = end["threads"].as_array().expect("subjects");
        let told = all.iter().any(|one| {
            one["thread"] == name && one["kind"] == kind && one["complete"].as_u64() >= Some(20)
        });
        assert!(told, "{kind} {name}: {end:#}");
    }
}

#[test]
fn only_programs_leaves_entries_without_programs_unjudged() {
    let folder = tempfile::tempdir().expect("a folder");
    let contract =
        command("modest", 1) + "[[task]]\nname = \"control\"\nperiod = \"50ms\"\nwcet = \"1ms\"\n";
    let output = verify(folder.path(), &contract, &["--for", "1s", "--json", "--only-programs"]);
    if skipped(&output) {
        return;
    }
    let page = judged(&output);
    agrees(promise(&page, "run modest"));
    let control = promise(&page, "control");
    assert_eq!((&control["verdict"], &control["jobs"]), (&"not judgeable".into(), &0.into()));
}

/// Tests that a program that never did its work is not one whose promise was kept.
#[test]
fn a_program_that_fails_is_not_judgeable() {
    let folder = tempfile::tempdir().expect("a folder");
    let junit = folder.path().join("junit.xml");
    for (run, ended) in [
        ("\"false\"", "exit status: 1"),
        ("\"/nonexistent/program\"", "exit status: 127"),
        ("\"sh\", \"-c\", \"kill -SEGV $$\"", "exit status: 139"),
        ("\"sh\", \"-c\", \"kill -KILL $$\"", "exit status: 137"),
    ] {
        let contract = format!(
            "[[reservation]]\nname = \"r\"\nbudget = \"2ms\"\nperiod = \"20ms\"\n\
             [[command]]\nname = \"c\"\nrun = [{run}]\nreservation = \"r\"\n"
        );
        let places = ["--for", "1s", "--json", "--junit", junit.to_str().expect("text")];
        let output = verify(folder.path(), &contract, &places);
        if skipped(&output) {
            return;
        }
        let page = judged(&output);
        assert_eq!(output.status.code(), Some(4), "{run}: {page:#}");
        assert!(page["programs_ended"].as_str().expect("a text").contains(ended), "{page:#}");
        let report = Report::deserialize_from_str(&fs::read_to_string(&junit).expect("written"));
        assert_eq!(report.expect("JUnit XML").errors, 1, "{run}");
    }
}

#[test]
fn a_contract_that_is_refused_is_a_broken_promise() {
    let folder = tempfile::tempdir().expect("a folder");
    let contract = "[[task]]\nname = \"a\"\nperiod = \"10ms\"\nwcet = \"6ms\"\n\
                    [[task]]\nname = \"b\"\nperiod = \"10ms\"\nwcet = \"6ms\"\n";
    let junit = folder.path().join("junit.xml");
    let output = verify(folder.path(), contract, &["--junit", junit.to_str().expect("text")]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let report = Report::deserialize_from_str(&fs::read_to_string(&junit).expect("written"));
    let report = report.expect("JUnit XML");
    assert_eq!((report.tests, report.failures), (1, 1));
}

#[test]
fn bad_contracts_and_bad_places_are_bad_usage() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = verify(folder.path(), "[[task]]\n", &["--for", "1s"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let task = "[[task]]\nname = \"a\"\nperiod = \"10ms\"\nwcet = \"1ms\"\n";
    let output = verify(folder.path(), task, &["--junit", "/nonexistent/junit.xml"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}
