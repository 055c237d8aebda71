//! Delayed preemption for jobs with external releases: tasks of any arrival pattern, by fixed
//! priority, by earliest deadline, or first in, first out.
//!
//! A more urgent job preempts a running one at its next yield point, or at once if its task is
//! preemptible anywhere. Jobs of one task run in the order of their release.

use alloc::boxed::Box;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use punctual_model::{Duration, Instant, Policy, Rank, Service, Task};

use crate::edf_vd;
use crate::ready::ReadySet;

/// The waiting jobs in order of urgency.
#[derive(Clone, Debug)]
enum Queue {
    /// By rank; each task has its own.
    Fixed { rank: Box<[Rank]>, task: Box<[u32]>, ready: ReadySet },
    /// By absolute deadline of a task's oldest job; of equal deadlines the task listed first. Tasks
    /// from `first_above` on precede all others.
    Deadline { waiting: BinaryHeap<Reverse<(bool, Instant, u32)>>, first_above: u32 },
    /// By the arrival of a task's oldest job; of equal instants the task listed first. Tasks from
    /// `first_above` on precede all others, and only they preempt.
    Arrival { waiting: BinaryHeap<Reverse<(bool, Instant, u32)>>, first_above: u32, last: Instant },
    /// By virtual deadline, until a job needs more than its wcet.
    VirtualDeadline(edf_vd::Waiting),
}

/// The state machine. Tasks are identified by their position.
#[derive(Clone, Debug)]
pub struct Jobs {
    queue: Queue,
    running: Option<(u32, Instant)>,
}

/// The effect of a release on the CPU.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnRelease {
    /// The CPU is idle: call [`Jobs::dispatch`].
    Dispatch,
    /// Nothing changes.
    Wait,
    /// The running job must yield: at once if its task is preemptible anywhere, otherwise at its
    /// next yield point; then call [`Jobs::give_way`].
    AskToYield,
}

impl Jobs {
    /// Makes the order of `policy` among `tasks`, with `above` more entries after them that precede
    /// all tasks: reservations, which Linux serves above every fixed priority. The entries keep
    /// their order among themselves under fixed priorities, go by deadline under `edf`, and first
    /// in, first out under `fifo`.
    ///
    /// `rmdp` and `rm`: the shorter period first, of equal periods the task listed first.
    pub fn of(policy: Policy, tasks: &[Task], above: u32) -> Self {
        let count = tasks.len() as u32;
        let mut order: Vec<u32> = (0..count).collect();
        match policy {
            Policy::Rmdp | Policy::Rm => {
                order.sort_by_key(|task| tasks[*task as usize].min_inter_arrival());
            }
            Policy::Fp => {}
            Policy::Edf => return Self::by_deadline(tasks.len() + above as usize, count),
            Policy::EdfVd => return Self::edf_vd(tasks, &[], above),
            Policy::Fifo => return Self::by_arrival(tasks.len() + above as usize, count),
        }
        let order: Vec<u32> = (count..count + above).chain(order).collect();
        Self::fixed_priority(&order)
    }

    /// Makes a fixed-priority order: `order` lists the tasks, the most urgent first.
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

    /// Makes an order by earliest absolute deadline, for at most `tasks` tasks.
    pub fn earliest_deadline(tasks: usize) -> Self {
        Self::by_deadline(tasks, u32::MAX)
    }

    fn by_deadline(tasks: usize, first_above: u32) -> Self {
        let waiting = BinaryHeap::with_capacity(tasks);
        Self { queue: Queue::Deadline { waiting, first_above }, running: None }
    }

    /// Makes an order first in, first out, for at most `tasks` tasks.
    pub fn first_in_first_out(tasks: usize) -> Self {
        Self::by_arrival(tasks, u32::MAX)
    }

    fn by_arrival(tasks: usize, first_above: u32) -> Self {
        let waiting = BinaryHeap::with_capacity(tasks);
        let queue = Queue::Arrival { waiting, first_above, last: Instant::ZERO };
        Self { queue, running: None }
    }

    /// Makes an order by EDF with virtual deadlines: those of `tasks` that are given, with `above`
    /// more entries after them that precede all tasks.
    pub fn edf_vd(tasks: &[Task], virtual_deadlines: &[Option<Duration>], above: u32) -> Self {
        let waiting = edf_vd::Waiting::new(tasks, virtual_deadlines, above);
        Self { queue: Queue::VirtualDeadline(waiting), running: None }
    }

    /// Returns the time that a job of `task` may use before [`Self::overran`] must be called;
    /// `None`: unlimited.
    #[inline]
    pub fn allowance(&self, task: u32) -> Option<Service> {
        match &self.queue {
            Queue::VirtualDeadline(waiting) => waiting.allowance(task),
            Queue::Fixed { .. } | Queue::Deadline { .. } | Queue::Arrival { .. } => None,
        }
    }

    /// Records that the running job has used its allowance and is not complete.
    pub fn overran(&mut self) -> OnRelease {
        let (Queue::VirtualDeadline(waiting), Some(running)) = (&mut self.queue, self.running)
        else {
            return OnRelease::Wait;
        };
        if waiting.switch(running) { OnRelease::AskToYield } else { OnRelease::Wait }
    }

    /// Makes the oldest incomplete job of `task`, due at `absolute_deadline`, ready. A driver calls
    /// this for a task's next job only after the one before is complete.
    ///
    /// First in, first out uses the order of these calls. If a job may arrive while the one before
    /// it is incomplete, that is not the order of arrivals; such a driver must use
    /// [`Self::ready_since`] throughout.
    pub fn ready(&mut self, task: u32, absolute_deadline: Instant) -> OnRelease {
        let known = match &self.queue {
            Queue::Arrival { last, .. } => last.saturating_add(Duration::from_nanos(1)),
            Queue::Fixed { .. } | Queue::Deadline { .. } | Queue::VirtualDeadline(_) => {
                Instant::ZERO
            }
        };
        self.ready_since(task, known, absolute_deadline)
    }

    /// Makes a job ready that arrived at `known`, possibly before the one before it was complete.
    #[inline]
    pub fn ready_since(
        &mut self,
        task: u32,
        known: Instant,
        absolute_deadline: Instant,
    ) -> OnRelease {
        let key = match &mut self.queue {
            Queue::Fixed { .. } | Queue::Deadline { .. } | Queue::VirtualDeadline(_) => {
                absolute_deadline
            }
            Queue::Arrival { last, .. } => {
                *last = known.max(*last);
                known
            }
        };
        self.insert(task, key);
        match self.running {
            None => OnRelease::Dispatch,
            Some(running) if self.outranks((task, key), running) => OnRelease::AskToYield,
            Some(_) => OnRelease::Wait,
        }
    }

    /// Gives the CPU to the most urgent ready job. No job may be running.
    #[inline]
    #[must_use]
    pub fn dispatch(&mut self) -> Option<u32> {
        debug_assert!(self.running.is_none(), "the running job completes or gives way first");
        let chosen = match &mut self.queue {
            Queue::Fixed { task, ready, .. } => {
                let rank = ready.take_first()?;
                (task[rank.0 as usize], Instant::MAX)
            }
            Queue::Deadline { waiting, .. } | Queue::Arrival { waiting, .. } => {
                let Reverse((_, key, task)) = waiting.pop()?;
                (task, key)
            }
            Queue::VirtualDeadline(waiting) => waiting.pop()?,
        };
        self.running = Some(chosen);
        Some(chosen.0)
    }

    /// Takes the CPU from the running job, which stays ready.
    #[inline]
    pub fn give_way(&mut self) {
        if let Some((task, key)) = self.running.take() {
            self.insert(task, key);
        }
    }

    /// Records that the running job is complete.
    #[inline]
    pub fn complete(&mut self) {
        self.running = None;
    }

    // Called at three places, where a call would cost as much as the work under fixed priorities.
    #[inline(always)]
    fn insert(&mut self, task: u32, key: Instant) {
        match &mut self.queue {
            Queue::Fixed { rank, ready, .. } => ready.insert(rank[task as usize]),
            Queue::Deadline { waiting, first_above }
            | Queue::Arrival { waiting, first_above, .. } => {
                waiting.push(Reverse((task < *first_above, key, task)));
            }
            Queue::VirtualDeadline(waiting) => waiting.insert(task, key),
        }
    }

    /// Returns true if `one` is strictly more urgent: at equal deadlines the running job goes on.
    #[inline]
    fn outranks(&self, one: (u32, Instant), other: (u32, Instant)) -> bool {
        match &self.queue {
            Queue::Fixed { rank, .. } => rank[one.0 as usize].outranks(rank[other.0 as usize]),
            Queue::Deadline { first_above, .. } => {
                (one.0 < *first_above, one.1) < (other.0 < *first_above, other.1)
            }
            Queue::Arrival { first_above, .. } => one.0 >= *first_above && other.0 < *first_above,
            Queue::VirtualDeadline(waiting) => {
                waiting.key(one.0, one.1) < waiting.key(other.0, other.1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::TaskSpec;

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
    fn reservations_go_before_all_tasks() {
        let task = |ms| {
            let (period, wcet) = (Duration::from_millis(ms), Service::from_millis(1));
            Task::new(TaskSpec::periodic("t", period, wcet)).expect("valid")
        };
        let tasks = [task(20), task(10)];
        for (policy, order) in
            [(Policy::Rm, [2, 1, 0]), (Policy::Edf, [2, 1, 0]), (Policy::Fifo, [2, 0, 1])]
        {
            let mut jobs = Jobs::of(policy, &tasks, 1);
            for (entry, deadline) in [(0, 20), (1, 10), (2, 99)] {
                assert_eq!(jobs.ready(entry, at(deadline)), OnRelease::Dispatch);
            }
            for entry in order {
                assert_eq!(jobs.dispatch(), Some(entry), "{policy:?}");
                jobs.complete();
            }
        }
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

    #[test]
    fn first_in_goes_first_and_is_not_preempted() {
        let mut jobs = Jobs::first_in_first_out(3);
        assert_eq!(jobs.ready_since(2, at(1), at(9)), OnRelease::Dispatch);
        assert_eq!(jobs.dispatch(), Some(2));
        assert_eq!(jobs.ready_since(1, at(4), at(5)), OnRelease::Wait);
        // It arrived while its task's previous job ran, so it goes before the one that arrived at
        // 4.
        jobs.complete();
        assert_eq!(jobs.ready_since(2, at(3), at(99)), OnRelease::Dispatch);
        assert_eq!(jobs.ready_since(0, at(4), at(99)), OnRelease::Dispatch);
        for task in [2, 0, 1] {
            assert_eq!(jobs.dispatch(), Some(task));
            jobs.complete();
        }
    }

    #[test]
    fn without_instants_first_in_is_the_order_of_calls() {
        let mut jobs = Jobs::first_in_first_out(3);
        for task in [1, 2, 0] {
            assert_eq!(jobs.ready(task, at(u64::from(task))), OnRelease::Dispatch);
        }
        for task in [1, 2, 0] {
            assert_eq!(jobs.dispatch(), Some(task));
            jobs.complete();
        }
    }
}
