//! Tasks that move between several virtual processors, scheduled by the pure policy [`Global`].

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use punctual_model::{Instant, JobId, Service, Task};
use punctual_policy::global::Global;
use punctual_trace::{Event, Kind, Sink};

use crate::arrivals::{Arrival, Arrivals};

/// Runs the jobs of `tasks` that are known before `until` on `cpus` processors under `policy`, which
/// was made for as many; events go to `sink`.
///
/// Jobs are preemptible anywhere, whatever their quanta, and move at no cost; jobs of one task run
/// one after the other. An event does not say on which processor: a job that gives way may resume
/// on any. Nothing arrives at or after `until`; what was released before runs to its end.
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

/// The jobs of one task: the one to come, and those known and not complete, oldest first.
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

    /// Moves to the next arrival or completion. `false`: nothing more will happen.
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
        // As on one processor: completions, then arrivals, then who goes on.
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
mod tests {
    use super::*;
    use crate::arrivals::{Listed, Periodic};
    use punctual_model::{Duration, TaskSpec};
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn task(period: u64, deadline: u64, wcet: u64) -> Task {
        let (period, wcet) = (Duration::from_nanos(period), Service::from_nanos(wcet));
        let spec = TaskSpec::periodic("t", period, wcet);
        Task::new(TaskSpec { relative_deadline: Duration::from_nanos(deadline), ..spec })
            .expect("valid")
    }

    /// The earliest deadline that is missed.
    fn first_miss(tasks: &[Task], cpus: u32) -> Option<u64> {
        let mut events: Vec<Event> = Vec::new();
        let policy = Global::earliest_deadline(cpus, tasks.len());
        let phases = vec![Duration::ZERO; tasks.len()];
        let mut arrivals = Periodic::new(tasks, &phases);
        run(tasks, cpus, policy, &mut arrivals, Instant::from_nanos(300), &mut events);
        let late = events.iter().filter(|event| event.kind == Kind::Complete).filter_map(|event| {
            let deadline = event.release + tasks[event.job.task as usize].relative_deadline();
            (event.at > deadline).then_some(deadline.as_nanos())
        });
        late.min()
    }

    #[test]
    fn three_tasks_of_two_thirds_miss_at_3_on_two_processors_and_never_on_three() {
        let tasks = [task(3, 3, 2), task(3, 3, 2), task(3, 3, 2)];
        assert_eq!(first_miss(&tasks, 1), Some(3));
        assert_eq!(first_miss(&tasks, 2), Some(3));
        assert_eq!(first_miss(&tasks, 3), None);
    }

    #[test]
    fn dhalls_effect_a_heavy_task_misses_beside_light_ones() {
        // As many light tasks as processors, and a heavy one with a slightly later deadline.
        let tasks = [task(100, 100, 2), task(100, 100, 2), task(101, 101, 100)];
        assert_eq!(first_miss(&tasks, 2), Some(101));
        assert_eq!(first_miss(&tasks, 3), None);
    }

    /// Tick by tick: of the known jobs the most urgent run, at equal urgency those that ran in the
    /// tick before.
    fn by_ticks(
        tasks: &[Task],
        cpus: usize,
        lists: &[Vec<Arrival>],
        by_deadline: bool,
    ) -> Vec<(u64, u32, u64)> {
        let mut left: Vec<VecDeque<(Arrival, u64)>> = lists
            .iter()
            .map(|list| list.iter().map(|job| (*job, job.exec_time.as_nanos())).collect())
            .collect();
        let mut done = vec![0u64; tasks.len()];
        let mut ran = vec![false; tasks.len()];
        let mut completions = Vec::new();
        for now in 0.. {
            if left.iter().all(VecDeque::is_empty) {
                break;
            }
            let mut ready: Vec<(u64, bool, usize)> = (0..tasks.len())
                .filter_map(|at| {
                    let (job, _) = left[at].front()?;
                    let deadline = job.release + tasks[at].relative_deadline();
                    let urgency = if by_deadline { deadline.as_nanos() } else { at as u64 };
                    (job.known.as_nanos() <= now).then_some((urgency, !ran[at], at))
                })
                .collect();
            ready.sort_unstable();
            ran.fill(false);
            for &(_, _, at) in ready.iter().take(cpus) {
                ran[at] = true;
                let job = left[at].front_mut().expect("ready");
                job.1 -= 1;
                if job.1 == 0 {
                    left[at].pop_front();
                    completions.push((now + 1, at as u32, done[at]));
                    done[at] += 1;
                    ran[at] = false;
                }
            }
        }
        completions.sort_unstable();
        completions
    }

    #[test]
    fn agrees_with_a_simulation_tick_by_tick() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let (mut jobs, mut preemptions) = (0, 0);
        for _ in 0..600 {
            let tasks: Vec<Task> = (0..rng.random_range(1..=7))
                .map(|_| {
                    let period = rng.random_range(2..=20);
                    let wcet = rng.random_range(1..=period);
                    task(period, rng.random_range(wcet..=2 * period), wcet)
                })
                .collect();
            let lists: Vec<Vec<Arrival>> = tasks
                .iter()
                .map(|task| {
                    let mut release = Instant::from_nanos(rng.random_range(0..10));
                    (0..rng.random_range(1..12))
                        .map(|_| {
                            let exec = rng.random_range(1..=task.wcet().as_nanos());
                            let exec_time = Service::from_nanos(exec);
                            let job = Arrival { release, known: release, exec_time };
                            let slack = Duration::from_nanos(rng.random_range(0..4));
                            release = release + task.min_inter_arrival() + slack;
                            job
                        })
                        .collect()
                })
                .collect();
            let cpus = rng.random_range(1..=4);
            for by_deadline in [false, true] {
                let order: Vec<u32> = (0..tasks.len() as u32).collect();
                let policy = if by_deadline {
                    Global::earliest_deadline(cpus, tasks.len())
                } else {
                    Global::fixed_priority(cpus, &order)
                };
                let mut events: Vec<Event> = Vec::new();
                let mut arrivals = Listed::new(&lists);
                run(&tasks, cpus, policy, &mut arrivals, Instant::MAX, &mut events);
                let mut seen: Vec<(u64, u32, u64)> = events
                    .iter()
                    .filter(|event| event.kind == Kind::Complete)
                    .map(|event| (event.at.as_nanos(), event.job.task, event.job.index))
                    .collect();
                seen.sort_unstable();
                assert_eq!(seen, by_ticks(&tasks, cpus as usize, &lists, by_deadline));
                jobs += seen.len();
                preemptions += events.iter().filter(|e| e.kind == Kind::GiveWay).count();
            }
        }
        assert!(jobs > 10_000 && preemptions > 1_000, "{jobs} {preemptions}");
    }
}
