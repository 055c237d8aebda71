//! Costs and broken promises.

use serde_json::Value;

use super::{STUDIO, jobs, json, page};

#[test]
fn every_fault_strikes_as_often_as_asked_and_tasks_alone() {
    let run = |fault: &[&str], exit| json(&[&[STUDIO, "--until", "2s"], fault].concat(), exit);
    let struck = |report: &Value, what: &str| report["faults"]["struck"][what].as_u64();
    let kept = run(&[], 0);
    let zero = ["overruns", "extra_releases", "late_timers", "stolen_ns"];
    assert!(zero.iter().all(|what| struck(&kept, what) == Some(0)), "{kept}");

    let always = run(&["--overrun", "3"], 1);
    assert_eq!(struck(&always, "overruns"), Some(jobs(&always)));
    assert_eq!(always["faults"]["overrun"]["percent"], 300);
    assert_eq!(always["seed"], Value::Null);
    assert!(always["tasks"][1]["late"].as_u64() > Some(0));
    assert_eq!(always["reservations"][0]["jobs"], kept["reservations"][0]["jobs"]);

    let sometimes = run(&["--overrun", "1.01:1/10"], 0);
    let overruns = struck(&sometimes, "overruns").expect("a number");
    assert!((10..80).contains(&overruns), "{overruns} of {}", jobs(&sometimes));

    let extra = run(&["--extra-releases", "1/20"], 0);
    assert_eq!(struck(&extra, "extra_releases"), Some(jobs(&extra) - jobs(&kept)));
    assert!(jobs(&extra) > jobs(&kept));

    let late = run(&["--late-timers", "200us:1/4"], 0);
    assert!((40..140).contains(&struck(&late, "late_timers").expect("a number")));

    let stolen = run(&["--stolen", "1ms/20ms"], 0);
    let taken = struck(&stolen, "stolen_ns").expect("a number");
    assert!((99_000_000..=102_000_000).contains(&taken), "{taken}");
    let worst = |report: &Value| report["tasks"][1]["max_response_time_ns"].as_u64();
    assert!(worst(&stolen) > worst(&kept));

    let text = page(&[STUDIO, "--until", "2s", "--overrun", "3"], 1);
    let sentence = "injected: overruns to 300 % of the running time in every job: 350";
    assert!(text.contains(sentence), "{text}");
}

#[test]
fn overheads_are_paid_and_admission_knows_them() {
    let free = json(&[STUDIO, "--until", "1s"], 0);
    let dear = json(&[STUDIO, "--until", "1s", "--overheads", "20us,30us"], 0);
    assert_eq!(dear["overheads"]["cache_ns"], 30_000);
    for key in ["max_response_time_ns", "response_time_bound_ns"] {
        let of = |report: &Value| report["tasks"][1][key].as_u64().expect("a number");
        assert!(of(&free) < of(&dear), "{key}");
    }
    // A third of the CPU goes into switching.
    let page = page(&[STUDIO, "--until", "1s", "--overheads", "1ms"], 1);
    assert!(page.contains("refuses this contract with these switches"), "{page}");
}
