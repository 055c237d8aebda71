use alloc::vec::Vec;

use super::response_time::response_times;
use crate::load::{CpuLoad, Granularity, TaskLoad};
use crate::steps::Steps;

/// EDF-01 of the published answers. No contract can declare it, because the first task's wcet is
/// above its deadline.
#[test]
fn edf_01_response_times_beyond_the_deadline() {
    let task = |(work, period, deadline)| TaskLoad {
        work,
        wcet: work,
        high: 0,
        period,
        deadline,
        jitter: 0,
        quantum: 0,
        last: 0,
    };
    let tasks = [(79, 120, 50), (11, 34, 100), (1, 190, 120)].map(task);
    let load = CpuLoad { tasks: Vec::from(tasks), reservations: Vec::new(), wake_up: 0 };
    let times = response_times(&load, Granularity::Continuous, &mut Steps::default());
    let nanos = times.iter().map(|time| time.bound().map(|bound| bound.as_nanos()));
    assert_eq!(nanos.collect::<Vec<_>>(), [Some(79), Some(101), Some(121)]);
}
