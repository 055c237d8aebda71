//! A guard wakes only when it has a handler to watch.

use punctual_trace::Kind;

use crate::harness::{Record, Spec, alone, millis, record_of, soon, watched};

/// Up to 60 ms every 100 ms in quanta of up to 4 ms; half of it is worked.
const LONG: Spec = [100_000, 60, 4, 1_000];

/// Up to 8 ms every 10 ms: the long one yields for 4 ms in each 10.
const OFTEN: Spec = [10_000, 8, 8, 1_000];

/// If a guard finds no handler amid an iteration, it checks again after this time.
const GRACE_US: u64 = 100;

/// The most checks of a guard during its long job, about one a quantum: 6 a job were observed. A
/// guard that woke while other upcalls ran did so 120 times.
const MOST: u64 = 20;

/// Returns the number of long jobs, and of switches to their guard for each. Returns `None` if a
/// handler was contained, which can happen when a machine stands still: then the former guard runs
/// the jobs.
fn looks_a_job(record: &Record) -> Option<(u64, u64)> {
    let jobs = record.count(0, Kind::Complete) as u64;
    let was_contained = record.events.iter().any(|event| event.2 == Kind::Contained);
    (!was_contained && jobs > 0).then(|| (jobs, record.of_guard / jobs))
}

#[test]
fn a_guard_does_not_wake_while_other_upcalls_run() {
    alone(|| {
        for _ in 0..10 {
            let start = soon();
            let until = start + millis(800);
            let children = [LONG, OFTEN].map(|of| watched(start, until, GRACE_US, &[of]));
            let [long, often] = children.map(record_of);
            let absences = long.absences(0).len();
            let Some((jobs, looks)) = looks_a_job(&long) else { continue };
            assert!(jobs >= 2 && absences >= 3, "{jobs} jobs, given way {absences} times");
            assert!(often.count(0, Kind::Complete) >= 10);
            assert!(looks > 0, "it is watched");
            assert!(looks <= MOST, "{looks} looks a job");
            return;
        }
        println!("skipped: this machine stands still too often");
    });
}
