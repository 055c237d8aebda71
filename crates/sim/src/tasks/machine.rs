//! The event loop.

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
    /// Whether the processor is there from `now` on.
    stretch: Stretch,
    /// How many tasks have a job; kept only where the processor is not whole.
    wanting: usize,
    /// Whom the processor was at last; kept only where switches cost something.
    last: Option<JobId>,
    /// The running job was told that something above has its processor.
    preempted: bool,
    /// No job wanted the processor since the last one was done; kept only where waking up costs something.
    asleep: bool,
}

/// When the scheduler learns of a task's next arrival, and the task: one number, for a comparison without a branch.
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

/// The jobs of one task: the one to come, and those released and not complete.
struct Queue {
    coming: Arrival,
    oldest: Option<Arrival>,
    /// In the order of their releases.
    later: VecDeque<Arrival>,
    /// How long the oldest had still to run when it last got or lost the processor, and whether it has begun.
    left: Service,
    begun: bool,
    /// How many jobs are complete.
    index: u64,
}

struct Running {
    task: u32,
    /// What it must still run: to the end of the switch, or of its job.
    left: Service,
    /// What is left at the next yield point once it was asked to yield.
    yield_at: Service,
    /// What is left once it has used what its policy allows it; nothing: it may use anything.
    overrun_at: Service,
    /// What it had to do when it got the CPU.
    whole: Service,
    asked_to_yield: bool,
    /// The processor is still going over to it.
    switching: bool,
    /// From something above: the job goes on where it was, its quantum included.
    back: bool,
}

impl Running {
    /// The processor goes over to `task`, which takes `cost`.
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

    /// Moves to the next arrival, completion, or yield point of a job that was asked to yield, to the end of a switch, or to where the
    /// processor comes or goes. `false`: nothing more will happen.
    #[inline]
    pub(super) fn step(&mut self, arrivals: &mut impl Arrivals, sink: &mut impl Sink) -> bool {
        let Some(next) = self.next() else { return false };
        if let (true, Some(running)) = (self.served(), &mut self.running) {
            running.left -= (next - self.now).as_full_service();
        }
        self.now = next;
        // At one instant: a job that is done is done, then arrivals are seen, then it is decided
        // who goes on. So an arrival at the very instant of a yield point is given way to.
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

    /// The instant of the next step; `None`: there is none.
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

    /// Whether a job, or something above, has the processor or would have it.
    pub(super) fn busy(&self) -> bool {
        self.running.is_some() || self.wanting > 0 || self.setting.processor.preempts()
    }

    /// Whether the processor is there at `now` and no job wants it; every step up to then is done.
    pub(super) fn left_over(&mut self, now: Instant) -> Stretch {
        if !P::WHOLE && self.stretch.until <= now {
            // No job wants it, or there would have been a step.
            self.stretch = self.setting.processor.at(now, false);
        }
        let until = self.next().unwrap_or(Instant::MAX);
        let until = if P::WHOLE { until } else { until.min(self.stretch.until) };
        Stretch { served: self.served() && self.running.is_none(), until }
    }

    /// What is not complete.
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

    /// The running job has done all that it had to do, or all that it was allowed.
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

    /// Everything known by now becomes ready.
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
            // One way down the heap, where taking it out and putting the next one in are three.
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

    /// At a yield point, or anywhere if its task is preemptible anywhere, the running job gives way
    /// if it was asked to.
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

    /// The running job loses the processor to something above, at any point.
    fn preempt_if_due(&mut self, sink: &mut impl Sink) {
        let Some(running) = &self.running else { return };
        if !self.preempted && !running.switching && self.setting.processor.preempts() {
            self.emit(running.task, Kind::GiveWay, sink);
            self.preempted = true;
        }
    }

    /// The processor is there again for the job that lost it.
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

    /// The processor is at a job; if it was asked to leave meanwhile, it goes on to the next.
    fn end_switch(&mut self, sink: &mut impl Sink) {
        let Some(running) = self.running.take() else { return };
        if core::mem::take(&mut self.asleep) && !self.setting.costs.of_a_wake_up().is_zero() {
            // Awake: whoever is most urgent now goes first.
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

    /// The processor is back at a job that something above interrupted.
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
