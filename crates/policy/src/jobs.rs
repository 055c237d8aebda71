//! Delayed preemption for jobs whose releases come from outside: tasks of any arrival pattern, by
//! fixed priority or by earliest deadline.
//!
//! A running job gives way to a more urgent one at its next yield point, or at once if its task
//! is preemptible anywhere. Jobs of one task run in the order of their release.

use alloc::boxed::Box;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use punctual_model::{Instant, Rank};

use crate::ready::ReadySet;

/// How urgent the waiting jobs are, relative to each other.
#[derive(Clone, Debug)]
enum Queue {
    /// One rank a task.
    Fixed { rank: Box<[Rank]>, task: Box<[u32]>, ready: ReadySet },
    /// By absolute deadline of a task's oldest job; of equal deadlines the task listed first.
    Deadline { waiting: BinaryHeap<Reverse<(Instant, u32)>> },
}

/// The state machine. Tasks are known by their position.
#[derive(Clone, Debug)]
pub struct Jobs {
    queue: Queue,
    running: Option<(u32, Instant)>,
}

/// What a release means for whoever has the CPU.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnRelease {
    /// The CPU is idle: call [`Jobs::dispatch`].
    Dispatch,
    /// Nothing changes.
    Wait,
    /// The running job must give way: at once if its task is preemptible anywhere, else at its
    /// next yield point; then call [`Jobs::give_way`].
    AskToYield,
}

impl Jobs {
    /// Fixed priorities: `order` lists the tasks, the most urgent first.
    ///
    /// # Panics
    /// If `order` is not a permutation of `0..order.len()`.
    pub fn fixed_priority(order: &[u32]) -> Self {
        let mut rank = alloc::vec![Rank(u32::MAX); order.len()];
        for (task, position) in order.iter().zip(0u32..) {
            rank[*task as usize] = Rank(position);
        }
        assert!(rank.iter().all(|r| r.0 != u32::MAX), "order must name every task once");
        let ready = ReadySet::new(order.len());
        let task: Vec<u32> = order.to_vec();
        Self { queue: Queue::Fixed { rank: rank.into(), task: task.into(), ready }, running: None }
    }

    /// Earliest absolute deadline first, among at most `tasks` tasks.
    pub fn earliest_deadline(tasks: usize) -> Self {
        Self { queue: Queue::Deadline { waiting: BinaryHeap::with_capacity(tasks) }, running: None }
    }

    /// The oldest incomplete job of `task`, due at `absolute_deadline`, is ready. A driver calls
    /// this for a task's next job only after the one before is complete.
    pub fn ready(&mut self, task: u32, absolute_deadline: Instant) -> OnRelease {
        self.insert(task, absolute_deadline);
        match self.running {
            None => OnRelease::Dispatch,
            Some(running) if self.outranks((task, absolute_deadline), running) => {
                OnRelease::AskToYield
            }
            Some(_) => OnRelease::Wait,
        }
    }

    /// Gives the CPU to the most urgent ready job; none is running.
    #[must_use]
    pub fn dispatch(&mut self) -> Option<u32> {
        debug_assert!(self.running.is_none(), "the running job completes or gives way first");
        let chosen = match &mut self.queue {
            Queue::Fixed { task, ready, .. } => {
                let rank = ready.first()?;
                ready.remove(rank);
                (task[rank.0 as usize], Instant::MAX)
            }
            Queue::Deadline { waiting } => {
                let Reverse((deadline, task)) = waiting.pop()?;
                (task, deadline)
            }
        };
        self.running = Some(chosen);
        Some(chosen.0)
    }

    /// The running job gives way; it stays ready.
    pub fn give_way(&mut self) {
        if let Some((task, deadline)) = self.running.take() {
            self.insert(task, deadline);
        }
    }

    /// The running job is complete.
    pub fn complete(&mut self) {
        self.running = None;
    }

    fn insert(&mut self, task: u32, deadline: Instant) {
        match &mut self.queue {
            Queue::Fixed { rank, ready, .. } => ready.insert(rank[task as usize]),
            Queue::Deadline { waiting } => waiting.push(Reverse((deadline, task))),
        }
    }

    /// Strictly more urgent: at equal deadlines the running job goes on.
    fn outranks(&self, one: (u32, Instant), other: (u32, Instant)) -> bool {
        match &self.queue {
            Queue::Fixed { rank, .. } => rank[one.0 as usize].outranks(rank[other.0 as usize]),
            Queue::Deadline { .. } => one.1 < other.1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(n: u64) -> Instant {
        Instant::from_nanos(n)
    }

    #[test]
    fn fixed_priority_ignores_deadlines() {
        let mut jobs = Jobs::fixed_priority(&[1, 0]);
        assert_eq!(jobs.ready(0, at(1)), OnRelease::Dispatch);
        assert_eq!(jobs.dispatch(), Some(0));
        assert_eq!(jobs.ready(1, at(9)), OnRelease::AskToYield);
        jobs.give_way();
        assert_eq!(jobs.dispatch(), Some(1));
        jobs.complete();
        assert_eq!(jobs.dispatch(), Some(0));
        jobs.complete();
        assert_eq!(jobs.dispatch(), None);
    }

    #[test]
    fn earliest_deadline_goes_on_at_a_tie() {
        let mut jobs = Jobs::earliest_deadline(3);
        assert_eq!(jobs.ready(2, at(5)), OnRelease::Dispatch);
        assert_eq!(jobs.dispatch(), Some(2));
        assert_eq!(jobs.ready(0, at(5)), OnRelease::Wait);
        assert_eq!(jobs.ready(1, at(4)), OnRelease::AskToYield);
        jobs.give_way();
        assert_eq!(jobs.dispatch(), Some(1));
        jobs.complete();
        assert_eq!(jobs.dispatch(), Some(0), "of equal deadlines the task listed first");
    }
}
