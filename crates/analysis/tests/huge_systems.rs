//! Systems near a utilisation of one with a hyperperiod beyond every integer here: each is
//! answered, or refused with a reason, within the bound on steps and with memory in proportion to
//! the tasks.
//!
//! This is one test in a program of its own, so that nothing else uses the heap that it measures.

use peak_alloc::PeakAlloc;
use punctual_analysis::{Steps, admit, incremental::Admission, incremental::Denial};
use punctual_model::{Contract, Duration, HostProfile, Policy, Service, Task, TaskSpec};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// Draws `n` tasks of about the same share, together 0.999 of a CPU, with odd periods from 10 ms to
/// 1 s.
fn draw(n: u64) -> Vec<Task> {
    let mut rng = ChaCha8Rng::seed_from_u64(n);
    (0..n)
        .map(|_| {
            let decade = 10_000_000 * 10u64.pow(rng.random_range(0..2));
            let period = rng.random_range(decade..10 * decade) | 1;
            // Rounded down: the shortest period loses a thousandth of its share.
            let wcet = period * 999 / (1000 * n);
            Task::new(TaskSpec::periodic(
                "drawn",
                Duration::from_nanos(period),
                Service::from_nanos(wcet),
            ))
            .expect("valid")
        })
        .collect()
}

/// Returns whether the tasks were admitted, the reason if not, and the bytes of heap per task.
fn ask(policy: Policy, n: u64) -> (bool, String, usize) {
    let contract = Contract::of_tasks(policy, 1, draw(n));
    let before = HEAP.current_usage();
    HEAP.reset_peak_usage();
    let answer = admit(&contract, &HostProfile::ideal(1));
    let used = (HEAP.peak_usage() - before) / n as usize;
    match answer {
        Ok(grant) => {
            let in_time = |task: &punctual_analysis::GrantedTask| {
                task.response_time_bound <= task.relative_deadline
            };
            assert_eq!(grant.tasks.len() as u64, n);
            assert!(grant.tasks.iter().all(in_time));
            (true, String::new(), used)
        }
        Err(refusal) => (false, refusal.to_string(), used),
    }
}

#[test]
fn ten_thousand_tasks_near_a_utilisation_of_one() {
    // Implicit deadlines and less than a whole CPU: earliest deadline first admits all.
    let (admitted, why, of_many) = ask(Policy::Edf, 10_000);
    assert!(admitted, "{why}");
    let (_, _, of_few) = ask(Policy::Edf, 1_000);
    assert!(of_many <= 2 * of_few, "{of_few} bytes a task became {of_many}");

    // Rate-monotonic order cannot use so much, and the refusal names the late task.
    let (admitted, why, of_many) = ask(Policy::Rm, 10_000);
    let reasons = ["more than its relative deadline", "beyond its relative deadline"];
    assert!(!admitted && reasons.iter().any(|reason| why.contains(reason)), "{why}");
    let (_, _, of_few) = ask(Policy::Rm, 1_000);
    assert!(of_many <= 2 * of_few, "{of_few} bytes a task became {of_many}");

    // One task at a time, until one does not fit or none are left.
    for policy in [Policy::Rm, Policy::Edf] {
        let mut cpu = Admission::new(policy, [], Service::ZERO);
        let before = HEAP.current_usage();
        let denied =
            draw(1_000).iter().find_map(|task| cpu.admit(task, &mut Steps::default()).err());
        let admitted = cpu.ids().count();
        let used = (HEAP.current_usage() - before) / admitted;
        assert!(used < 1_000, "{used} bytes a task");
        match denied {
            None => assert_eq!(admitted, 1_000),
            Some(why) => assert!(matches!(why, Denial::Late { .. } | Denial::Undecided), "{why}"),
        }
    }
}
