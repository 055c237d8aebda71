//! Contracts that are valid but huge: each is simulated to its end, or refused with the number that
//! is too large.

use super::common::{punctual, text};
use super::{CHANNELS, STUDIO, written};

/// A job of half an hour with a yield point each nanosecond, beside one that preempts it.
const FINE: &str = "
[system]
policy = 'rmdp'
[[task]]
name = 'urgent'
period = '60s'
wcet = '1ms'
[[task]]
name = 'long'
period = '7200s'
wcet = '1800s'
quantum = 'QUANTUM'
";

fn simulated(quantum: &str) -> serde_json::Value {
    let (_folder, path) = written(&FINE.replace("QUANTUM", quantum));
    let output = punctual(&["simulate", &path, "--for", "7200s", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let mut page: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    page["tasks"].take()
}

#[test]
fn unused_yield_points_take_no_time() {
    // Without a quantum it is preemptible anywhere, and so at each nanosecond too.
    let (mut fine, mut anywhere) = (simulated("1ns"), simulated("0ns"));
    for tasks in [&mut fine, &mut anywhere] {
        for task in tasks.as_array_mut().expect("tasks") {
            // The bounds differ, because the blocking does.
            task.as_object_mut().expect("a task").remove("response_time_bound_ns");
        }
    }
    assert_eq!(fine, anywhere);
}

#[test]
fn too_many_jobs_are_refused_with_the_number_and_its_place() {
    let period = "[[task]]\nname = 'tiny'\nperiod = '2ns'\nwcet = '1ns'\n";
    let budget = "[[reservation]]\nname = 'tiny'\nbudget = '1ns'\nperiod = '3ns'\n";
    let channels = std::fs::read_to_string(CHANNELS).expect("there");
    let rate = channels.replace("min_inter_arrival = \"20ms\"", "min_inter_arrival = \"2ns\"");
    assert_ne!(channels, rate);
    let studio = std::fs::read_to_string(STUDIO).expect("there");
    for (contract, arguments, place) in [
        (period, &[][..], "[[task]] \"tiny\": a job every 2ns"),
        (budget, &[], "[[reservation]] \"tiny\": a budget every 3ns"),
        (&rate, &[], "[[channel]] \"telephone\": a message of 1 packets every 2ns"),
        (&studio, &["--stolen", "1ns/2ns"], "1ns/2ns stolen: the CPU is taken away"),
    ] {
        let (_folder, path) = written(contract);
        let output = punctual(&[&["simulate", &path], arguments].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{place}: {said}");
        assert!(said.contains(place) && said.contains("--for"), "{place}: {said}");
        assert!(arguments.iter().take(1).all(|option| said.contains(option)), "{said}");
        // The suggested value must be accepted.
        let until = said.trim_end().rsplit_once(' ').expect("words").1;
        assert!(until.ends_with('s'), "{said}");
    }
}
