//! `punctual simulate`, which is deterministic, so the tests can check all of its results.

mod bounded;
#[path = "../common/mod.rs"]
mod common;
mod faults;
mod joining;
mod layers;
mod report;
mod witness;

use std::path::PathBuf;

use common::{punctual, text};
use serde_json::Value;
use tempfile::TempDir;

const STUDIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/studio.toml");
const OVERLOADED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/overloaded.toml");
const CHANNELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/channels.toml");
const COMMANDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/commands.toml");
const STREAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/stream.toml");

const MIXED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/mixed.toml");

/// A blocker whose quantum is 1 ms longer than the urgent task's slack. The task is late only if
/// the quantum begins just before a release.
const BLOCKED: &str = "
[system]
policy = 'rmdp'
[[task]]
name = 'urgent'
period = '10ms'
wcet = '4ms'
[[task]]
name = 'slow'
period = '100ms'
wcet = '20ms'
quantum = '7ms'
";

/// Two light tasks and a heavy one, which needs a CPU of its own.
const DHALL: &str = "
[system]
policy = 'rm'
cpus = 2
[[task]]
name = 'light'
period = '100ms'
wcet = '2ms'
[[task]]
name = 'slight'
period = '100ms'
wcet = '2ms'
[[task]]
name = 'heavy'
period = '101ms'
wcet = '100ms'
";

fn written(contract: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path: PathBuf = folder.path().join("contract.toml");
    std::fs::write(&path, contract).expect("written");
    let path = path.to_str().expect("UTF-8").to_owned();
    (folder, path)
}

fn json(arguments: &[&str], exit: i32) -> Value {
    let output = punctual(&[&["simulate", "--json"], arguments].concat());
    assert_eq!(output.status.code(), Some(exit), "{arguments:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn page(arguments: &[&str], exit: i32) -> String {
    let output = punctual(&[&["simulate"], arguments].concat());
    assert_eq!(output.status.code(), Some(exit), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn list<'a>(page: &'a Value, key: &str) -> &'a [Value] {
    page[key].as_array().expect("a list")
}

fn jobs(page: &Value) -> u64 {
    list(page, "tasks").iter().map(|task| task["jobs"].as_u64().expect("a number")).sum()
}

#[test]
fn an_admitted_contract_is_never_late_nor_beyond_its_bound() {
    for more in [
        &[][..],
        &["--seed", "5"],
        &["--seed", "6", "--exec-times", "worst"],
        &["--arrivals", "bursty", "--seed", "7"],
        &["--arrivals", "adversarial"],
        &["--arrivals", "adversarial", "--exec-times", "drawn", "--seed", "8"],
        &["--arrivals", "adversarial", "--overheads", "10us,30us"],
        &["--arrivals", "periodic", "--overheads", "50us"],
    ] {
        for contract in [STUDIO, CHANNELS, STREAM] {
            let report = json(&[&[contract, "--for", "3s"], more].concat(), 0);
            assert_eq!(report["admitted"], true);
            let entries = list(&report, "tasks").iter().chain(list(&report, "reservations"));
            for entry in entries {
                assert_eq!(entry["late"], 0);
                assert!(entry["jobs"].as_u64() > Some(3), "{entry}");
                if let Some(bound) = entry["response_time_bound_ns"].as_u64() {
                    assert!(entry["max_response_time_ns"].as_u64() <= Some(bound), "{entry}");
                }
            }
            for channel in list(&report, "channels") {
                for broken in ["late", "refused", "not_sent"] {
                    assert_eq!(channel[broken], 0, "{more:?} {channel}");
                }
                let bound = channel["proven_delay_ns"].as_u64().expect("admitted");
                let seen = channel["max_delay_ns"].as_u64().expect("sent");
                assert!(0 < seen && seen <= bound, "{more:?} {channel}");
            }
            let streams = report["streams"].as_array().map_or(&[][..], Vec::as_slice);
            assert_eq!(streams.len(), if contract == STREAM { 3 } else { 0 });
            for stream in streams {
                assert!(stream["frames"].as_u64() > Some(3), "{more:?} {stream}");
                assert_eq!((&stream["late"], &stream["not_sent"]), (&0.into(), &0.into()));
                let [seen, proven, delay] = ["max_delay_ns", "proven_delay_ns", "delay_ns"]
                    .map(|key| stream[key].as_u64().expect("a time"));
                assert!(0 < seen && seen <= proven && proven <= delay, "{more:?} {stream}");
            }
        }
    }
}

#[test]
fn a_late_job_is_exit_1_and_a_seed_replays_a_run() {
    let slow = std::fs::read_to_string(OVERLOADED).expect("there").replace("23ms", "28ms");
    let (_folder, path) = written(&slow);
    let path = &path[..];
    assert_eq!(punctual(&["simulate", path]).status.code(), Some(1));
    let faults = ["--overrun", "1.2:1/9", "--extra-releases", "1/8", "--late-timers", "1ms:1/7"];
    let run = |seed: &str| {
        let with_seed = ["simulate", path, "--stolen", "1ms/50ms", "--seed", seed];
        punctual(&[&with_seed[..], &faults[..]].concat()).stdout
    };
    assert_eq!(run("9"), run("9"));
    assert_ne!(run("9"), run("8"));
}

#[test]
fn a_refused_contract_is_exit_1_even_if_nothing_was_late() {
    let (_folder, path) = written(BLOCKED);
    let report = json(&[&path], 1);
    let late: Vec<_> = list(&report, "tasks").iter().map(|task| &task["late"]).collect();
    assert_eq!(
        (&report["admitted"], late),
        (&false.into(), vec![&0.into(), &0.into()]),
        "{report}"
    );
    assert_eq!(punctual(&["admit", &path]).status.code(), Some(1));
}

#[test]
fn entries_past_their_proven_bounds_are_marked() {
    let text = |arguments: &[&str]| String::from_utf8(punctual(arguments).stdout).expect("UTF-8");
    let kept = text(&["simulate", STUDIO]);
    assert!(!kept.contains('!'), "{kept}");
    let late = text(&["simulate", STUDIO, "--overrun", "3"]);
    assert!(late.contains("ms !") && late.contains("!: past what is proven"), "{late}");
    let report = json(&[STUDIO, "--overrun", "3"], 1);
    let tasks = list(&report, "tasks");
    assert!(tasks.iter().any(|task| task["exceeds_bound"] == true), "{report}");
}

#[test]
fn the_trace_is_one_slice_a_stretch_and_they_do_not_overlap() {
    let (folder, _) = written("");
    let path = folder.path().join("trace.json");
    let path = path.to_str().expect("UTF-8");
    let output = punctual(&["simulate", STUDIO, "--for", "400ms", "--perfetto", path]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let mut end = 0.0;
    let slices = trace(path);
    assert!(slices.len() > 100);
    for slice in slices {
        let number = |key: &str| slice[key].as_f64().expect("a number");
        assert!(number("ts") >= end - 1e-6, "{slice}");
        end = number("ts") + number("dur");
    }
    let again = ["simulate", STUDIO, "--for", "400ms", "--perfetto", path];
    let refused = punctual(&again);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("--force"), "{}", text(&refused.stderr));
    assert_eq!(punctual(&[&again[..], &["--force"]].concat()).status.code(), Some(0));
}

fn trace(path: &str) -> Vec<Value> {
    let trace: Value =
        serde_json::from_slice(&std::fs::read(path).expect("written")).expect("JSON");
    trace["traceEvents"].as_array().expect("a list").clone()
}

#[test]
fn patterns_differ_and_say_what_was_drawn() {
    let of = |pattern: &str| json(&[STUDIO, "--for", "2s", "--arrivals", pattern], 0);
    let periodic = of("periodic");
    assert_eq!((jobs(&periodic), &periodic["seed"]), (200 + 50 + 100, &Value::Null));
    assert_eq!(json(&[STUDIO, "--for", "2s"], 0), periodic);
    assert_eq!(of("adversarial")["seed"], Value::Null);
    for drawn in ["sporadic", "bursty"] {
        let report = of(drawn);
        assert_eq!((&report["seed"], &report["arrivals"]), (&Value::from(0), &Value::from(drawn)));
        assert!(jobs(&report) < jobs(&periodic));
    }
    let seeded = json(&[STUDIO, "--seed", "3"], 0);
    assert_eq!((&seeded["arrivals"], &seeded["exec_times"]), (&"sporadic".into(), &"drawn".into()));
    assert!(page(&[STUDIO, "--seed", "3"], 0).contains("seed 3"));
}

#[test]
fn an_adversary_lets_the_longest_quantum_begin_just_before() {
    let (_folder, path) = written(BLOCKED);
    // If both are released together, the second quantum ends 2 ms after a release.
    assert_eq!(json(&[&path], 1)["tasks"][0]["max_response_time_ns"], 6_000_000);
    let report = json(&[&path, "--arrivals", "adversarial"], 1);
    // 7 ms less 1 ns of the quantum, then its own 4 ms.
    assert_eq!(report["tasks"][0]["max_response_time_ns"], 10_999_999);
    // Both are periodic from then on, so it is late once in each period of the blocker.
    assert_eq!(report["tasks"][0]["late"], 100);
}

#[test]
fn tasks_run_where_admission_placed_them() {
    let (_folder, path) = written(DHALL);
    let placed = json(&[&path], 0);
    let cpus: Vec<_> = list(&placed, "tasks").iter().map(|task| task["cpu"].as_u64()).collect();
    assert_ne!(cpus[2], cpus[0]);
}

#[test]
fn a_link_that_is_too_slow_is_seen_to_be() {
    let slow = std::fs::read_to_string(CHANNELS).expect("there").replace("160mbit/s", "9mbit/s");
    let (_folder, path) = written(&slow);
    let report = json(&[&path, "--for", "1s", "--arrivals", "adversarial"], 1);
    assert_eq!(report["admitted"], false);
    let broken = |channel: &Value| {
        ["late", "refused", "not_sent"].iter().filter_map(|key| channel[key].as_u64()).sum::<u64>()
    };
    assert!(list(&report, "channels").iter().any(|channel| broken(channel) > 0), "{report}");
}

/// A channel of a stream sends the frames that its upcall's turns hand over, and nothing else.
#[test]
fn frames_go_through_their_turns_and_their_channels() {
    let report = json(&[STREAM, "--for", "3s"], 0);
    let of = |list_of: &str, name: &str, key: &str| {
        let named = list(&report, list_of).iter().find(|entry| entry["name"] == name);
        named.expect(name)[key].as_u64().expect("a number")
    };
    // Each of these frames is processed in one turn; the camera's arrive within 2.9 of 3 seconds.
    assert_eq!(of("streams", "camera", "frames"), 87);
    for stream in ["camera", "orders"] {
        let messages = of("channels", &format!("{stream}.channel"), "messages");
        assert_eq!(messages, of("streams", stream, "frames"), "{stream}");
    }
    // A turn that takes too long makes its frames late too.
    let late = json(&[STREAM, "--for", "3s", "--overrun", "40"], 1);
    let late = list(&late, "streams").iter().map(|stream| stream["late"].as_u64());
    assert!(late.sum::<Option<u64>>() > Some(0));
    let text = page(&[STREAM, "--for", "3s"], 0);
    assert!(text.contains("0 of ") && text.contains("frames not sent in time"), "{text}");
}

/// One CPU executes the turns, and another sends their frames.
#[test]
fn a_stream_may_be_worked_off_and_sent_by_different_cpus() {
    let contract = std::fs::read_to_string(STREAM).expect("there");
    let contract = contract.replace("\"rmdp\"", "\"rmdp\"\ncpus = 2").replace("1ms\"", "12ms\"");
    let second = "[[task]]\nname = 'second'\nperiod = '20ms'\nwcet = '9ms'\n";
    let (_folder, path) = written(&format!("{contract}\n{second}"));
    for more in [&[][..], &["--seed", "4"], &["--arrivals", "adversarial"]] {
        let report = json(&[&[&path, "--for", "3s"], more].concat(), 0);
        let camera = |list_of: &str| {
            let mut entries = list(&report, list_of).iter();
            let of_it =
                |entry: &&Value| entry["name"].as_str().is_some_and(|n| n.starts_with("camera"));
            entries.find(of_it).expect("there")
        };
        let (turns, channel, stream) = (camera("tasks"), camera("channels"), camera("streams"));
        assert_eq!((&turns["cpu"], &channel["cpu"]), (&0.into(), &1.into()), "{report}");
        assert_eq!(channel["messages"], stream["frames"]);
        assert!(stream["frames"].as_u64() > Some(40) && stream["not_sent"] == 0, "{stream}");
    }
}

#[test]
fn bad_input_is_exit_2() {
    let task = "[[task]]\nname = 'beside'\nperiod = '1s'\nwcet = '1ms'\n";
    let tabled = std::fs::read_to_string(COMMANDS).expect("there") + task;
    let (_folder, tabled) = written(&tabled);
    for (arguments, wanted) in [
        (&["/nowhere.toml"][..], "/nowhere.toml"),
        (&[STUDIO, "--for", "10"], "no unit"),
        (&[STUDIO, "--for", "0s"], "at least 1ns"),
        (&[STUDIO, "--perfetto", "/nowhere/at/all"], "/nowhere/at/all"),
        (&[STUDIO, "--arrivals", "often"], "adversarial"),
        (&[STUDIO, "--exec-times", "best"], "worst"),
        (&[STUDIO, "--overheads", "5"], "no unit"),
        (&[STUDIO, "--overheads", "5us,"], "the time \"\""),
        (&[STUDIO, "--overrun", "0.5"], "no factor"),
        (&[STUDIO, "--overrun", "2:3"], "1/20"),
        (&[STUDIO, "--extra-releases", "5"], "1/20"),
        (&[STUDIO, "--extra-releases", "1/0"], "1/20"),
        (&[STUDIO, "--late-timers", "0us"], "at least 1ns"),
        (&[STUDIO, "--stolen", "2ms"], "a slash"),
        (&[STUDIO, "--stolen", "2ms/2ms"], "leaves nothing"),
        (&[STUDIO, "--witness", "--seed", "1"], "cannot be used with"),
        (&[&tabled, "--witness"], "timetable"),
        (&[&tabled, "--witness"], "leave --witness out"),
    ] {
        let output = punctual(&[&["simulate"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(wanted), "{}", text(&output.stderr));
    }
}

/// Under two criticalities the video yields, which breaks no promise. Plain EDF refuses the
/// contract.
#[test]
fn low_criticality_yields_and_the_others_are_in_time() {
    let run = punctual(&["simulate", MIXED, "--high-jobs", "1/1", "--json"]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let page: Value = serde_json::from_slice(&run.stdout).expect("JSON");
    let task = |at: usize| &page["tasks"][at];
    for at in [0, 1] {
        assert_eq!((&task(at)["promised"], &task(at)["late"]), (&true.into(), &0.into()), "{page}");
    }
    assert_eq!(task(2)["promised"], false, "{page}");
    assert!(task(2)["late"].as_u64() > Some(100), "{page}");
    let before = punctual(&["simulate", MIXED]);
    assert!(text(&before.stdout).contains("0 of 3250 jobs late"), "{}", text(&before.stdout));
    let other = punctual(&["simulate", STUDIO, "--high-jobs", "1/2"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(text(&other.stderr).contains("edf-vd"), "{}", text(&other.stderr));
    assert!(text(&other.stderr).contains("see --high-jobs"), "{}", text(&other.stderr));
}

/// Three tasks of 6 ms every 10 ms on two CPUs: the kernel would serve one of them after 12 ms.
#[test]
fn a_refusal_on_several_cpus_is_not_bad_input() {
    let one = |at| format!("[[reservation]]\nname = 'r{at}'\nbudget = '6ms'\nperiod = '10ms'\n");
    let all: String = (1..=3).map(one).collect();
    let (_folder, file) = written(&format!("[system]\npolicy = 'edf'\ncpus = 2\n{all}"));
    for command in [&["admit"][..], &["simulate", "--for", "100ms"]] {
        let args: Vec<&str> = command.iter().copied().chain([&*file]).collect();
        let refused = punctual(&args);
        let said = text(&refused.stdout) + &text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains("surely served in time only up to 120.0 %"), "{said}");
        assert!(command[0] == "admit" || said.contains(&format!("{file}: refused by")), "{said}");
    }
}

/// A contract that cannot be run is refused in the words of `admit`, and not reported as malformed.
#[test]
fn a_contract_that_cannot_run_is_refused_by_the_name_of_its_file() {
    let channel =
        "[[channel]]\nname = 'c'\nmax_message = '1kB'\nmax_rate = '10/s'\ndelay_bound = '50ms'\n";
    let sending = "[sending]\nbandwidth = '10 mbit/s'\npacket = '1kB'\n";
    let (_folder, file) = written(&(channel.to_owned() + sending));
    let admit = punctual(&["admit", &file]);
    let simulate = punctual(&["simulate", &file]);
    assert_eq!(admit.status.code(), Some(1), "{}", text(&admit.stdout));
    assert_eq!(simulate.status.code(), Some(1), "{}", text(&simulate.stderr));
    let (all, said) = (text(&admit.stdout), text(&simulate.stderr));
    let sentence = all.lines().find(|line| line.starts_with("refused by")).expect("one says so");
    assert!(said.contains(&format!("{file}: {sentence}")), "{said} {all}");
}
