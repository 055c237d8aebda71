//! EDF with virtual deadlines: tasks of two criticalities.
//!
//! In low mode, jobs are ordered by deadline; those of high criticality have an earlier, virtual
//! one. When a job of high criticality has used its wcet and is not complete, the mode changes
//! until the CPU is idle: high-criticality jobs run first, by their real deadlines, and
//! low-criticality jobs run in the remaining time, by theirs (Baruah et al., ECRTS 2012; there they
//! are dropped). `analysis` finds the virtual deadlines that keep all promises.

use alloc::boxed::Box;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use punctual_model::{Duration, Instant, Service, Task};

/// The parameters of a task of high criticality.
#[derive(Clone, Copy, Debug)]
struct Criticality {
    /// The time by which the virtual deadline precedes the real one.
    earlier: Duration,
    /// The estimated wcet of a job.
    wcet: Service,
}

/// The waiting jobs, ordered by urgency.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    /// One entry per task; `None` for tasks of low criticality and for the entries above all tasks.
    high: Box<[Option<Criticality>]>,
    /// Entries from this position on precede all tasks.
    first_above: u32,
    /// The jobs, with their real deadlines.
    jobs: BinaryHeap<Reverse<(u8, Instant, u32, Instant)>>,
    /// True after a job of high criticality exceeded its wcet.
    switched: bool,
}

impl Waiting {
    /// Makes room for `tasks` and `above` more entries that precede them. In low mode a task of
    /// high criticality is scheduled by its virtual deadline, if it has one.
    pub(crate) fn new(tasks: &[Task], virtual_deadlines: &[Option<Duration>], above: u32) -> Self {
        let criticality = |(at, task): (usize, &Task)| {
            task.wcet_high()?;
            let real = task.relative_deadline();
            let first = virtual_deadlines.get(at).copied().flatten().unwrap_or(real);
            Some(Criticality { earlier: real.saturating_sub(first), wcet: task.wcet() })
        };
        let low = (0..above).map(|_| None);
        Self {
            high: tasks.iter().enumerate().map(criticality).chain(low).collect(),
            first_above: tasks.len() as u32,
            jobs: BinaryHeap::with_capacity(tasks.len() + above as usize),
            switched: false,
        }
    }

    /// Returns the position of a job in the order; the smallest is first.
    pub(crate) fn key(&self, task: u32, deadline: Instant) -> (u8, Instant) {
        match self.high[task as usize] {
            _ if task >= self.first_above => (0, deadline),
            Some(_) if self.switched => (1, deadline),
            Some(high) => (
                1,
                Instant::ZERO
                    .saturating_add(deadline.saturating_since(Instant::ZERO + high.earlier)),
            ),
            None if self.switched => (2, deadline),
            None => (1, deadline),
        }
    }

    pub(crate) fn insert(&mut self, task: u32, deadline: Instant) {
        let (class, instant) = self.key(task, deadline);
        self.jobs.push(Reverse((class, instant, task, deadline)));
    }

    /// Removes the most urgent job. If there is none, the CPU is idle and the mode is low again.
    pub(crate) fn pop(&mut self) -> Option<(u32, Instant)> {
        let next = self.jobs.pop();
        if next.is_none() {
            self.switched = false;
        }
        next.map(|Reverse((_, _, task, deadline))| (task, deadline))
    }

    /// Returns the time that a job may use before [`Self::switch`] is due; `None`: unlimited.
    pub(crate) fn allowance(&self, task: u32) -> Option<Service> {
        self.high[task as usize].filter(|_| !self.switched).map(|high| high.wcet)
    }

    /// Changes to real deadlines. Returns true if a waiting job is now more urgent than `running`.
    pub(crate) fn switch(&mut self, running: (u32, Instant)) -> bool {
        self.switched = true;
        let jobs: Vec<_> = core::mem::take(&mut self.jobs).into_vec();
        for Reverse((_, _, task, deadline)) in jobs {
            self.insert(task, deadline);
        }
        let running = self.key(running.0, running.1);
        self.jobs.peek().is_some_and(|Reverse((class, instant, ..))| (*class, *instant) < running)
    }
}

#[cfg(test)]
mod tests {
    use crate::jobs::{Jobs, OnRelease};
    use alloc::vec::Vec;
    use punctual_model::{Duration, Instant, Service, Task, TaskSpec};

    fn task(period: u64, wcet: u64, high: Option<u64>) -> Task {
        Task::new(TaskSpec {
            wcet_high: high.map(Service::from_nanos),
            ..TaskSpec::periodic("t", Duration::from_nanos(period), Service::from_nanos(wcet))
        })
        .expect("valid")
    }

    fn at(n: u64) -> Instant {
        Instant::from_nanos(n)
    }

    fn all(jobs: &mut Jobs) -> Vec<u32> {
        core::iter::from_fn(|| jobs.dispatch().inspect(|_| jobs.complete())).collect()
    }

    #[test]
    fn virtual_deadlines_count_until_a_job_needs_more_and_again_when_idle() {
        let tasks = [task(20, 4, None), task(30, 5, Some(12)), task(40, 6, Some(9))];
        let first = [None, Some(Duration::from_nanos(15)), Some(Duration::from_nanos(30))];
        let mut jobs = Jobs::edf_vd(&tasks, &first, 0);
        let ready = |jobs: &mut Jobs| {
            let deadlines = [20, 30, 40];
            for (task, deadline) in (0..).zip(deadlines) {
                assert_eq!(jobs.ready(task, at(deadline)), OnRelease::Dispatch);
            }
        };
        ready(&mut jobs);
        assert_eq!(all(&mut jobs), [1, 0, 2], "15, 20, 30");
        ready(&mut jobs);
        assert_eq!(jobs.dispatch(), Some(1));
        assert_eq!(jobs.allowance(1), Some(Service::from_nanos(5)));
        assert_eq!(jobs.overran(), OnRelease::Wait, "its real deadline is before that of task 2");
        assert_eq!(jobs.allowance(1), None);
        jobs.complete();
        assert_eq!(all(&mut jobs), [2, 0], "those of high criticality first");
        // The CPU is idle, so the mode is low again.
        ready(&mut jobs);
        assert_eq!(all(&mut jobs), [1, 0, 2]);
    }

    #[test]
    fn a_mode_change_may_preempt_the_job_that_caused_it() {
        let tasks = [task(50, 5, Some(20)), task(30, 5, Some(12))];
        let first = [Some(Duration::from_nanos(10)), Some(Duration::from_nanos(25))];
        let mut jobs = Jobs::edf_vd(&tasks, &first, 0);
        assert_eq!(jobs.ready(0, at(50)), OnRelease::Dispatch);
        assert_eq!(jobs.ready(1, at(30)), OnRelease::Dispatch);
        assert_eq!(jobs.dispatch(), Some(0));
        assert_eq!(jobs.overran(), OnRelease::AskToYield, "30 is before 50");
        jobs.give_way();
        assert_eq!(all(&mut jobs), [1, 0]);
    }
}
