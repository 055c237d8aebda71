//! Schedules that show why a contract was refused.

use serde_json::Value;

use super::{BLOCKED, CHANNELS, DHALL, OVERLOADED, STUDIO, json, list, page, trace, written};
use crate::common::{punctual, text};

#[test]
fn a_refused_contract_has_a_witness() {
    let (folder, path) = written(BLOCKED);
    let refused = page(&[&path], 1);
    let again = format!("punctual simulate --witness {path}");
    assert!(refused.contains(&again), "{refused}");
    let admit = punctual(&["admit", &path]);
    assert!(text(&admit.stdout).ends_with(&format!("see it happen: {again}\n")));

    let trace_path = folder.path().join("trace.json");
    let trace_path = trace_path.to_str().expect("UTF-8");
    let report = json(&[&path, "--witness", "--perfetto", trace_path], 1);
    let witness = &report["witness"];
    assert_eq!((&witness["task"], &witness["job"]), (&"urgent".into(), &0.into()));
    let number = |key: &str| witness[key].as_u64().expect("a number");
    assert_eq!(number("completion_ns") - number("absolute_deadline_ns"), 999_999);
    // The blocker, the late job, and one more that was released while that was late.
    let known = list(witness, "releases").iter().map(|job| job["task"].as_str().expect("text"));
    assert_eq!(known.collect::<Vec<_>>(), ["slow", "urgent", "urgent"]);
    // In the trace, the same job completes at the same instant.
    let slices = trace(trace_path);
    let last = slices.iter().find(|slice| slice["name"] == "urgent").expect("ran");
    let end = last["ts"].as_f64().expect("a number") + last["dur"].as_f64().expect("a number");
    assert!((end - number("completion_ns") as f64 / 1000.0).abs() < 1e-3, "{last}");
    let page = page(&[&path, "--witness"], 1);
    assert!(page.contains("999.999us late, 10.999999ms after its release"), "{page}");
}

/// A reservation of the kernel preempts tasks at any point of their quanta, also in a witness.
#[test]
fn a_witness_has_reservations_in_their_layer() {
    let reserved =
        format!("{BLOCKED}[[reservation]]\nname = 'modem'\nbudget = '1ms'\nperiod = '10ms'\n");
    let (folder, path) = written(&reserved);
    let slices_path = folder.path().join("trace.json");
    let slices_path = slices_path.to_str().expect("UTF-8");
    let report = json(&[&path, "--witness", "--perfetto", slices_path], 1);
    assert_eq!(report["witness"]["task"], "urgent", "{report}");
    let slices = trace(slices_path);
    let budgets = slices.iter().filter(|slice| slice["name"] == "modem");
    let mut count = 0;
    for slice in budgets {
        let release = slice["args"]["release_ns"].as_f64().expect("a number") / 1_000.0;
        assert_eq!((slice["ts"].as_f64(), slice["dur"].as_f64()), (Some(release), Some(1_000.0)));
        count += 1;
    }
    assert!(count > 0, "{slices:?}");
}

#[test]
fn an_admitted_contract_has_no_witness_and_no_hint() {
    for contract in [STUDIO, CHANNELS] {
        assert!(page(&[contract, "--witness"], 0).contains("no schedule with a late job"));
        assert!(!page(&[contract], 0).contains("--witness"));
    }
    let (_folder, path) = written(DHALL);
    assert_eq!(json(&[&path, "--witness"], 0)["witness"], Value::Null);
    // Reservations are part of the refusal, so a late schedule may not exist.
    assert!(!text(&punctual(&["admit", OVERLOADED]).stdout).contains("see it happen"));
}

/// The search ends with its budget however many pairs of tasks there are.
#[test]
fn many_tasks_are_searched_within_the_budget() {
    let task = |at| {
        format!("[[task]]\nname = 't{at}'\nperiod = '900ms'\nwcet = '1ms'\nquantum = '500us'\n")
    };
    let (_folder, path) = written(&(0..600).map(task).collect::<String>());
    assert_eq!(json(&[&path, "--witness"], 0)["witness"], Value::Null);
}
