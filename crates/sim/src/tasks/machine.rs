//! Implements the event loop.

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;

use punctual_model::{Instant, JobId, Service, Task};
use punctual_policy::jobs::{Jobs, OnRelease};
use punctual_trace::{Event, Kind, Sink};

use super::yields::{Yields, until_yield};
use super::{Setting, Unfinished};
use crate::arrivals::{Arrival, Arrivals};
use crate::overheads::Costs;
use crate::processor::{Processor, Stretch};

pub(super) struct Machine<'a, C, P, Y> {
    setting: Setting<C, P, Y>,
    tasks: &'a [Task],
    policy: Jobs,
    now: Instant,
    until: Instant,
    coming: BinaryHeap<Reverse<Coming>>,
    queues: Vec<Queue>,
    running: Option<Running>,
    /// Whether the processor is available from `now` on.
    stretch: Stretch,
    /// The number of tasks that have a job; tracked only if the processor is not whole.
    wanting: usize,
    /// The last job that had the processor; tracked only if switches cost something.
    last: Option<JobId>,
    /// The running job was recorded as giving way, because something above has its processor.
    preempted: bool,
    /// No job has wanted the processor since the last one was done; tracked only if waking up costs
    /// something.
    asleep: bool,
}

/// The instant at which the scheduler learns of a task's next arrival, and the task, in one number,
/// so that comparison needs no branch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Coming(u128);

impl Coming {
    #[inline]
    fn new(known: Instant, task: u32) -> Self {
        Self(u128::from(known.as_nanos()) << 64 | u128::from(task))
    }

    #[inline]
    fn known(self) -> Instant {
        Instant::from_nanos((self.0 >> 64) as u64)
    }

    #[inline]
    fn task(self) -> u32 {
        self.0 as u32
    }
}

/// The jobs of one task: the next one, and those released and not complete.
struct Queue {
    coming: Arrival,
    oldest: Option<Arrival>,
    /// The later jobs, in the order of their releases.
    later: VecDeque<Arrival>,
    /// The time that the oldest still had to run when it last got or lost the processor, and
    /// whether it has begun.
    left: Service,
    begun: bool,
    /// The number of jobs that are complete.
    index: u64,
}

struct Running {
    task: u32,
    /// The remaining time to the end of the switch, or of its job.
    left: Service,
    /// The value of `left` at the next yield point, once it was asked to yield.
    yield_at: Service,
    /// The value of `left` at which it has used what its policy allows. Zero means that it may use
    /// anything.
    overrun_at: Service,
    /// The time that it had to run when it got the CPU.
    whole: Service,
    asked_to_yield: bool,
    /// The processor is still switching to it.
    switching: bool,
    /// It returns from an interruption by something above, and resumes where it was, its quantum
    /// included.
    back: bool,
}

impl Running {
    /// Makes a switch to `task` that takes `cost`.
    fn going_to(task: u32, cost: Service) -> Self {
        Self {
            task,
            left: cost,
            yield_at: Service::ZERO,
            overrun_at: Service::ZERO,
            whole: cost,
            asked_to_yield: false,
            switching: true,
            back: false,
        }
    }
}

impl<'a, C: Costs, P: Processor, Y: Yields> Machine<'a, C, P, Y> {
    pub(super) fn new(
        mut setting: Setting<C, P, Y>,
        tasks: &'a [Task],
        policy: Jobs,
        until: Instant,
        arrivals: &mut impl Arrivals,
    ) -> Self {
        let mut coming = BinaryHeap::with_capacity(tasks.len());
        let queues = (0..tasks.len() as u32)
            .map(|task| {
                let arrival = arrivals.next(task);
                coming.push(Reverse(Coming::new(arrival.known, task)));
                Queue {
                    coming: arrival,
                    oldest: None,
                    later: VecDeque::new(),
                    left: Service::ZERO,
                    begun: false,
                    index: 0,
                }
            })
            .collect();
        let stretch = setting.processor.at(Instant::ZERO, false);
        Self {
            setting,
            tasks,
            policy,
            now: Instant::ZERO,
            until,
            coming,
            queues,
            running: None,
            stretch,
            wanting: 0,
            last: None,
            preempted: false,
            asleep: true,
        }
    }

    /// Advances to the next event: an arrival, a completion, a yield point of a job that was asked
    /// to yield, the end of a switch, or a change of the processor. Returns `false` if nothing more
    /// will happen.
    #[inline]
    pub(super) fn step(&mut self, arrivals: &mut impl Arrivals, sink: &mut impl Sink) -> bool {
        let Some(next) = self.next() else { return false };
        if let (true, Some(running)) = (self.served(), &mut self.running) {
            running.left -= (next - self.now).as_full_service();
        }
        self.now = next;
        // The order at one instant: a job that is done completes, then arrivals are seen, then the
        // next job is chosen. So a job at a yield point gives way to an arrival at the same
        // instant.
        self.complete_if_done(sink);
        self.arrive(arrivals);
        self.give_way_if_due(sink);
        if !P::WHOLE {
            self.stretch = self.setting.processor.at(self.now, self.wanting > 0);
            if !self.stretch.served {
                self.preempt_if_due(sink);
                return true;
            }
            self.come_back(sink);
        }
        self.dispatch(sink);
        true
    }

    /// Returns the instant of the next step, if there is one.
    #[inline]
    pub(super) fn next(&self) -> Option<Instant> {
        let arrival = match self.coming.peek() {
            Some(Reverse(coming)) if coming.known() < self.until => coming.known(),
            _ => Instant::MAX,
        };
        let end = match &self.running {
            Some(running) if self.served() => {
                let at_end = !C::FREE && running.switching;
                let least = running.yield_at.max(running.overrun_at);
                self.now + if at_end { running.left } else { running.left - least }.at_full_speed()
            }
            _ => Instant::MAX,
        };
        let mut next = end.min(arrival);
        if !P::WHOLE && self.wanting > 0 {
            next = next.min(self.stretch.until);
        }
        let over = next == Instant::MAX || (!P::WHOLE && next >= self.setting.end);
        (!over).then_some(next)
    }

    fn served(&self) -> bool {
        P::WHOLE || self.stretch.served
    }

    /// Returns whether a job, or something above, has or wants the processor.
    pub(super) fn busy(&self) -> bool {
        self.running.is_some() || self.wanting > 0 || self.setting.processor.preempts()
    }

    /// Returns whether the processor is available at `now` and no job wants it. Every step up to
    /// then must be done.
    pub(super) fn left_over(&mut self, now: Instant) -> Stretch {
        if !P::WHOLE && self.stretch.until <= now {
            // No job wants it, or there would have been a step.
            self.stretch = self.setting.processor.at(now, false);
        }
        let until = self.next().unwrap_or(Instant::MAX);
        let until = if P::WHOLE { until } else { until.min(self.stretch.until) };
        Stretch { served: self.served() && self.running.is_none(), until }
    }

    /// Returns the jobs that are not complete.
    pub(super) fn unfinished(&self) -> Vec<Unfinished> {
        let of_task = |(queue, task): (&Queue, u32)| {
            let index = queue.index;
            let waiting = queue.oldest.iter().chain(&queue.later).zip(index..);
            let job = |(arrival, index): (&Arrival, u64)| Unfinished {
                job: JobId { task, index },
                release: arrival.release,
            };
            waiting.map(job).collect::<Vec<_>>()
        };
        self.queues.iter().zip(0..).flat_map(of_task).collect()
    }

    /// Completes the running job if it has done all its work, or all that it is allowed to do.
    fn complete_if_done(&mut self, sink: &mut impl Sink) {
        let Some(running) = &mut self.running else { return };
        if running.left > running.overrun_at || (!C::FREE && running.switching) {
            return;
        }
        if !running.left.is_zero() {
            running.overrun_at = Service::ZERO;
            if self.policy.overran() == OnRelease::AskToYield {
                self.ask_to_yield();
            }
            return;
        }
        let task = running.task;
        self.emit(task, Kind::Complete, sink);
        self.policy.complete();
        self.running = None;
        let queue = &mut self.queues[task as usize];
        queue.oldest = queue.later.pop_front();
        queue.begun = false;
        queue.index += 1;
        if let Some(next) = queue.oldest {
            queue.left = next.exec_time;
            self.make_ready(task, next);
        } else if !P::WHOLE {
            self.wanting -= 1;
        }
    }

    /// Makes every job known by now ready.
    fn arrive(&mut self, arrivals: &mut impl Arrivals) {
        loop {
            let Some(mut earliest) = self.coming.peek_mut() else { return };
            let (known, task) = (earliest.0.known(), earliest.0.task());
            if known > self.now || known >= self.until {
                return;
            }
            let queue = &mut self.queues[task as usize];
            let arrival = queue.coming;
            queue.coming = arrivals.next(task);
            // Replacing the top sifts once, where a pop and a push would sift three times.
            *earliest = Reverse(Coming::new(queue.coming.known, task));
            drop(earliest);
            if queue.oldest.is_some() {
                queue.later.push_back(arrival);
                continue;
            }
            queue.oldest = Some(arrival);
            queue.left = arrival.exec_time;
            if !P::WHOLE {
                self.wanting += 1;
            }
            self.make_ready(task, arrival);
        }
    }

    fn make_ready(&mut self, task: u32, arrival: Arrival) {
        let deadline = arrival.release + self.tasks[task as usize].relative_deadline();
        if self.policy.ready_since(task, arrival.known, deadline) == OnRelease::AskToYield {
            self.ask_to_yield();
        }
    }

    fn ask_to_yield(&mut self) {
        let Some(running) = self.running.as_mut().filter(|running| !running.asked_to_yield) else {
            return;
        };
        running.asked_to_yield = true;
        if C::FREE || !running.switching {
            let eager = !Y::SELDOM && self.setting.yields.eager(running.task);
            let task = &self.tasks[running.task as usize];
            running.yield_at = running.left - until_yield(task, running.whole, running.left, eager);
        }
    }

    /// Makes the running job give way if it was asked to and is at a yield point, or anywhere if
    /// its task can be preempted anywhere.
    fn give_way_if_due(&mut self, sink: &mut impl Sink) {
        let Some(running) = &mut self.running else { return };
        if !C::FREE && running.switching {
            if !running.left.is_zero() {
                return;
            }
            if !running.back {
                self.end_switch(sink);
                return;
            }
            self.end_switch_back(sink);
        }
        let Some(running) = &mut self.running else { return };
        if !running.asked_to_yield {
            return;
        }
        let task = &self.tasks[running.task as usize];
        let eager = !Y::SELDOM && self.setting.yields.eager(running.task);
        let anywhere = task.quantum().is_zero() || (eager && running.left > task.last_segment());
        if anywhere || running.left == running.yield_at {
            self.give_way(sink);
        }
    }

    fn give_way(&mut self, sink: &mut impl Sink) {
        if let Some(running) = self.running.take() {
            self.queues[running.task as usize].left = running.left;
            if P::WHOLE || !core::mem::take(&mut self.preempted) {
                self.emit(running.task, Kind::GiveWay, sink);
            }
            self.policy.give_way();
        }
    }

    /// Takes the processor from the running job for something above, at any point.
    fn preempt_if_due(&mut self, sink: &mut impl Sink) {
        let Some(running) = &self.running else { return };
        if !self.preempted && !running.switching && self.setting.processor.preempts() {
            self.emit(running.task, Kind::GiveWay, sink);
            self.preempted = true;
        }
    }

    /// Returns the processor to the job that lost it.
    fn come_back(&mut self, sink: &mut impl Sink) {
        if !core::mem::take(&mut self.preempted) {
            return;
        }
        let Some(running) = &mut self.running else { return };
        let cost = self.setting.costs.of_a_switch();
        if C::FREE || cost.is_zero() {
            let task = running.task;
            self.emit(task, Kind::Resume, sink);
        } else {
            self.queues[running.task as usize].left = running.left;
            (running.left, running.switching, running.back) = (cost, true, true);
        }
    }

    fn dispatch(&mut self, sink: &mut impl Sink) {
        if self.running.is_some() {
            return;
        }
        let Some(task) = self.policy.dispatch() else {
            if !C::FREE {
                self.asleep = true;
            }
            return;
        };
        if !C::FREE {
            let wake_up = self.setting.costs.of_a_wake_up();
            if self.asleep && !wake_up.is_zero() {
                self.running = Some(Running::going_to(task, wake_up));
                return;
            }
            let cost = self.setting.costs.of_a_switch();
            let job = JobId { task, index: self.queues[task as usize].index };
            if self.last != Some(job) && !cost.is_zero() {
                self.running = Some(Running::going_to(task, cost));
                return;
            }
        }
        self.begin(task, sink);
    }

    /// Ends the switch to a job. If the job was asked to yield meanwhile, the policy chooses again.
    fn end_switch(&mut self, sink: &mut impl Sink) {
        let Some(running) = self.running.take() else { return };
        if core::mem::take(&mut self.asleep) && !self.setting.costs.of_a_wake_up().is_zero() {
            // The processor is awake now, and the most urgent job goes first.
            self.policy.give_way();
            return;
        }
        let task = running.task;
        self.last = Some(JobId { task, index: self.queues[task as usize].index });
        if running.asked_to_yield {
            self.policy.give_way();
        } else {
            self.begin(task, sink);
        }
    }

    /// Ends the switch back to a job that something above interrupted.
    fn end_switch_back(&mut self, sink: &mut impl Sink) {
        let Some(running) = &mut self.running else { return };
        (running.switching, running.back) = (false, false);
        let task = running.task;
        running.left = self.queues[task as usize].left;
        if core::mem::take(&mut running.asked_to_yield) {
            self.ask_to_yield();
        }
        self.emit(task, Kind::Resume, sink);
    }

    fn begin(&mut self, task: u32, sink: &mut impl Sink) {
        let queue = &mut self.queues[task as usize];
        let kind = if queue.begun { Kind::Resume } else { Kind::Start };
        queue.begun = true;
        let left = queue.left;
        let overrun_at = self.policy.allowance(task).map_or(Service::ZERO, |most| {
            let whole = queue.oldest.map_or(Service::ZERO, |job| job.exec_time);
            whole.saturating_sub(most).min(left)
        });
        self.running = Some(Running {
            task,
            left,
            yield_at: Service::ZERO,
            overrun_at,
            whole: left,
            asked_to_yield: false,
            switching: false,
            back: false,
        });
        self.emit(task, kind, sink);
    }

    fn emit(&self, task: u32, kind: Kind, sink: &mut impl Sink) {
        let queue = &self.queues[task as usize];
        let Some(job) = &queue.oldest else { return };
        let id = JobId { task, index: queue.index };
        sink.record(Event { at: self.now, job: id, release: job.release, kind });
    }
}
