//! The order of tasks by urgency.

use alloc::vec::Vec;

use punctual_model::{Policy, Task};

use crate::policies;
use crate::schedulability::Order;

/// Returns the positions of `tasks` in the order of `policy`.
pub fn by_priority(policy: Policy, tasks: &[Task]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    // The sort is stable: ties keep file order.
    match policies::of(policy).order() {
        Order::Period => order.sort_by_key(|&at| tasks[at].min_inter_arrival()),
        Order::File => {}
        Order::Deadline => order.sort_by_key(|&at| tasks[at].relative_deadline()),
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::{Duration, Service, TaskSpec};

    #[test]
    fn each_policy_has_its_order() {
        let task = |period, deadline| {
            Task::new(TaskSpec {
                relative_deadline: Duration::from_millis(deadline),
                ..TaskSpec::periodic("t", Duration::from_millis(period), Service::from_millis(1))
            })
            .expect("valid")
        };
        let tasks = [task(20, 5), task(10, 9), task(20, 4)];
        assert_eq!(by_priority(Policy::Rm, &tasks), [1, 0, 2]);
        assert_eq!(by_priority(Policy::Rmdp, &tasks), [1, 0, 2]);
        assert_eq!(by_priority(Policy::Fp, &tasks), [0, 1, 2]);
        assert_eq!(by_priority(Policy::Edf, &tasks), [2, 0, 1]);
        assert_eq!(by_priority(Policy::Fifo, &tasks), [0, 1, 2]);
    }
}
