//! What the one who turns owns: the policies, the handlers, and his ends of the queues.

use std::any::Any;
use std::sync::atomic::Ordering;

use punctual_linux::clock;
use punctual_linux::sched::SchedError;
use punctual_model::{Backlog, Duration, Handler, Instant, JobId, Service, Upcall};
use punctual_policy::rmdp::{self, Fate, Missed, Rmdp};
use punctual_policy::virtual_time::{self, VirtualTime};
use punctual_ring::spsc;
use punctual_trace::{Event, Kind};

use super::Shared;
use super::orders::{Order, Reply};
use crate::ceiling::{Ceiling, Rates};
use crate::placement::Placement;
use crate::upcalls::admission::Work;
use crate::upcalls::notice::{Activity, Notice, NoticeKind};

/// The turning state. Its policies know an upcall by its slot, its owner by a number that is not
/// used twice.
pub(crate) struct Crew<H> {
    pub(super) policy: Rmdp,
    pub(super) best_effort: VirtualTime,
    pub(super) slots: Vec<Slot<H>>,
    pub(super) placement: Placement,
    pub(super) ceiling: Option<Ceiling>,
    pub(super) grace: Option<Duration>,
    /// After so many containments an upcall is closed.
    pub(super) most_contained: u32,
    /// So much after a release it may be noticed.
    pub(super) release_window: Duration,
    pub(super) events: spsc::Producer<Event>,
    pub(super) notices: spsc::Producer<Notice>,
    pub(super) orders: rtrb::Consumer<Order<H>>,
    pub(super) answers: rtrb::Producer<Reply<H>>,
    /// How often the bell was rung when the orders were last looked at.
    pub(super) rings: u32,
    /// An order was followed, and no policy has been asked since: an owner that gives one after the
    /// other keeps no upcall from running.
    pub(super) obeyed: bool,
    /// What the order across processes was; freed by the owner.
    pub(super) retired: Vec<Rates>,
    /// Notices that may wait.
    pub(super) notices_room: usize,
    /// Handlers that have not come back.
    pub(super) out: Vec<Out<H>>,
    /// Where the handler comes back that the running thread is in, should it be put aside.
    pub(super) home: Option<rtrb::Consumer<Home<H>>>,
    /// Whose iteration runs.
    pub(super) running: Option<Running>,
    pub(super) gave_way: bool,
    /// Whether the guard's timer is set.
    pub(super) busy: bool,
    /// Of an ordinary thread, for as long as best effort runs: the next release, and the period of
    /// the upcall that is released then.
    pub(super) background: Option<(Instant, Duration)>,
    /// Processor time of threads that were put aside, until then.
    pub(super) exec_time: Service,
}

pub(super) struct Slot<H> {
    /// Its number; none of a free slot.
    pub(super) task: Option<u32>,
    pub(super) work: Option<Work>,
    /// With its owner while an iteration of it runs.
    pub(super) handler: Option<Box<H>>,
    /// How long an iteration may take.
    pub(super) limit: Duration,
    pub(super) contained: u32,
    pub(super) activity: Activity,
}

/// What a panic leaves.
pub(crate) type Payload = Box<dyn Any + Send>;

/// A handler that was put aside and comes back, or the panic in which it was lost.
pub(crate) type Home<H> = Result<Box<H>, Payload>;

/// A handler that was put aside.
pub(crate) struct Out<H> {
    pub(super) slot: u32,
    pub(crate) task: u32,
    pub(crate) comes_by: rtrb::Consumer<Home<H>>,
    /// It is not released before this.
    pub(super) not_before: Instant,
}

/// Whose iteration runs.
#[derive(Clone, Copy)]
pub(super) struct Running {
    pub(super) slot: u32,
    pub(super) index: u64,
    pub(super) release: Instant,
    pub(super) real_time: bool,
}

/// Why nobody turns any more.
pub(crate) enum End {
    /// It was asked for.
    Stopped,
    /// The kernel took the class away.
    Class(SchedError),
    /// A handler panicked.
    Panicked(Payload),
    /// There is no guard any more: after a containment there was no thread for the next one, or its
    /// timer failed.
    Unwatched(std::io::Error),
}

impl From<SchedError> for End {
    fn from(error: SchedError) -> Self {
        Self::Class(error)
    }
}

/// What to do next.
pub(super) enum Choice {
    /// Look again at this time.
    Again(Instant),
    RealTime(rmdp::Turn),
    BestEffort(virtual_time::Turn),
}

impl<H: Handler + Send> Crew<H> {
    /// What to do at `now`, having slept if there was nothing.
    pub(super) fn choose(&mut self, now: Instant, shared: &Shared<H>) -> Result<Choice, End> {
        // One load covers orders, handlers that came back, and the end.
        let rings = shared.bell.rings();
        if rings != self.rings && !self.obeyed {
            self.rings = rings;
            self.obeyed = true;
            if let Some(failed) = shared.unwatched.get() {
                return Err(End::Unwatched(std::io::Error::other(*failed)));
            }
            self.take_back(now, shared)?;
            if !self.follow_order(now, shared) {
                return Err(End::Stopped);
            }
            return Ok(Choice::Again(clock::now()));
        }
        let (until, period) = match self.policy.next(now) {
            rmdp::Next::Missed(missed) => {
                self.tell(missed, now, shared);
                return Ok(Choice::Again(now));
            }
            rmdp::Next::Run(turn) => return self.prepare(turn, now, shared),
            rmdp::Next::Idle { until, period } => (until, period),
        };
        let asked_at = match self.best_effort.next(now) {
            virtual_time::Next::Run(turn) => {
                self.enter_background(until, period, now, shared)?;
                self.obeyed = false;
                return Ok(Choice::BestEffort(turn));
            }
            virtual_time::Next::Idle { until: asked_at } => asked_at,
        };
        self.leave_background(shared)?;
        let (until, period) = self.wake_for(until, period);
        let until_next = until.min(asked_at);
        self.rest(until_next, shared);
        if let Some(ceiling) = &mut self.ceiling {
            ceiling.sink(period, until)?;
        }
        self.obeyed = false;
        let sleeps = clock::now();
        shared.bell.sleep_until(self.rings, until_next);
        let woke = clock::now();
        shared.watch.waited(sleeps, woke);
        Ok(Choice::Again(woke))
    }

    /// When to wake for a release at `until` of an upcall with this period, and the period whose
    /// level to wait at. More urgent ones may be released within the window: it waits as if they
    /// were, and gives way before a job that deserves less.
    fn wake_for(&self, until: Instant, period: Duration) -> (Instant, Duration) {
        if self.release_window == Duration::ZERO || until == Instant::MAX {
            return (until, period);
        }
        let shortest = self.policy.schedule().find_map(|(_, period, next)| next.map(|_| period));
        (until.saturating_add(self.release_window), shortest.unwrap_or(period))
    }

    /// Gets the CPU for a real-time turn.
    fn prepare(
        &mut self,
        turn: rmdp::Turn,
        now: Instant,
        shared: &Shared<H>,
    ) -> Result<Choice, End> {
        if self.leave_background(shared)? {
            return Ok(Choice::Again(clock::now()));
        }
        if let Some(ceiling) = &mut self.ceiling {
            // Where it had to wait, its own upcalls may have been released as well.
            if ceiling.rise()? {
                let risen = clock::now();
                shared.watch.waited(now, risen);
                return Ok(Choice::Again(risen));
            }
            // Once a quantum: so it gets on even if others never stop to press.
            if !self.gave_way && ceiling.give_way(super::rank_of(&turn), now)? {
                self.gave_way = true;
                let back = clock::now();
                shared.watch.waited(now, back);
                return Ok(Choice::Again(back));
            }
            self.gave_way = false;
        }
        if self.grace.is_some() {
            let ends_by = now.saturating_add(self.slots[turn.job.task as usize].limit);
            if !std::mem::replace(&mut self.busy, true) {
                shared.watch.busy(now, ends_by);
            } else if !shared.watch.is_armed_for(now, ends_by) {
                // It is set for a longer turn before this one.
                shared.watch.arm(ends_by);
            }
        }
        self.obeyed = false;
        Ok(Choice::RealTime(turn))
    }

    /// Nothing runs until then.
    pub(super) fn rest(&mut self, until: Instant, shared: &Shared<H>) {
        if std::mem::replace(&mut self.busy, false) {
            shared.watch.idle(until);
        }
    }

    /// The upcall in `slot` is released no more. Its slot stays taken until its handler is fetched.
    pub(super) fn let_go(&mut self, slot: u32, now: Instant, shared: &Shared<H>) {
        match &self.slots[slot as usize].work {
            Some(Work::BestEffort(_)) => {
                let _known = self.best_effort.close(slot);
            }
            _ => {
                let left = self.policy.close(slot, now).ok().flatten();
                self.dropped(left, now, shared);
            }
        }
        self.slots[slot as usize].activity = Activity::Closed;
        self.say_activity(slot, shared);
    }

    /// The order across processes learns of the upcalls there are. Allocates: it follows an order or
    /// a containment, and never lies between two turns otherwise.
    pub(super) fn set_rates(&mut self) {
        let Some(ceiling) = &mut self.ceiling else { return };
        let mut releases = vec![None; self.slots.len()];
        for (slot, period, next) in self.policy.schedule() {
            releases[slot as usize] = next.map(|next| (period, next));
        }
        self.retired.push(ceiling.set_rates(Rates::with_phases(releases)));
    }

    /// Whether another process has something more urgent than the job in `slot`.
    pub(super) fn is_outranked(&self, slot: u32, now: Instant) -> bool {
        self.ceiling.as_ref().is_some_and(|ceiling| ceiling.must_give_way(slot, now))
    }

    /// A full ring drops the event and counts the loss: the upcalls go first.
    pub(super) fn emit(
        &mut self,
        slot: u32,
        index: u64,
        release: Instant,
        at: Instant,
        kind: Kind,
    ) {
        let task = self.slots[slot as usize].task.unwrap_or(u32::MAX);
        self.events.push(Event { at, job: JobId { task, index }, release, kind });
    }

    /// Late jobs become known.
    pub(super) fn tell(&mut self, missed: Missed, now: Instant, shared: &Shared<H>) {
        let Missed { oldest, release, jobs, fate, urgent } = missed;
        let (kind, notice) = match fate {
            Fate::Late => (Kind::Overrun { jobs }, NoticeKind::Overrun { jobs, urgent }),
            Fate::Skipped => (Kind::Skip { jobs }, NoticeKind::Skipped { jobs }),
            Fate::Aborted => (Kind::Abort, NoticeKind::Aborted),
        };
        self.emit(oldest.task, oldest.index, release, now, kind);
        let task = self.slots[oldest.task as usize].task.unwrap_or(u32::MAX);
        self.notify(task, notice, now, shared);
    }

    /// Jobs of the upcall in slot `left.oldest.task` were dropped.
    pub(super) fn dropped(&mut self, left: Option<Backlog>, now: Instant, shared: &Shared<H>) {
        for event in left.into_iter().flat_map(|left| Event::dropped(left, now)) {
            let (slot, index) = (event.job.task, event.job.index);
            self.emit(slot, index, event.release, now, event.kind);
            let kind = match event.kind {
                Kind::Skip { jobs } => NoticeKind::Skipped { jobs },
                _ => NoticeKind::Aborted,
            };
            let task = self.slots[slot as usize].task.unwrap_or(u32::MAX);
            self.notify(task, kind, now, shared);
        }
    }

    pub(super) fn notify(&mut self, task: u32, kind: NoticeKind, at: Instant, shared: &Shared<H>) {
        // The last places are for what is urgent.
        let spare = if kind.is_urgent() { 0 } else { self.notices_room / 8 };
        if !self.notices.push_leaving(Notice { at, task, kind }, spare) {
            shared.notices_lost.fetch_add(1, Ordering::Relaxed);
        }
        if kind.is_urgent() {
            shared.noticed.ring();
        }
    }

    pub(super) fn say_activity(&self, slot: u32, shared: &Shared<H>) {
        let entry = &self.slots[slot as usize];
        shared.set_activity(slot, entry.task, entry.activity);
    }

    /// What of the upcalls is released and not complete, by their numbers.
    pub(super) fn unfinished(&mut self, now: Instant) -> Vec<Backlog> {
        let left: Vec<Backlog> = self.policy.unfinished(now).collect();
        let numbered = |left: Backlog| {
            let task = self.slots[left.oldest.task as usize].task.unwrap_or(u32::MAX);
            Backlog { oldest: JobId { task, ..left.oldest }, ..left }
        };
        left.into_iter().map(numbered).collect()
    }

    /// Takes an upcall on, in a free slot; that, or everything back.
    pub(super) fn join(
        &mut self,
        task: u32,
        work: Work,
        handler: Box<H>,
        first_release: Instant,
    ) -> Result<u32, Box<H>> {
        let free = self.slots.iter().position(|slot| slot.task.is_none());
        let Some(slot) = free.and_then(|slot| u32::try_from(slot).ok()) else {
            return Err(handler);
        };
        let taken = match &work {
            Work::RealTime(upcall) => self.policy.create(slot, upcall, first_release),
            Work::BestEffort(upcall) => self.best_effort.create(slot, upcall, first_release),
        };
        if taken.is_err() {
            return Err(handler);
        }
        self.slots[slot as usize] = Slot {
            task: Some(task),
            limit: self.limit_of(&work),
            work: Some(work),
            handler: Some(handler),
            contained: 0,
            activity: Activity::Active,
        };
        Ok(slot)
    }

    /// The upcall in `slot` has this contract from here on; the one it had.
    pub(super) fn change(&mut self, slot: u32, upcall: Upcall) -> Option<Work> {
        let work = Work::RealTime(upcall);
        let limit = self.limit_of(&work);
        let entry = &mut self.slots[slot as usize];
        entry.limit = limit;
        entry.work.replace(work)
    }

    fn limit_of(&self, work: &Work) -> Duration {
        let grace = self.grace.unwrap_or(Duration::ZERO);
        work.quantum_service().at_full_speed().saturating_add(grace)
    }
}

impl<H> Slot<H> {
    pub(super) fn is_best_effort(&self) -> bool {
        matches!(self.work, Some(Work::BestEffort(_)))
    }

    pub(super) fn free() -> Self {
        Self {
            task: None,
            work: None,
            handler: None,
            limit: Duration::ZERO,
            contained: 0,
            activity: Activity::Closed,
        }
    }
}
