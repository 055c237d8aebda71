//! The instants of possible deadlines, in order, and the jobs due by each.

use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::load::{CpuLoad, TaskLoad};
use crate::steps::{OutOfSteps, Steps};

/// The steps that a queue operation costs, as a number of terms of a formula.
pub(super) const QUEUE: usize = 16;

/// Iterates over all `d = d_j + k·T_j`, with `d_j = D_j − J_j`, and counts the jobs due.
pub(super) struct DeadlinePoints<'a> {
    tasks: &'a [TaskLoad],
    next: BinaryHeap<Reverse<(u64, usize)>>,
    /// The positions of all tasks, the least `d_j` first.
    pub(super) order: Vec<usize>,
    /// By the number of started tasks: the largest quantum of the others, or the wake-up.
    blocking: Vec<u64>,
    started: usize,
    /// The number of due jobs of each task: `⌊(d − d_j)/T_j⌋ + 1`, or none before `d_j`.
    pub(super) jobs_due: Vec<u64>,
}

impl<'a> DeadlinePoints<'a> {
    /// Starts before the first point. One `tick` is subtracted from each quantum: see
    /// [`crate::Granularity`].
    pub(super) fn new(load: &'a CpuLoad, tick: u64) -> Self {
        let tasks = &load.tasks[..];
        let mut order: Vec<usize> = (0..tasks.len()).collect();
        order.sort_by_key(|&at| tasks[at].deadline_after_jitter());
        let mut blocking = vec![load.wake_up.saturating_sub(tick); tasks.len() + 1];
        for (place, &at) in order.iter().enumerate().rev() {
            blocking[place] = blocking[place + 1].max(tasks[at].quantum.saturating_sub(tick));
        }
        let first = |(at, task): (usize, &TaskLoad)| Reverse((task.deadline_after_jitter(), at));
        Self {
            tasks,
            next: tasks.iter().enumerate().map(first).collect(),
            order,
            blocking,
            started: 0,
            jobs_due: vec![0; tasks.len()],
        }
    }

    /// Advances to the next point, if there is one, and calls `due` for each job due there.
    pub(super) fn advance(
        &mut self,
        steps: &mut Steps,
        mut due: impl FnMut(usize, u64, &mut Steps) -> Result<(), OutOfSteps>,
    ) -> Result<Option<u64>, OutOfSteps> {
        let Some(&Reverse((point, _))) = self.next.peek() else { return Ok(None) };
        while let Some(mut top) = self.next.peek_mut() {
            let Reverse((here, at)) = *top;
            if here > point {
                break;
            }
            steps.take(QUEUE)?;
            // A point that may exceed 64 bits is too far away to be examined.
            let after = here.checked_add(self.tasks[at].period).ok_or(OutOfSteps)?;
            *top = Reverse((after, at));
            self.started += usize::from(self.jobs_due[at] == 0);
            self.jobs_due[at] += 1;
            due(at, self.jobs_due[at], steps)?;
        }
        Ok(Some(point))
    }

    /// Returns whether every task has a deadline up to here.
    pub(super) fn all_started(&self) -> bool {
        self.started == self.order.len()
    }

    /// Returns the positions of the tasks with a deadline up to here, by `d_j`.
    pub(super) fn started(&self) -> &[usize] {
        &self.order[..self.started]
    }

    /// Returns the longest blocking by a task without a deadline up to here.
    pub(super) fn blocking(&self) -> u64 {
        self.blocking[self.started]
    }
}
