//! The layers of a CPU: the kernel's reservations, the slots of a timetable, the tasks.

use serde_json::Value;

use super::{json, list, trace, written};

/// A reservation beside a task whose quantum is longer than the reservation's period.
const QUANTUM: &str = "
[system]
policy = 'rmdp'
[[task]]
name = 'slow'
period = '100ms'
wcet = '20ms'
quantum = '20ms'
[[reservation]]
name = 'short'
budget = '1ms'
period = '4ms'
[[reservation]]
name = 'long'
budget = '2ms'
period = '8ms'
";

#[test]
fn no_quantum_of_a_task_delays_a_reservation() {
    let (folder, path) = written(QUANTUM);
    let slices = folder.path().join("trace.json");
    let slices = slices.to_str().expect("UTF-8");
    for (at, arrivals) in ["periodic", "adversarial", "sporadic", "bursty"].into_iter().enumerate()
    {
        let slices = format!("{slices}{at}");
        let report = json(&[&path, "--arrivals", arrivals, "--perfetto", &slices], 0);
        assert_eq!(report["admitted"], true, "{report}");
        for reservation in list(&report, "reservations") {
            assert_eq!(reservation["late"], 0, "{arrivals} {reservation}");
        }
        assert!(list(&report, "tasks")[0]["gave_way"].as_u64() > Some(0), "{report}");
        without_overlap(&slices);
    }
    let report = json(&[&path, "--arrivals", "adversarial"], 0);
    assert_eq!(list(&report, "reservations")[0]["max_response_time_ns"], 1_000_000);
}

/// Earliest deadline first keeps both reservations; rate-monotonic order does not.
#[test]
fn the_reservations_of_the_kernel_go_by_deadline() {
    let contract = "
[[reservation]]
name = 'a'
budget = '2ms'
period = '5ms'
[[reservation]]
name = 'b'
budget = '3100us'
period = '7ms'
";
    let (_folder, path) = written(contract);
    let report = json(&[&path, "--overheads", "0ns"], 0);
    let late = |at: usize| list(&report, "reservations")[at]["late"].clone();
    assert_eq!((report["admitted"].clone(), late(0), late(1)), (true.into(), 0.into(), 0.into()));
}

/// Two commands in one timetable, and a task below them.
const COMMANDS: &str = "
[system]
policy = 'rm'
[[task]]
name = 'below'
period = '50ms'
wcet = '10ms'
[[reservation]]
name = 'quick'
budget = '2ms'
period = '8ms'
[[reservation]]
name = 'heavy'
budget = '8ms'
period = '32ms'
[[command]]
name = 'one'
run = ['true']
reservation = 'quick'
backend = 'timetable'
[[command]]
name = 'two'
run = ['true']
reservation = 'heavy'
backend = 'timetable'
";

#[test]
fn commands_are_served_in_their_slots_and_tasks_between_them() {
    let (folder, path) = written(COMMANDS);
    let slices = folder.path().join("trace.json");
    let slices = slices.to_str().expect("UTF-8");
    let report = json(&[&path, "--overheads", "0ns", "--perfetto", slices], 0);
    assert_eq!(report["admitted"], true);
    let slices = without_overlap(slices);
    let of = |name: &str| -> Vec<(u64, u64)> {
        slices.iter().filter(|(of, _, _)| of == name).map(|(_, from, to)| (*from, *to)).collect()
    };
    // One cycle is 32 ms, with slots of 2.1 ms in every 8 ms. The first 100 us of each are the
    // allowance.
    let (quick, heavy) = (of("quick"), of("heavy"));
    for (turn, &(from, to)) in (0..).zip(&quick) {
        assert_eq!((from, to), (turn * 8_000_000 + 100_000, turn * 8_000_000 + 2_100_000));
    }
    for reservation in list(&report, "reservations") {
        assert_eq!(reservation["late"], 0, "{reservation}");
    }
    let seen = |at: usize| list(&report, "reservations")[at]["max_response_time_ns"].as_u64();
    assert_eq!(seen(0), Some(2_100_000));
    // Its 8 ms lie between the slots of the other command.
    assert_eq!(seen(1), heavy.iter().map(|(_, to)| *to).filter(|to| *to < 32_000_000).max());
    // The task never runs in a slot, and begins where the slots end.
    let below = of("below");
    assert!(below.iter().all(|(from, to)| {
        (0..1_250).all(|turn| {
            let slot = (turn * 8_000_000, turn * 8_000_000 + 2_100_000);
            *to <= slot.0 || slot.1 <= *from
        })
    }));
    let bound = list(&report, "tasks")[0]["response_time_bound_ns"].as_u64();
    assert!(list(&report, "tasks")[0]["max_response_time_ns"].as_u64() <= bound, "{report}");
}

/// Returns all slices as name, begin and end in nanoseconds, and checks that they do not overlap.
fn without_overlap(path: &str) -> Vec<(String, u64, u64)> {
    let nanos = |slice: &Value, key: &str| {
        (slice[key].as_f64().expect("a number") * 1_000.0).round() as u64
    };
    let mut slices: Vec<(String, u64, u64)> = trace(path)
        .iter()
        .map(|slice| {
            let (from, length) = (nanos(slice, "ts"), nanos(slice, "dur"));
            (slice["name"].as_str().expect("a name").to_owned(), from, from + length)
        })
        .collect();
    slices.sort_by_key(|(_, from, to)| (*from, *to));
    for pair in slices.windows(2) {
        assert!(pair[0].2 <= pair[1].1, "{pair:?}");
    }
    slices
}
