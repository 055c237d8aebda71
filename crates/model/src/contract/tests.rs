use alloc::format;
use alloc::string::{String, ToString};

use super::*;
use crate::{Duration, Service};

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

[[reservation]]
name = "modem"
budget = "1.84ms"
period = "12.5ms"
"#;

fn parse(text: &str) -> Result<Contract, ContractError> {
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
    assert_eq!(names, ["sender", "video"], "file order, across kinds of entry");
    assert_eq!(contract.tasks[0].quantum(), Service::from_micros(500));
    assert_eq!(contract.tasks[1].release_jitter(), Duration::from_millis(1));
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
    assert_eq!(task.quantum(), Service::ZERO);
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
            "[[reservation]]\nname = \"m\"\nbudget = \"9ms\"\nperiod = \"8ms\"".into(),
            "c.toml:3:10: the budget 9ms is above the period 8ms",
        ),
        (
            "[[reservation]]\nname = \"m\"\nbudget = \"9ms\"\nperiod = \"0s\"".into(),
            "c.toml:4:10: the period is zero",
        ),
        (
            "[system]\npolicy = \"fifo\"".into(),
            "c.toml:2:10: unknown policy \"fifo\"; choose rmdp, rm, fp or edf",
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
fn ten_thousand_tasks_are_refused_at_the_first_too_many() {
    let mut text = String::new();
    for i in 0..10_000 {
        text += &format!("[[task]]\nname = \"t{i}\"\nperiod = \"10ms\"\nwcet = \"1us\"\n");
    }
    let message = refusal(&text);
    assert!(message.starts_with("c.toml:16385:1: this is entry 4097 of 10000"), "{message}");
}

#[test]
fn bytes_that_are_not_text_are_refused_with_their_place() {
    let error = Contract::parse("c.toml", b"[system]\ncp\xffus = 1").expect_err("not UTF-8");
    assert_eq!((error.line, error.column), (2, 3));
}

/// A cheap stand-in for the fuzzer, on every test run: whatever one changes in a good contract,
/// the answer is a contract or an error with a place in the file, never a panic.
#[test]
fn mutilated_contracts_never_panic() {
    let good = GOOD.as_bytes();
    let lines = GOOD.lines().count();
    for at in 0..good.len() {
        for byte in [0, b'"', b'[', b'9', b'-', b'\n', 0xff, 0xc3] {
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
