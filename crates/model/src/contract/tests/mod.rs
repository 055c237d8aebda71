mod commands;
mod routes;
mod sending;

use alloc::format;
use alloc::string::{String, ToString};

use super::*;
use crate::{Duration, FileError, Overrun, Service};

const SENDING: &str = "[sending]\nbandwidth = \"160mbit/s\"\npacket = \"4KiB\"\n";

/// Every section and nearly every key.
const GOOD: &str = r#"
[system]
policy = "fp"
cpus = 2

[[upcall]]
name = "sender"
period = "40ms"
batch = 8
quantum = 2
time_per_pdu = "250us"

[[task]]
name = "video"
min_inter_arrival = "40ms"
relative_deadline = "30ms"
release_jitter = "1ms"
wcet = "3ms"
quantum = "1ms"
last_segment = "200us"

[[task]]
name = "atomic"
period = "40ms"
wcet = "1ms"
preemptible = false

[[reservation]]
name = "modem"
budget = "1.84ms"
period = "12.5ms"

[sending]
bandwidth = "160mbit/s"
startup = "40us"
packet = "4KiB"
packets_per_block = 2
cpu = "400us/1ms"
allowance = "200us"
best_effort = "2KiB"
best_effort_min = "64B"
memory = "4MiB"

[sending.costs]
switch = "55us"
cache = "90us"
first_packet = "420us"
packet = "170us"
link_scheduling = "40us"

[[channel]]
name = "audio"
max_message = "32KiB"
min_message = "16KiB"
max_rate = "10/s"
max_burst = 2
delay_bound = "100ms"

[[channel]]
name = "film"
class = "rt-vbr"
peak_rate = "12.5mbit/s"
sustained_rate = "10mbit/s"
max_sdu = "8KiB"
delay_variation_tolerance = "1ms"
delay_bound = "20ms"

[[channel]]
name = "rest"
class = "ubr"
peak_rate = "1MB/s"
max_sdu = "9000B"

[[stream]]
name = "camera"
class = "high-bandwidth-messages"
frame_rate = "29.97/s"
frame_size = "24KiB"
burst = 2
delay = "100ms"
tolerated_loss = "0.5%"
time_per_pdu = "50us"
"#;

fn parse(text: &str) -> Result<Contract, FileError> {
    Contract::parse("c.toml", text.as_bytes())
}

fn refusal(text: &str) -> String {
    parse(text).expect_err("must be refused").to_string()
}

#[test]
fn a_good_contract_becomes_types() {
    let contract = parse(GOOD).expect("good");
    assert_eq!(contract.policy, Policy::Fp);
    assert_eq!(contract.cpus, 2);
    let names: Vec<&str> = contract.tasks.iter().map(Task::name).collect();
    assert_eq!(names, ["sender", "video", "atomic"], "file order, across kinds of entry");
    assert_eq!(contract.tasks[0].quantum(), Service::from_micros(500));
    assert_eq!(contract.tasks[1].release_jitter(), Duration::from_millis(1));
    assert_eq!(contract.tasks[1].last_segment(), Service::from_micros(200));
    assert!(contract.tasks[2].is_non_preemptive() && !contract.tasks[1].is_non_preemptive());
    assert_eq!(contract.upcalls.len(), 1);
    assert_eq!(contract.reservations[0].reservation.to_string(), "1.84ms/12.5ms");
}

#[test]
fn defaults_are_those_documented() {
    let contract =
        parse("[[task]]\nname = \"a\"\nperiod = \"10ms\"\nwcet = \"1ms\"\n").expect("good");
    assert_eq!((contract.policy, contract.cpus), (Policy::Rmdp, 1));
    let task = &contract.tasks[0];
    assert_eq!(task.relative_deadline(), Duration::from_millis(10));
    assert_eq!(task.release_jitter(), Duration::ZERO);
    assert_eq!((task.quantum(), task.last_segment()), (Service::ZERO, Service::ZERO));
    let text = "[[task]]\nname = \"a\"\nperiod = \"10ms\"\nwcet = \"2ms\"\nlast_segment = \"1ms\"\n\
                preemptible = true\n";
    let task = &parse(text).expect("good").tasks[0];
    assert_eq!(task.quantum(), Service::from_millis(1), "the last segment is one of the stretches");
}

#[test]
fn every_error_has_its_place_and_says_what_would_be_right() {
    let task = |rest: &str| format!("[[task]]\nname = \"a\"\n{rest}\n");
    for (text, wanted) in [
        (task("perod = \"10ms\"\nwcet = \"1ms\""), "c.toml:3:1: unknown field `perod`"),
        (task("perod = \"10ms\"\nwcet = \"1ms\""), "did you mean `period`?"),
        (task("period = 10\nwcet = \"1ms\""), "c.toml:3:10: period 10 has no unit"),
        (task("period = \"10\"\nwcet = \"1ms\""), "c.toml:3:10: period \"10\" has no unit"),
        (task("period = \"0ms\"\nwcet = \"1ms\""), "c.toml:3:10: the period is zero"),
        (task("period = \"10ms\"\nwcet = \"11ms\""), "c.toml:4:8: the wcet 11ms does not fit"),
        (task("wcet = \"1ms\""), "c.toml:2:8: task \"a\" has no period"),
        (task("period = \"10ms\""), "missing field `wcet`"),
        (
            task("period = \"10ms\"\nmin_inter_arrival = \"10ms\"\nwcet = \"1ms\""),
            "c.toml:4:21: task \"a\" has both",
        ),
        (
            task("period = \"10ms\"\nwcet = \"1ms\"\nquantum = \"2ms\""),
            "c.toml:5:11: the quantum 2ms is longer",
        ),
        (
            task("period = \"10ms\"\nwcet = \"1ms\"\nlast_segment = \"2ms\""),
            "c.toml:5:16: the last segment 2ms is longer than the whole job, whose wcet is 1ms",
        ),
        (
            task("period = \"10ms\"\nwcet = \"3ms\"\nquantum = \"1ms\"\nlast_segment = \"2ms\""),
            "c.toml:6:16: the last segment 2ms is longer than the quantum 1ms",
        ),
        (
            task("period = \"10ms\"\nwcet = \"3ms\"\nquantum = \"1ms\"\npreemptible = false"),
            "c.toml:5:11: task \"a\" is not preemptible, so the whole job is one segment; remove quantum",
        ),
        (
            task("period = \"10ms\"\nwcet = \"3ms\"\npreemptible = false\nlast_segment = \"3ms\""),
            "c.toml:6:16: task \"a\" is not preemptible",
        ),
        (
            task("period = \"10ms\"\nwcet = \"1ms\"\npreemptable = false"),
            "did you mean `preemptible`?",
        ),
        (task("period = true\nwcet = \"1ms\""), "c.toml:3:10: invalid type: boolean"),
        (
            "[[reservation]]\nname = \"m\"\nbudget = \"9ms\"\nperiod = \"8ms\"".into(),
            "c.toml:3:10: the budget 9ms is above the period 8ms",
        ),
        (
            "[[reservation]]\nname = \"m\"\nbudget = \"9ms\"\nperiod = \"0s\"".into(),
            "c.toml:4:10: the period is zero",
        ),
        (
            "[system]\npolicy = \"lifo\"".into(),
            "c.toml:2:10: unknown policy \"lifo\"; choose rmdp, rm,",
        ),
        ("[system]\ncpus = 0".into(), "c.toml:2:8: cpus is 0"),
        ("[system]\ncpus = -1".into(), "c.toml:2:8: cpus is -1"),
        (String::new(), "c.toml:1:1: the contract declares nothing"),
        ("[[task]".into(), "c.toml:1:8: "),
        (
            format!("{0}{0}", task("period = \"10ms\"\nwcet = \"1ms\"")),
            "c.toml:6:8: the name \"a\" is taken",
        ),
        (
            task("period = \"10ms\"\nwcet = \"1ms\"").replace("\"a\"", "\"\\u001b[31m\""),
            "c.toml:2:8: a name has no control characters",
        ),
    ] {
        let message = refusal(&text);
        assert!(message.contains(wanted), "{text}\n gave {message}\n wanted {wanted}");
    }
}

#[test]
fn twenty_thousand_tasks_are_refused_at_the_first_too_many() {
    let mut text = String::new();
    for i in 0..20_000 {
        text += &format!("[[task]]\nname = \"t{i}\"\nperiod = \"10ms\"\nwcet = \"1us\"\n");
    }
    let message = refusal(&text);
    assert!(message.starts_with("c.toml:65537:1: this is entry 16385 of 20000"), "{message}");
}

#[test]
fn bytes_that_are_not_text_are_refused_with_their_place() {
    let error = Contract::parse("c.toml", b"[system]\ncp\xffus = 1").expect_err("not UTF-8");
    assert_eq!((error.line, error.column), (2, 3));
}

/// The parser's error for an unknown key lists all known ones; the reference must have each of
/// them.
#[test]
fn the_reference_has_every_key() {
    let reference = include_str!("../../../../../docs/contract.md");
    let mut keys = 0;
    for section in [
        "[system]",
        "[[task]]",
        "[[upcall]]",
        "[[reservation]]",
        "[sending]",
        "[sending.costs]",
        "[[channel]]",
        "[[stream]]",
    ] {
        let heading = format!("## `{section}`");
        let (_, part) = reference.split_once(&heading).expect("a part for each section");
        let part = part.split("\n## ").next().unwrap_or(part);
        let message = refusal(&format!("{section}\nno_such_key = 1\n"));
        let known = message.split("expected").nth(1).expect("a list");
        for key in known.split('`').skip(1).step_by(2) {
            // The costs have a section of their own.
            assert!(key == "costs" || part.contains(&format!("`{key}`")), "{section} {key}");
            keys += 1;
        }
    }
    assert_eq!(keys, 2 + 10 + 6 + 3 + 11 + 5 + 19 + 9, "as many as `raw` has");
}

/// A cheap substitute for the fuzzer on every test run: any change to a good contract yields a
/// contract or an error with a place in the file, never a panic.
#[test]
fn mutilated_contracts_never_panic() {
    let good = GOOD.as_bytes();
    let lines = GOOD.lines().count();
    for at in 0..good.len() {
        for byte in [0, b'"', b'[', b'9', b'-', b'/', b'\n', 0xff, 0xc3] {
            let mut bytes = good.to_vec();
            bytes[at] = byte;
            if let Err(error) = Contract::parse("c.toml", &bytes) {
                assert!((1..=lines + 2).contains(&error.line) && error.column >= 1);
            }
        }
        if let Err(error) = Contract::parse("c.toml", &good[..at]) {
            assert!((1..=lines + 2).contains(&error.line) && error.column >= 1);
        }
    }
}

#[test]
fn an_upcall_names_its_overrun_policy() {
    let upcall = |line: &str| {
        let head = "[[upcall]]\nname = \"u\"\nperiod = \"40ms\"\nbatch = 2\n";
        parse(&format!("{head}time_per_pdu = \"1ms\"\n{line}"))
    };
    assert_eq!(upcall("").expect("valid").upcalls[0].overrun(), Overrun::CatchUp);
    for (name, overrun) in Overrun::NAMES {
        let contract = upcall(&format!("overrun = \"{name}\"")).expect("valid");
        assert_eq!(contract.upcalls[0].overrun(), overrun);
    }
    let refused = upcall("overrun = \"drop\"").expect_err("no such policy").to_string();
    for said in [":6:11", "\"drop\"", "\"demote\""] {
        assert!(refused.contains(said), "{refused}");
    }
}
