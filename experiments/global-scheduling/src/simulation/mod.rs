//! Simulates tasks that move between several virtual processors, scheduled by the pure policy
//! [`Global`].

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use punctual_model::{Instant, JobId, Service, Task};
use punctual_sim::arrivals::{Arrival, Arrivals};
use punctual_trace::{Event, Kind, Sink};

use crate::policy::Global;

/// Runs the jobs of `tasks` that are known before `until` on `cpus` processors under `policy`,
/// which was made for as many; events go to `sink`.
///
/// Jobs are preemptible anywhere, whatever their quanta, and migrate at no cost; jobs of one task
/// run one after the other. An event does not name the processor: a preempted job may resume on
/// any. Nothing arrives at or after `until`; jobs released before run to their end.
pub fn run(
    tasks: &[Task],
    cpus: u32,
    policy: Global,
    arrivals: &mut impl Arrivals,
    until: Instant,
    sink: &mut impl Sink,
) {
    let mut machine = Machine::new(tasks, cpus, policy, until, arrivals);
    while machine.step(arrivals, sink) {}
}

struct Machine<'a> {
    tasks: &'a [Task],
    policy: Global,
    now: Instant,
    until: Instant,
    coming: BinaryHeap<Reverse<(Instant, u32)>>,
    queues: Vec<Queue>,
    /// The task on each processor, whose oldest job has run since `now`.
    running: Vec<Option<u32>>,
}

/// The jobs of one task: the next arrival, and the known incomplete ones, oldest first.
struct Queue {
    coming: Arrival,
    waiting: VecDeque<Arrival>,
    left: Service,
    begun: bool,
    index: u64,
}

impl<'a> Machine<'a> {
    fn new(
        tasks: &'a [Task],
        cpus: u32,
        policy: Global,
        until: Instant,
        arrivals: &mut impl Arrivals,
    ) -> Self {
        let mut coming = BinaryHeap::with_capacity(tasks.len());
        let queue = |task: u32| {
            let arrival = arrivals.next(task);
            coming.push(Reverse((arrival.known, task)));
            let (waiting, left) = (VecDeque::new(), Service::ZERO);
            Queue { coming: arrival, waiting, left, begun: false, index: 0 }
        };
        let queues = (0..tasks.len() as u32).map(queue).collect();
        let running = vec![None; cpus as usize];
        Self { tasks, policy, now: Instant::ZERO, until, coming, queues, running }
    }

    /// Moves to the next arrival or completion. Returns `false` if nothing more will happen.
    fn step(&mut self, arrivals: &mut impl Arrivals, sink: &mut impl Sink) -> bool {
        let arrival = match self.coming.peek() {
            Some(Reverse((known, _))) if *known < self.until => *known,
            _ => Instant::MAX,
        };
        let ends = self
            .running
            .iter()
            .flatten()
            .map(|task| self.now + self.queues[*task as usize].left.at_full_speed());
        let next = ends.min().unwrap_or(Instant::MAX).min(arrival);
        if next == Instant::MAX {
            return false;
        }
        let ran = (next - self.now).as_full_service();
        for task in self.running.iter().flatten() {
            self.queues[*task as usize].left -= ran;
        }
        self.now = next;
        // As on one processor: completions, then arrivals, then dispatching.
        for cpu in 0..self.running.len() {
            self.complete_if_done(cpu, sink);
        }
        self.arrive(arrivals);
        self.dispatch(sink);
        true
    }

    fn complete_if_done(&mut self, cpu: usize, sink: &mut impl Sink) {
        let Some(task) = self.running[cpu] else { return };
        if !self.queues[task as usize].left.is_zero() {
            return;
        }
        self.emit(task, Kind::Complete, sink);
        self.policy.complete(cpu as u32);
        self.running[cpu] = None;
        let queue = &mut self.queues[task as usize];
        queue.waiting.pop_front();
        queue.begun = false;
        queue.index += 1;
        self.ready_if_any(task);
    }

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
                self.ready_if_any(task);
            }
        }
    }

    fn ready_if_any(&mut self, task: u32) {
        let queue = &mut self.queues[task as usize];
        let Some(oldest) = queue.waiting.front() else { return };
        queue.left = oldest.exec_time;
        let deadline = oldest.release + self.tasks[task as usize].relative_deadline();
        self.policy.ready(task, deadline);
    }

    fn dispatch(&mut self, sink: &mut impl Sink) {
        while let Some(switch) = self.policy.dispatch() {
            if let Some(preempted) = switch.preempted {
                self.emit(preempted, Kind::GiveWay, sink);
            }
            self.running[switch.cpu as usize] = Some(switch.task);
            let queue = &mut self.queues[switch.task as usize];
            let kind = if queue.begun { Kind::Resume } else { Kind::Start };
            queue.begun = true;
            self.emit(switch.task, kind, sink);
        }
    }

    fn emit(&self, task: u32, kind: Kind, sink: &mut impl Sink) {
        let queue = &self.queues[task as usize];
        let Some(job) = queue.waiting.front() else { return };
        let id = JobId { task, index: queue.index };
        sink.record(Event { at: self.now, job: id, release: job.release, kind });
    }
}

#[cfg(test)]
mod tests;
