//! Tests of the parts that are listed as not carried over, and of refusals.

use alloc::format;
use alloc::vec::Vec;

use super::{good, has_note, refusal, workload};

#[test]
fn parts_that_cannot_be_carried_over_are_listed_with_their_place() {
    let text = r#"{
"global" : { "duration" : 5, "default_policy" : "SCHED_OTHER", "ftrace" : "none" },
"resources" : { "m" : { "type" : "mutex" } },
"tasks" : { "a" : {
  "delay" : 5,
  "loop" : 3,
  "taskgroup" : "/g",
  "util_min" : 5, "util_max" : 6,
  "nodes_membind" : [0],
  "run" : 0,
  "whatever" : 1,
  "loop" : 4,
  "phases" : {
    "p" : {
      "priority" : 4,
      "lock" : "m", "unlock" : "m",
      "wait" : { "ref" : "q", "mutex" : "m" },
      "signal" : "q",
      "fork" : "b",
      "yield" : "",
      "memrun" : { "type" : "read", "size" : 1, "count" : 1 },
      "run" : 1, "timer" : { "ref" : "t", "period" : 9 }
    } } } },
"more" : 1
}"#;
    let imported = good(text);
    for (line, column, part) in [
        (2, 1, "duration, ftrace"),
        (3, 1, "rt-app makes them"),
        (4, 1, "asks for one CPU"),
        (4, 13, "rate-monotonic"),
        (5, 3, "the worst start"),
        (6, 3, "work has no end"),
        (7, 3, "\"taskgroup\""),
        (8, 3, "\"util_min\""),
        (8, 19, "\"util_max\""),
        (9, 3, "does not place memory"),
        (10, 3, "rt-app ignores it beside phases"),
        (11, 3, "knows no such key"),
        (12, 3, "the first one holds"),
        (15, 7, "one scheduling class"),
        (16, 7, "\"lock\" (and 1 more here)"),
        (17, 7, "waits for other threads"),
        (18, 7, "which thread wakes which"),
        (19, 7, "how many threads this starts"),
        (20, 7, "gives up the CPU"),
        (21, 7, "the wcet is without it"),
        (24, 1, "no part of a workload"),
    ] {
        assert!(has_note(&imported, (line, column), part), "{line}:{column} {part}");
    }
    assert_eq!(imported.notes.len(), 21, "{:#?}", imported.notes);
    let places: Vec<_> = imported.notes.iter().map(|note| (note.line, note.column)).collect();
    assert!(places.is_sorted());
}

#[test]
fn errors_of_rt_app_and_of_contracts_are_refused_with_their_place() {
    for (text, wanted) in [
        ("{}".into(), "1:1: there are no \"tasks\""),
        ("[]".into(), "1:1: a workload is an object"),
        ("{\"tasks\":[]}".into(), "1:10: \"tasks\" takes an object in { }, not a list"),
        ("{\"tasks\":{}}".into(), "1:2: there is no thread"),
        (workload(&[r#""a":{"loop":3}"#]), "2:1: \"a\" does nothing"),
        (workload(&[r#""a":{"phases":{"p":{}}}"#]), "2:16: \"p\" does nothing"),
        (workload(&[r#""a":{"run":"10"}"#]), "2:12: \"run\" takes a whole number, not text"),
        (workload(&[r#""a":{"run"}"#]), "2:11: \"run\" takes a whole number, not nothing"),
        (workload(&[r#""a":{"run":-1}"#]), "2:12: run is -1; it must be from 0 to 86400000000"),
        (workload(&[r#""a":{"run":86400000001}"#]), "2:12: run is 86400000001"),
        (workload(&[r#""a":{"timer":5}"#]), "2:14: \"timer\" takes an object"),
        (workload(&[r#""a":{"lock":5}"#]), "2:13: \"lock\" takes text in quotes"),
        (workload(&[r#""a":{"run":1,"instance":-1}"#]), "2:25: instance is -1"),
        (workload(&[r#""a":{"run":1,"policy":"FIFO"}"#]), "2:23: unknown policy \"FIFO\""),
        (
            workload(&[r#""a":{"run":1,"policy":"SCHED_RR","priority":0}"#]),
            "2:45: priority is 0; under SCHED_FIFO and SCHED_RR it is from 1 to 99",
        ),
        (
            workload(&[r#""a":{"run":11,"timer":{"period":10}}"#]),
            "2:6: \"a\" runs 11us, which does not fit in its period 10us",
        ),
        (
            workload(&[r#""a":{"run":5,"sleep":6,"run":1,"timer":{"period":10}}"#]),
            "\"a\" runs 6us with 6us of sleep between its runs, which does not fit",
        ),
        (
            workload(&[r#""a":{"run":1,"sleep":86400000000}"#]),
            "2:1: \"a\" has jobs a day or more apart",
        ),
        (
            workload(&[r#""a":{"instance":20000,"run":1,"sleep":1}"#]),
            "2:17: with this thread there are more than 16384 entries",
        ),
        (workload(&[r#""\u001b":{"run":1,"sleep":1}"#]), "2:1: a name has no control characters"),
        (workload(&[r#""":{"run":1,"sleep":1}"#]), "must have from 1 to 64 characters"),
    ] {
        let message = refusal(&text);
        assert!(
            message.contains(&format!("w.json:{wanted}")) || message.contains(wanted),
            "{text}\n{message}"
        );
    }
}
