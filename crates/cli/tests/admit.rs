//! Runs `punctual admit` as a process, and checks exit codes, messages and JSON.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const GOOD: &str = r#"
[system]
policy = "rmdp"

[[task]]
name = "audio"
period = "12ms"
wcet = "4ms"
quantum = "2ms"

[[task]]
name = "video"
period = "20ms"
wcet = "6ms"
quantum = "3ms"

[[task]]
name = "log"
period = "40ms"
wcet = "8ms"
quantum = "4ms"
"#;

const TOO_MUCH: &str = r#"
[system]
policy = "rm"

[[task]]
name = "fast"
period = "30ms"
wcet = "10ms"

[[task]]
name = "middle"
period = "40ms"
wcet = "10ms"

[[task]]
name = "slow"
period = "50ms"
wcet = "12ms"
"#;

fn admit(args: &[&str], contract: &[u8]) -> Output {
    admit_to(Stdio::piped(), args, contract)
}

fn admit_to(out: Stdio, args: &[&str], contract: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .env("PUNCTUAL_HOST_PROFILE", "ideal")
        .arg("admit")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(out)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    // The program may exit before it has read its input, as for --help.
    let _ = child.stdin.take().expect("piped").write_all(contract);
    child.wait_with_output().expect("it ends")
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

fn json(contract: &str, exit: i32) -> Value {
    let output = admit(&["--json", "-"], contract.as_bytes());
    assert_eq!(output.status.code(), Some(exit), "{}", err(&output));
    assert!(output.stderr.is_empty());
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn a_good_contract_is_admitted_with_its_numbers() {
    let output = admit(&["-"], GOOD.as_bytes());
    assert_eq!(output.status.code(), Some(0));
    let text = out(&output);
    for wanted in [
        "audio",
        "8ms",
        "12ms",
        "18ms",
        "32ms",
        "106.6667 %",
        "liu-layland",
        "rmdp",
        "response-time",
        "admitted under rmdp on 1 CPU",
    ] {
        assert!(text.contains(wanted), "{wanted} in\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "no colours into a pipe");
}

#[test]
fn a_reader_that_has_gone_is_no_failure() {
    for form in [&["-"][..], &["--json", "-"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = admit_to(writer.into(), form, GOOD.as_bytes());
        assert_eq!((output.status.code(), err(&output)), (Some(0), String::new()), "{form:?}");
    }
}

#[test]
fn the_verdict_comes_first_and_then_what_is_tightest() {
    let task = |at: u32| {
        let period = 1_000 - 10 * at;
        format!("[[task]]\nname = \"t{at}\"\nperiod = \"{period}ms\"\nwcet = \"1ms\"\n")
    };
    let contract: String = (0..30).map(task).collect();
    let few = out(&admit(&["-"], contract.as_bytes()));
    assert!(few.starts_with("admitted under "), "{few}");
    // The longest periods have the longest deadlines, and in this contract the most slack.
    assert!(few.contains("│ t29 ") && !few.contains("│ t9 "), "{few}");
    assert!(few.contains("the 20 of 30 tasks with the least slack; --all shows all"), "{few}");
    let all = out(&admit(&["--all", "-"], contract.as_bytes()));
    assert!(all.contains("│ t0 ") && all.contains("│ t29 "), "{all}");
    let refused = out(&admit(&["-"], contract.replace("1ms\"", "90ms\"").as_bytes()));
    assert!(refused.starts_with("refused "), "{refused}");
}

#[test]
fn json_says_the_same() {
    let page = json(GOOD, 0);
    assert_eq!(page["admitted"], true);
    assert_eq!(page["refusal"], Value::Null);
    assert_eq!(
        page["tasks"][1],
        serde_json::json!({
            "name": "video",
            "cpu": 0,
            "response_time_bound_ns": 18_000_000,
            "relative_deadline_ns": 20_000_000,
            "slack_ns": 2_000_000,
        })
    );
    let tests: Vec<_> = page["tests"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|test| (test["name"].as_str().expect("a name"), test["admits"] == true))
        .collect();
    assert_eq!(
        tests,
        [("liu-layland", false), ("rmdp", false), ("sha", false), ("response-time", true)]
    );
    assert_eq!(
        page["tests"][3]["why"],
        "every task meets its deadline; utilisation 83.3334 %, least slack 2ms, of task \"video\""
    );
    assert!(page["tests"][0]["why"].as_str().expect("a reason").contains("assumes"));
    assert_eq!(page["reservations"], serde_json::json!([]));
}

#[test]
fn a_refusal_names_the_task_the_shortfall_and_a_counter_offer() {
    let output = admit(&["-"], TOO_MUCH.as_bytes());
    assert_eq!(output.status.code(), Some(1));
    // More CPUs may be offered too, where the host has them.
    let sentence = "refused by the response-time test for want of processor time: task \"slow\" can \
                    take 52ms, which is 2ms more than its relative deadline of 50ms; it would be \
                    admitted if task \"slow\" had a wcet of at most 10ms, or a period of at least \
                    52ms, or a relative_deadline of at least 52ms";
    assert!(out(&output).contains(sentence), "{}", out(&output));

    let page = json(TOO_MUCH, 1);
    assert_eq!(page["admitted"], false);
    assert_eq!(page["tasks"][2]["slack_ns"], -2_000_000);
    let refusal = &page["refusal"];
    assert_eq!(refusal["test"], "response-time");
    assert_eq!(refusal["resource"], "processor time");
    assert_eq!(refusal["entry"], "slow");
    assert_eq!(refusal["shortfall_ns"], 2_000_000);
    assert_eq!(refusal["shortfall_bytes"], Value::Null);
    assert!(refusal["message"].as_str().is_some_and(|message| message.starts_with(sentence)));
    let offered = |axis: &str, to: u64| {
        serde_json::json!({
            "entry": "slow", "kind": "task", "axis": axis, "unit": "ns", "from":
                if axis == "wcet" { 12_000_000 } else { 50_000_000 }, "to": to,
        })
    };
    assert_eq!(refusal["counter_offers"][0], offered("wcet", 10_000_000));
    assert_eq!(refusal["counter_offers"][1], offered("period", 52_000_000));
    assert_eq!(refusal["counter_offers"][2], offered("relative_deadline", 52_000_000));
}

#[test]
fn the_counter_offer_of_a_refusal_is_admitted() {
    let smaller = TOO_MUCH.replace("12ms", "10ms");
    assert_eq!(json(&smaller, 0)["admitted"], true);
    let slower = TOO_MUCH.replace("50ms", "52ms");
    assert_eq!(json(&slower, 0)["admitted"], true);
}

#[test]
fn overload_has_null_bounds() {
    let overload = TOO_MUCH.replace("12ms", "40ms");
    let page = json(&overload, 1);
    assert_eq!(page["tasks"][2]["response_time_bound_ns"], Value::Null);
    assert_eq!(page["tasks"][2]["slack_ns"], Value::Null);
    assert_eq!(page["refusal"]["shortfall_ns"], Value::Null);
}

#[test]
fn a_command_in_a_server_is_told_how_soon_its_jobs_are_done() {
    let player = "[[reservation]]\nname = \"audio\"\nbudget = \"2ms\"\nperiod = \"8ms\"\n\
                  [[command]]\nname = \"player\"\nrun = [\"true\"]\nreservation = \"audio\"\n";
    // The ideal host's driver is late by the assumed 100 us.
    let page = json(player, 0);
    assert_eq!(page["reservations"][0]["job_within_ns"], 2_100_000);
    let tests: Vec<_> = page["tests"].as_array().expect("a list").iter().collect();
    assert!(tests.iter().any(|test| test["name"] == "server"), "{page}");
    let hard = format!("{player}enforcement = \"hard\"\n");
    assert_eq!(json(&hard, 0)["reservations"][0]["job_within_ns"], 2_100_000);
    // A tenth more than the budget is the most that a hard program may get.
    let small = hard.replace("2ms", "999us");
    assert_eq!(json(&small, 1)["refusal"]["resource"], "reservable bandwidth");
}

#[test]
fn reservations_are_listed_and_bounded() {
    let reservation = |name: &str, budget: &str| {
        format!("[[reservation]]\nname = \"{name}\"\nbudget = \"{budget}\"\nperiod = \"8ms\"\n")
    };
    let page = json(&reservation("modem", "2ms"), 0);
    let modem = serde_json::json!({
        "name": "modem", "budget_ns": 2_000_000, "period_ns": 8_000_000, "job_within_ns": null
    });
    assert_eq!(page["reservations"], serde_json::json!([modem]));
    let both = reservation("modem", "2ms") + &reservation("radio", "6ms");
    let page = json(&both, 1);
    assert_eq!(page["refusal"]["test"], "reservable-bandwidth");
    assert_eq!(page["refusal"]["entry"], "radio");
    assert_eq!(page["refusal"]["resource"], "reservable bandwidth");
    let offer = &page["refusal"]["counter_offers"][0];
    assert_eq!((offer["axis"].as_str(), offer["to"].as_u64()), (Some("budget"), Some(5_200_000)));
}

#[test]
fn more_cpus_than_there_are_is_a_refusal() {
    // This is the most a contract may ask for; a host that has as many CPUs would admit it.
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if cpus >= 1024 {
        return;
    }
    let page = json(&TOO_MUCH.replace("[system]", "[system]\ncpus = 1024"), 1);
    assert_eq!(page["refusal"]["test"], "cpus");
    let message = page["refusal"]["message"].as_str().expect("a sentence");
    assert!(message.contains("asks for 1024 CPUs and the host has"), "{message}");
}

#[test]
fn bad_contracts_exit_with_2_and_say_where() {
    for (contract, wanted) in [
        (GOOD.replace("wcet", "wect").into_bytes(), "standard input:8:1: unknown field `wect`"),
        (GOOD.replace("\"4ms\"", "4").into_bytes(), "standard input:8:8: wcet 4 has no unit"),
        (GOOD.replace("\"12ms\"", "\"0ms\"").into_bytes(), "the period is zero"),
        (vec![0xff, 0, 7, 1], "standard input:1:1: "),
        (
            GOOD.replace("period = \"20ms\"", "wcet = \"1ms\"").into_bytes(),
            "standard input:14:1: the key \"wcet\" is here for the second time",
        ),
        (Vec::new(), "declares nothing"),
        (vec![b'#'; 9 << 20], "longer than the 8 MiB"),
    ] {
        let output = admit(&["-"], &contract);
        assert_eq!(output.status.code(), Some(2), "{wanted}");
        assert!(output.stdout.is_empty());
        assert!(err(&output).contains(wanted), "{wanted} in {}", err(&output));
    }
}

#[test]
fn ten_thousand_tasks_are_answered_and_twenty_thousand_exit_with_2() {
    let many = |count: usize| -> String {
        (0..count)
            .map(|i| format!("[[task]]\nname = \"t{i}\"\nperiod = \"1s\"\nwcet = \"100us\"\n"))
            .collect()
    };
    let output = admit(&["-"], many(20_000).as_bytes());
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("at most 16384"), "{}", err(&output));
    let output = admit(&["-"], many(9_999).as_bytes());
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    // This is 100 µs a second more than a whole CPU, so no priority helps, and the answer says so.
    let output = admit(&["-"], many(10_001).as_bytes());
    assert_eq!(output.status.code(), Some(1));
    assert!(out(&output).contains("need more than the whole CPU"), "{}", out(&output));
}

#[test]
fn a_file_is_read_by_name_and_named_in_messages() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("contract.toml");
    std::fs::write(&path, GOOD).expect("written");
    let name = path.to_str().expect("UTF-8");
    assert_eq!(admit(&[name], b"").status.code(), Some(0));

    std::fs::write(&path, "[[task]").expect("written");
    let output = admit(&[name], b"");
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("contract.toml:1:"), "{}", err(&output));

    for (missing, why) in [("no/such.toml", "No such file"), ("/", "s a directory")] {
        let output = admit(&[missing], b"");
        assert_eq!(output.status.code(), Some(2));
        assert!(err(&output).contains(why), "{}", err(&output));
    }
}

#[test]
fn help_has_examples_and_exit_codes() {
    let output = admit(&["--help"], b"");
    assert_eq!(output.status.code(), Some(0));
    for wanted in ["punctual admit video.toml", "--json", "Exit codes"] {
        assert!(out(&output).contains(wanted), "{}", out(&output));
    }
}

/// A reservation alone in its CPU's timetable has one slot a period, and a gap for the rest.
#[test]
fn explained_reservations_have_a_timetable() {
    let modem = "[[reservation]]\nname = \"modem\"\nbudget = \"2ms\"\nperiod = \"8ms\"\n";
    let output = admit(&["--explain", "--json", "-"], modem.as_bytes());
    let page: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let share = &page["timetable"][0]["share"];
    assert_eq!(share["budget_ns"], 2_000_000);
    assert_eq!(share["longest_gap_ns"], 6_000_000);
    // The slot is longer by what a host that was not calibrated is allowed for it, 0.1 ms of 8 ms.
    let above = share["above_x_over_y_ppm"].as_u64().expect("a number");
    assert!((12_500..=12_501).contains(&above), "{above}");
    assert!(page["could_grow"].as_array().is_some_and(|numbers| !numbers.is_empty()));
    assert_eq!(json(modem, 0)["timetable"], Value::Null);
    assert!(out(&admit(&["--explain", "-"], modem.as_bytes())).contains("longest gap"));
}

/// A refusal for want of a cost that was not measured.
#[test]
fn missing_costs_are_told_with_the_command_that_measures_them() {
    let contract = "[sending]\nbandwidth = '40mbit/s'\npacket = '4KiB'\n\
                    [[channel]]\nname = 'in'\nmin_inter_arrival = '20ms'\nmax_message = '160B'\n\
                    delay_bound = '10ms'\n";
    let output = admit(&["--host-profile", "ideal", "-"], contract.as_bytes());
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert!(
        out(&output).contains("what sending costs on this host is not known"),
        "{}",
        out(&output)
    );
    assert!(out(&output).contains("punctual calibrate"), "{}", out(&output));
}

/// The link cannot send the stream's messages, but the answer still shows the derivation, and
/// offers a link that is fast enough.
#[test]
fn refused_streams_are_explained_and_a_faster_link_is_offered() {
    let contract = r#"
[sending]
bandwidth = "40mbit/s"
packet = "4KiB"
[sending.costs]
switch = "1us"
cache = "1us"
first_packet = "10us"
packet = "5us"
link_scheduling = "2us"
[[stream]]
name = "camera"
class = "continuous-media"
frame_rate = "30/s"
frame_size = "180KiB"
delay = "100ms"
time_per_pdu = "20us"
"#;
    let page = json(contract, 1);
    assert_eq!(page["refusal"]["resource"], "link time");
    let lines = page["streams"][0]["arithmetic"].as_array().expect("lines");
    assert!(lines.iter().any(|line| line.as_str().is_some_and(|line| line.starts_with("T = "))));
    let offers = page["refusal"]["counter_offers"].as_array().expect("a list");
    let faster = offers.iter().find(|offer| offer["axis"] == "bandwidth").expect("a faster link");
    assert_eq!(
        (faster["unit"].as_str(), faster["from"].as_u64()),
        (Some("bit/s"), Some(40_000_000))
    );
    let wanted = format!("\"{} bit/s\"", faster["to"]);
    let taken = contract.replace("\"40mbit/s\"", &wanted);
    assert_eq!(json(&taken, 0)["admitted"], true);

    let explained = out(&admit(&["--explain", "-"], contract.as_bytes()));
    assert!(explained.contains("stream \"camera\"\n  N = "), "{explained}");
    assert!(!out(&admit(&["-"], contract.as_bytes())).contains("N = "));
}
