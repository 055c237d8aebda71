//! Costs and broken promises.

use serde_json::Value;

use super::{CHANNELS, STUDIO, jobs, json, list, page, written};

#[test]
fn every_fault_strikes_as_often_as_asked_and_tasks_alone() {
    let run = |fault: &[&str], exit| json(&[&[STUDIO, "--for", "2s"], fault].concat(), exit);
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

    let text = page(&[STUDIO, "--for", "2s", "--overrun", "3"], 1);
    let sentence = "injected: overruns to 300 % of the running time in every job: 350";
    assert!(text.contains(sentence), "{text}");
}

#[test]
fn overheads_are_paid_and_admission_knows_them() {
    let free = json(&[STUDIO, "--for", "1s"], 0);
    let dear = json(&[STUDIO, "--for", "1s", "--overheads", "20us,30us"], 0);
    assert_eq!(dear["overheads"]["cache_ns"], 30_000);
    for key in ["max_response_time_ns", "response_time_bound_ns"] {
        let of = |report: &Value| report["tasks"][1][key].as_u64().expect("a number");
        assert!(of(&free) < of(&dear), "{key}");
    }
    // A third of the CPU's time goes into switching.
    let page = page(&[STUDIO, "--for", "1s", "--overheads", "1ms"], 1);
    assert!(page.contains("refuses this contract with these switches"), "{page}");
}

/// A sender exceeds its contract. Excess messages are discarded on the way in and wait on the way
/// out, and no other entry is late.
#[test]
fn a_flood_is_policed_and_reported() {
    let receiving = "[[channel]]\nname = 'in'\nmax_message = '200B'\nmin_inter_arrival = '10ms'\n\
                     delay_bound = '1ms'\ndirection = 'receive'\n";
    let contract = std::fs::read_to_string(CHANNELS).expect("there") + receiving;
    let (_folder, path) = written(&contract);
    let kept = json(&[&path, "--for", "1s"], 0);
    let of = |report: &Value, list_of: &str, name: &str, key: &str| {
        let named = list(report, list_of).iter().find(|entry| entry["name"] == name);
        named.expect(name)[key].as_u64().expect("a number")
    };
    assert_eq!(of(&kept, "receiving", "in", "taken"), 100);
    let name = list(&kept, "channels")[0]["name"].as_str().expect("a name");
    let floods = ["--flood", "in:20", "--flood", &format!("{name}:5")];
    let flooded = json(&[&[&path[..], "--for", "1s"], &floods[..]].concat(), 0);
    assert_eq!(flooded["faults"]["floods"][0]["times"], 20);
    let discarded = ["non_conforming", "dropped"].map(|key| of(&flooded, "receiving", "in", key));
    assert_eq!(of(&flooded, "receiving", "in", "messages"), 2_000);
    // No more than conform: 100, and those that a network may have bunched. As many are read as
    // were charged, an eighth more than conform, and the rest stays in the socket or is dropped.
    assert!((80..=102).contains(&of(&flooded, "receiving", "in", "taken")), "{flooded}");
    assert!(discarded.iter().sum::<u64>() > 1_000 && discarded[0] < 200, "{flooded}");
    assert!(of(&flooded, "channels", name, "not_conforming") > 0, "{flooded}");

    let none = ["simulate", &path, "--flood", "nobody:2"];
    let output = crate::common::punctual(&none);
    assert_eq!(output.status.code(), Some(2));
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(why.contains("\"nobody\" is no channel and no stream"), "{why}");
    assert!(why.contains("see --flood"), "{why}");
}
