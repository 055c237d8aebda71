//! Published answers for several processors and one queue, each under its id in the project's
//! collection of oracles.

use global_scheduling::bounds::workload::{self, Slack};
use global_scheduling::bounds::{density, fixed_priority};
use punctual_analysis::Steps;
use punctual_model::{Duration, Service, Task, TaskSpec};

/// Three tasks of two thirds: the first miss on two CPUs is at 3. The crate `analysis` has the
/// answer for partitions.
#[test]
fn mp_01_global_earliest_deadline() {
    let tasks = in_single_ticks(&[(2, 3), (2, 3), (2, 3)]);
    let bounds = |cpus| workload::earliest_deadline(&tasks, cpus, &mut Steps::default());
    assert_eq!((bounds(1), bounds(2)), (None, None));
    assert_eq!(bounds(3), Some(vec![Duration::from_nanos(2); 3]));
    assert!(!density::density(&tasks, 2).admits, "2 > 2 - 2/3");
    // Nor on three, where the bound is 3 - 2·2/3; four have one of 4 - 3·2/3, exactly 2, and
    // rounding to the safe side loses that.
    assert!(!density::density(&tasks, 3).admits);
    assert!(density::density(&tasks, 5).admits, "2 < 5 - 4·2/3");
}

/// Returns tasks with a tick of a nanosecond, as the bounds take it.
fn in_single_ticks(tasks: &[(u64, u64)]) -> Vec<Task> {
    let task = |&(wcet, period): &(u64, u64)| {
        let (period, wcet) = (Duration::from_nanos(period), Service::from_nanos(wcet));
        Task::new(TaskSpec::periodic("t", period, wcet)).expect("a valid task")
    };
    tasks.iter().map(task).collect()
}

#[test]
fn mp_02_global_fixed_priority() {
    let tasks = in_single_ticks(&[(1, 4), (1, 5), (3, 9), (9, 18)]);
    let steps = &mut Steps::default();
    let nanos = |bounds: Vec<Option<Duration>>| -> Vec<Option<u64>> {
        bounds.into_iter().map(|bound| bound.map(Duration::as_nanos)).collect()
    };
    let known = |bounds: [u64; 4]| bounds.map(Some).to_vec();
    // Guan et al.
    let guan = nanos(fixed_priority::response_times(&tasks, 2, steps));
    assert_eq!(guan, known([1, 1, 4, 15]));
    let guan = nanos(fixed_priority::response_times(&tasks, 3, steps));
    assert_eq!(guan, known([1, 1, 3, 12]));
    // Bertogna & Cirinei. The tool that published 14 for the last task sums up all possible work of
    // the other tasks; without the work that runs beside the job, as in the paper, it is 13.
    let plain = nanos(workload::fixed_priority(&tasks, 3, Slack::Ignored, steps));
    assert_eq!(plain, known([1, 1, 3, 13]));
    assert_eq!(with_all_work(&[(1, 4), (1, 5), (3, 9)], 9, 3), 14);
    let with_slack = nanos(workload::fixed_priority(&tasks, 2, Slack::Used, steps));
    assert_eq!(with_slack, known([1, 1, 4, 15]));
}

/// Returns the least `x = C + ⌊Σ W_i(x) / m⌋`, for deadlines at the end of the period and no slack.
fn with_all_work(higher: &[(u64, u64)], wcet: u64, cpus: u64) -> u64 {
    let work = |&(wcet, period): &(u64, u64), window: u64| {
        let reach = window + period - wcet;
        reach / period * wcet + (reach % period).min(wcet)
    };
    let due = |x: &u64| wcet + higher.iter().map(|task| work(task, *x)).sum::<u64>() / cpus;
    (wcet..100).find(|x| due(x) <= *x).expect("a fixed point")
}
