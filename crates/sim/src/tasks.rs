//! Tasks on one virtual CPU, scheduled by the pure policy [`Jobs`].

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;

use punctual_model::{Instant, JobId, Service, Task};
use punctual_policy::jobs::{Jobs, OnRelease};
use punctual_trace::{Event, Kind, Sink};

use crate::arrivals::{Arrival, Arrivals};

/// Runs the jobs of `tasks` that are released before `until` under `policy`; events go to `sink`.
///
/// A job whose task has a quantum reaches a yield point each time it has run for a whole quantum
/// since it last got the CPU: stretches as long as its contract allows. A task without a quantum is
/// preempted at once. Switching costs nothing.
///
/// Nothing arrives at or after `until`; what was released before runs to its end, so that a job
/// that an overload delays for long is seen to be late.
pub fn run(
    tasks: &[Task],
    policy: Jobs,
    arrivals: &mut impl Arrivals,
    until: Instant,
    sink: &mut impl Sink,
) {
    let mut machine = Machine::new(tasks, policy, until, arrivals);
    while machine.step(arrivals, sink) {}
}

struct Machine<'a> {
    tasks: &'a [Task],
    policy: Jobs,
    now: Instant,
    until: Instant,
    /// When the scheduler learns of each task's next arrival.
    coming: BinaryHeap<Reverse<(Instant, u32)>>,
    queues: Vec<Queue>,
    running: Option<Running>,
}

/// The jobs of one task: the one to come, and those released and not complete, oldest first.
struct Queue {
    coming: Arrival,
    waiting: VecDeque<Arrival>,
    /// How long the oldest waiting job must still run, and whether it has begun.
    left: Service,
    begun: bool,
    /// How many jobs are complete.
    index: u64,
}

struct Running {
    task: u32,
    /// Until the next yield point or completion.
    stretch: Service,
    asked_to_yield: bool,
}

impl<'a> Machine<'a> {
    fn new(tasks: &'a [Task], policy: Jobs, until: Instant, arrivals: &mut impl Arrivals) -> Self {
        let mut coming = BinaryHeap::with_capacity(tasks.len());
        let queues = (0..tasks.len() as u32)
            .map(|task| {
                let arrival = arrivals.next(task);
                coming.push(Reverse((arrival.known, task)));
                Queue {
                    coming: arrival,
                    waiting: VecDeque::new(),
                    left: Service::ZERO,
                    begun: false,
                    index: 0,
                }
            })
            .collect();
        Self { tasks, policy, now: Instant::ZERO, until, coming, queues, running: None }
    }

    /// Moves to the next arrival, yield point or completion. `false`: nothing more will happen.
    fn step(&mut self, arrivals: &mut impl Arrivals, sink: &mut impl Sink) -> bool {
        let arrival = match self.coming.peek() {
            Some(Reverse((known, _))) if *known < self.until => *known,
            _ => Instant::MAX,
        };
        let end = match &self.running {
            Some(running) => self.now + running.stretch.at_full_speed(),
            None => Instant::MAX,
        };
        let next = end.min(arrival);
        if next == Instant::MAX {
            return false;
        }
        if let Some(running) = &mut self.running {
            let ran = (next - self.now).as_full_service();
            running.stretch -= ran;
            self.queues[running.task as usize].left -= ran;
        }
        self.now = next;
        // At one instant: a job that is done is done, then arrivals are seen, then it is decided
        // who goes on. So an arrival at the very instant of a yield point is given way to.
        self.complete_if_done(sink);
        self.arrive(arrivals);
        self.give_way_if_due(sink);
        self.dispatch(sink);
        true
    }

    fn complete_if_done(&mut self, sink: &mut impl Sink) {
        let Some(&Running { task, .. }) = self.running.as_ref() else { return };
        if !self.queues[task as usize].left.is_zero() {
            return;
        }
        self.emit(task, Kind::Complete, sink);
        self.policy.complete();
        self.running = None;
        let queue = &mut self.queues[task as usize];
        queue.waiting.pop_front();
        queue.begun = false;
        queue.index += 1;
        if let Some(&next) = queue.waiting.front() {
            queue.left = next.exec_time;
            self.make_ready(task, next);
        }
    }

    /// Everything known by now becomes ready.
    fn arrive(&mut self, arrivals: &mut impl Arrivals) {
        while let Some(&Reverse((known, task))) = self.coming.peek() {
            if known > self.now || known >= self.until {
                break;
            }
            self.coming.pop();
            let queue = &mut self.queues[task as usize];
            let arrival = queue.coming;
            queue.coming = arrivals.next(task);
            self.coming.push(Reverse((queue.coming.known, task)));
            queue.waiting.push_back(arrival);
            if queue.waiting.len() == 1 {
                queue.left = arrival.exec_time;
                self.make_ready(task, arrival);
            }
        }
    }

    fn make_ready(&mut self, task: u32, arrival: Arrival) {
        let deadline = arrival.release + self.tasks[task as usize].relative_deadline();
        let asked = self.policy.ready(task, deadline) == OnRelease::AskToYield;
        if let Some(running) = &mut self.running {
            running.asked_to_yield |= asked;
        }
    }

    /// At a yield point, or anywhere if its task is preemptible anywhere, the running job gives way
    /// if it was asked to; else it goes on for another stretch.
    fn give_way_if_due(&mut self, sink: &mut impl Sink) {
        let Some(running) = &mut self.running else { return };
        let task = &self.tasks[running.task as usize];
        let at_yield_point = running.stretch.is_zero();
        if running.asked_to_yield && (at_yield_point || task.quantum().is_zero()) {
            self.give_way(sink);
        } else if at_yield_point {
            running.stretch = stretch(task, self.queues[running.task as usize].left);
        }
    }

    fn give_way(&mut self, sink: &mut impl Sink) {
        if let Some(running) = self.running.take() {
            self.emit(running.task, Kind::GiveWay, sink);
            self.policy.give_way();
        }
    }

    fn dispatch(&mut self, sink: &mut impl Sink) {
        if self.running.is_some() {
            return;
        }
        let Some(task) = self.policy.dispatch() else { return };
        let queue = &mut self.queues[task as usize];
        let kind = if queue.begun { Kind::Resume } else { Kind::Start };
        queue.begun = true;
        let stretch = stretch(&self.tasks[task as usize], queue.left);
        self.running = Some(Running { task, stretch, asked_to_yield: false });
        self.emit(task, kind, sink);
    }

    fn emit(&self, task: u32, kind: Kind, sink: &mut impl Sink) {
        let queue = &self.queues[task as usize];
        let Some(job) = queue.waiting.front() else { return };
        let id = JobId { task, index: queue.index };
        sink.record(Event { at: self.now, job: id, release: job.release, kind });
    }
}

/// How long a job that gets the CPU with `left` to do runs without looking up.
fn stretch(task: &Task, left: Service) -> Service {
    if task.quantum().is_zero() { left } else { left.min(task.quantum()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrivals::Periodic;
    use punctual_model::{Duration, TaskSpec};
    use punctual_trace::Summary;

    fn task(period: u64, wcet: u64, quantum: u64) -> Task {
        Task::new(TaskSpec {
            quantum: Service::from_micros(quantum),
            ..TaskSpec::periodic("t", Duration::from_micros(period), Service::from_micros(wcet))
        })
        .expect("valid")
    }

    fn summary(tasks: &[Task], policy: Jobs, phases: &[u64]) -> Summary {
        let phases: Vec<_> = phases.iter().map(|us| Duration::from_micros(*us)).collect();
        let mut summary = Summary::new(tasks);
        let until = Instant::from_nanos(200_000);
        run(tasks, policy, &mut Periodic::new(tasks, &phases), until, &mut summary);
        summary
    }

    fn worst(summary: &Summary) -> Vec<u64> {
        let max = |task: &punctual_trace::TaskSummary| task.response_time.max().expect("jobs");
        summary.tasks().iter().map(|task| max(task).as_nanos() / 1000).collect()
    }

    #[test]
    fn burns_and_wellings_response_times_at_the_critical_instant() {
        let tasks = [task(7, 3, 0), task(12, 3, 0), task(20, 5, 0)];
        let summary = summary(&tasks, Jobs::fixed_priority(&[0, 1, 2]), &[0, 0, 0]);
        assert_eq!(worst(&summary), [3, 6, 20]);
        assert_eq!(summary.late(), 0);
    }

    #[test]
    fn a_quantum_is_not_interrupted_and_a_yield_point_gives_way() {
        // The long job starts at 0 and would yield at 4; the short one is released at 1.
        let tasks = [task(20, 2, 0), task(40, 8, 4)];
        let mut events: Vec<Event> = Vec::new();
        let phases = [Duration::from_micros(1), Duration::ZERO];
        let mut arrivals = Periodic::new(&tasks, &phases);
        let until = Instant::from_nanos(15_000);
        run(&tasks, Jobs::fixed_priority(&[0, 1]), &mut arrivals, until, &mut events);
        let seen: Vec<_> =
            events.iter().map(|e| (e.at.as_nanos() / 1000, e.job.task, e.kind)).collect();
        assert_eq!(
            seen,
            [
                (0, 1, Kind::Start),
                (4, 1, Kind::GiveWay),
                (4, 0, Kind::Start),
                (6, 0, Kind::Complete),
                (6, 1, Kind::Resume),
                (10, 1, Kind::Complete),
            ]
        );
    }

    #[test]
    fn earliest_deadline_uses_the_whole_cpu() {
        let tasks = [task(4, 2, 0), task(8, 4, 0)];
        let summary = summary(&tasks, Jobs::earliest_deadline(2), &[0, 0]);
        assert_eq!(summary.late(), 0);
        assert_eq!(summary.jobs(), 50 + 25);
    }

    #[test]
    fn an_overload_is_late_and_the_run_still_ends() {
        let tasks = [task(4, 3, 0), task(8, 4, 0)];
        assert!(summary(&tasks, Jobs::fixed_priority(&[0, 1]), &[0, 0]).late() > 0);
    }
}
