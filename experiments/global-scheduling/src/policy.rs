//! Several processors and one ready queue: the most urgent jobs run wherever there is room, and
//! migrate when that changes. Jobs are preemptible anywhere, by fixed priority or by earliest
//! deadline.
//!
//! Dhall and Liu, Operations Research 26(1), 1978, show why a low total share promises nothing
//! here; Davis and Burns, ACM Computing Surveys 43(4), 2011, survey which tests do.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use punctual_model::{Instant, Rank};

/// The source of a job's urgency.
#[derive(Clone, Debug)]
enum Priorities {
    /// The rank of each task.
    Fixed(Box<[Rank]>),
    Deadline,
}

/// A rank, or a deadline in nanoseconds, and the task; lower is more urgent, and ties go to the
/// task listed first.
type Urgency = (u64, u32);

/// The state machine. Tasks and processors are identified by their position.
///
/// Call order: [`ready`](Self::ready) and [`complete`](Self::complete) for all events at one
/// instant, then [`dispatch`](Self::dispatch) until it returns `None`, carrying out each
/// [`Switch`]. Nothing is allocated after construction.
#[derive(Clone, Debug)]
pub struct Global {
    order: Priorities,
    waiting: BinaryHeap<Reverse<Urgency>>,
    /// The task that runs on each processor.
    running: Box<[Option<Urgency>]>,
}

/// A switch of a processor to another task.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The processor.
    pub cpu: u32,
    /// The task that gets it.
    pub task: u32,
    /// The task that loses it and waits, unless the processor was idle.
    pub preempted: Option<u32>,
}

impl Global {
    /// Schedules by fixed priorities on `cpus` processors: `order` lists the tasks, the most urgent
    /// first.
    ///
    /// # Panics
    /// Panics if `order` is not a permutation of `0..order.len()`.
    pub fn fixed_priority(cpus: u32, order: &[u32]) -> Self {
        let mut ranks = vec![Rank(u32::MAX); order.len()];
        for (task, position) in order.iter().zip(0u32..) {
            ranks[*task as usize] = Rank(position);
        }
        assert!(ranks.iter().all(|rank| rank.0 != u32::MAX), "order must name every task once");
        Self::of(Priorities::Fixed(ranks.into()), cpus, order.len())
    }

    /// Schedules by earliest absolute deadline on `cpus` processors, among at most `tasks` tasks.
    pub fn earliest_deadline(cpus: u32, tasks: usize) -> Self {
        Self::of(Priorities::Deadline, cpus, tasks)
    }

    fn of(order: Priorities, cpus: u32, tasks: usize) -> Self {
        let running: Vec<Option<Urgency>> = vec![None; cpus as usize];
        Self { order, waiting: BinaryHeap::with_capacity(tasks), running: running.into() }
    }

    /// Adds the oldest incomplete job of `task`, due at `absolute_deadline`, to the ready queue. A
    /// driver calls this for a task's next job only after the previous one is complete: jobs of one
    /// task do not run side by side.
    pub fn ready(&mut self, task: u32, absolute_deadline: Instant) {
        let urgency = match &self.order {
            Priorities::Fixed(ranks) => u64::from(ranks[task as usize].0),
            Priorities::Deadline => absolute_deadline.as_nanos(),
        };
        self.waiting.push(Reverse((urgency, task)));
    }

    /// Ends the job on `cpu`.
    pub fn complete(&mut self, cpu: u32) {
        self.running[cpu as usize] = None;
    }

    /// Returns the next processor that must switch to another task, or `None` if there is none.
    ///
    /// The first idle processor is used first; otherwise the one with the least urgent job, if a
    /// waiting one is strictly more urgent: at equal deadlines the running job goes on. Checks
    /// every processor.
    #[must_use]
    pub fn dispatch(&mut self) -> Option<Switch> {
        let &Reverse(next) = self.waiting.peek()?;
        let idle = self.running.iter().position(Option::is_none);
        let least = || {
            let all = self.running.iter().enumerate();
            let (cpu, urgency) = all.max_by_key(|(_, running)| **running)?;
            urgency.is_some_and(|urgency| next.0 < urgency.0).then_some(cpu)
        };
        let cpu = idle.or_else(least)?;
        self.waiting.pop();
        let before = self.running[cpu].replace(next);
        if let Some(before) = before {
            self.waiting.push(Reverse(before));
        }
        let preempted = before.map(|(_, task)| task);
        Some(Switch { cpu: cpu as u32, task: next.1, preempted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(n: u64) -> Instant {
        Instant::from_nanos(n)
    }

    #[test]
    fn an_idle_processor_first_then_the_least_urgent_job_gives_way() {
        let mut policy = Global::earliest_deadline(2, 4);
        policy.ready(0, at(10));
        policy.ready(1, at(20));
        let switch = |cpu, task, preempted| Some(Switch { cpu, task, preempted });
        assert_eq!(policy.dispatch(), switch(0, 0, None));
        assert_eq!(policy.dispatch(), switch(1, 1, None));
        assert_eq!(policy.dispatch(), None);
        policy.ready(2, at(20));
        assert_eq!(policy.dispatch(), None, "at equal deadlines the running job goes on");
        policy.ready(3, at(15));
        assert_eq!(policy.dispatch(), switch(1, 3, Some(1)));
        assert_eq!(policy.dispatch(), None);
        policy.complete(0);
        assert_eq!(policy.dispatch(), switch(0, 1, None), "it moves to the other processor");
        policy.complete(1);
        assert_eq!(policy.dispatch(), switch(1, 2, None));
        policy.complete(0);
        policy.complete(1);
        assert_eq!(policy.dispatch(), None);
    }

    #[test]
    fn fixed_priorities_ignore_deadlines() {
        let mut policy = Global::fixed_priority(1, &[2, 0, 1]);
        policy.ready(1, at(1));
        policy.ready(0, at(9));
        assert_eq!(policy.dispatch(), Some(Switch { cpu: 0, task: 0, preempted: None }));
        assert_eq!(policy.dispatch(), None);
        policy.ready(2, at(99));
        assert_eq!(policy.dispatch(), Some(Switch { cpu: 0, task: 2, preempted: Some(0) }));
    }
}
