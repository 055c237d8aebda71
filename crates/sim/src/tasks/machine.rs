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
    /// When the scheduler learns of each task's next arrival.
    coming: BinaryHeap<Reverse<(Instant, u32)>>,
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
    /// Until the end of the switch; or until completion, or the next yield point once it was asked to
    /// yield.
    stretch: Service,
    /// What it had to do when it got the CPU.
    whole: Service,
    /// Until it has used what its policy allows it; the largest number: it may use anything.
    allowance: Service,
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
            stretch: cost,
            whole: cost,
            allowance: Service::MAX,
            asked_to_yield: false,
            switching: true,
            back: false,
        }
    }

    /// How long it runs before something is to be decided.
    #[inline]
    fn until_event(&self) -> Service {
        if self.switching { self.stretch } else { self.stretch.min(self.allowance) }
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
            let ran = (next - self.now).as_full_service();
            running.stretch -= ran;
            if C::FREE || !running.switching {
                self.queues[running.task as usize].left -= ran;
                running.allowance = running.allowance.saturating_sub(ran);
            }
        }
        self.now = next;
        // At one instant: a job that is done is done, then arrivals are seen, then it is decided
        // who goes on. So an arrival at the very instant of a yield point is given way to.
        self.complete_if_done(sink);
        self.tell_if_overrun();
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
            Some(Reverse((known, _))) if *known < self.until => *known,
            _ => Instant::MAX,
        };
        let end = match &self.running {
            Some(running) if self.served() => self.now + running.until_event().at_full_speed(),
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
            let waiting = queue.waiting.iter().zip(index..);
            let job = |(arrival, index): (&Arrival, u64)| Unfinished {
                job: JobId { task, index },
                release: arrival.release,
            };
            waiting.map(job).collect::<Vec<_>>()
        };
        self.queues.iter().zip(0..).flat_map(of_task).collect()
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
        } else if !P::WHOLE {
            self.wanting -= 1;
        }
    }

    /// Everything known by now becomes ready.
    fn arrive(&mut self, arrivals: &mut impl Arrivals) {
        loop {
            let Some(mut earliest) = self.coming.peek_mut() else { return };
            let Reverse((known, task)) = *earliest;
            if known > self.now || known >= self.until {
                return;
            }
            let queue = &mut self.queues[task as usize];
            let arrival = queue.coming;
            queue.coming = arrivals.next(task);
            // One way down the heap, where taking it out and putting the next one in are three.
            *earliest = Reverse((queue.coming.known, task));
            drop(earliest);
            queue.waiting.push_back(arrival);
            if queue.waiting.len() == 1 {
                queue.left = arrival.exec_time;
                if !P::WHOLE {
                    self.wanting += 1;
                }
                self.make_ready(task, arrival);
            }
        }
    }

    /// The running job has used what it was allowed, and has more to do.
    #[inline]
    fn tell_if_overrun(&mut self) {
        let Some(running) = self.running.as_mut().filter(|running| running.allowance.is_zero())
        else {
            return;
        };
        running.allowance = Service::MAX;
        if self.policy.overran() == OnRelease::AskToYield {
            self.ask_to_yield();
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
            let (task, left) = (running.task as usize, self.queues[running.task as usize].left);
            running.stretch = until_yield(&self.tasks[task], running.whole, left, eager);
        }
    }

    /// At a yield point, or anywhere if its task is preemptible anywhere, the running job gives way
    /// if it was asked to.
    fn give_way_if_due(&mut self, sink: &mut impl Sink) {
        let Some(running) = &mut self.running else { return };
        let at_yield_point = running.stretch.is_zero();
        if !C::FREE && running.switching {
            if !at_yield_point {
                return;
            }
            if !running.back {
                self.end_switch(sink);
                return;
            }
            self.end_switch_back(sink);
        }
        let Some(running) = &mut self.running else { return };
        let at_yield_point = running.stretch.is_zero();
        if !running.asked_to_yield {
            return;
        }
        let task = &self.tasks[running.task as usize];
        let eager = !Y::SELDOM && self.setting.yields.eager(running.task);
        let left = || self.queues[running.task as usize].left;
        let anywhere = || task.quantum().is_zero() || (eager && left() > task.last_segment());
        if at_yield_point || anywhere() {
            self.give_way(sink);
        }
    }

    fn give_way(&mut self, sink: &mut impl Sink) {
        if let Some(running) = self.running.take() {
            if !core::mem::take(&mut self.preempted) {
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
            (running.stretch, running.switching, running.back) = (cost, true, true);
        }
    }

    fn dispatch(&mut self, sink: &mut impl Sink) {
        if self.running.is_some() {
            return;
        }
        let Some(task) = self.policy.dispatch() else {
            self.asleep = true;
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
        let left = self.queues[task as usize].left;
        running.stretch = if running.asked_to_yield {
            let eager = !Y::SELDOM && self.setting.yields.eager(task);
            until_yield(&self.tasks[task as usize], running.whole, left, eager)
        } else {
            left
        };
        self.emit(task, Kind::Resume, sink);
    }

    fn begin(&mut self, task: u32, sink: &mut impl Sink) {
        let queue = &mut self.queues[task as usize];
        let kind = if queue.begun { Kind::Resume } else { Kind::Start };
        queue.begun = true;
        let left = queue.left;
        let allowance = self.policy.allowance(task).map_or(Service::MAX, |most| {
            let whole = queue.waiting.front().map_or(Service::ZERO, |job| job.exec_time);
            most.saturating_sub(whole - left)
        });
        self.running = Some(Running {
            task,
            stretch: left,
            whole: left,
            allowance,
            asked_to_yield: false,
            switching: false,
            back: false,
        });
        self.emit(task, kind, sink);
    }

    fn emit(&self, task: u32, kind: Kind, sink: &mut impl Sink) {
        let queue = &self.queues[task as usize];
        let Some(job) = queue.waiting.front() else { return };
        let id = JobId { task, index: queue.index };
        sink.record(Event { at: self.now, job: id, release: job.release, kind });
    }
}
