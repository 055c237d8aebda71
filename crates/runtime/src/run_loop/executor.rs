//! The state of the run loop: the policies, the handlers, its ends of the queues with the orders
//! and answers that they carry, and the reports of events to the record, to the owner, and as a
//! backlog at the end.

use std::sync::atomic::Ordering;

use punctual_model::{Backlog, Duration, Handler, Instant, JobId, Rank, Service, Upcall};
use punctual_policy::ready::ReadySet;
use punctual_policy::rmdp::{Fate, Missed, Rmdp};
use punctual_policy::virtual_time::VirtualTime;
use punctual_ring::spsc;
use punctual_trace::{Event, Kind};

use super::shared::Home;
use super::{Out, Shared};
use crate::level_order::{LevelOrder, Rates};
use crate::placement::{Grant, Placement};
use crate::upcalls::admission::Work;
use crate::upcalls::notice::{Activity, Notice, NoticeKind};

/// The executor's ends of the queues between it and its owner.
pub(crate) struct Queues<H> {
    pub(crate) events: spsc::Producer<Event>,
    pub(crate) notices: spsc::Producer<Notice>,
    /// The room in the queue of notices.
    pub(crate) notices_room: usize,
    pub(crate) orders: rtrb::Consumer<Order<H>>,
    pub(crate) answers: rtrb::Producer<Reply<H>>,
}

impl<H: Handler + Send> Executor<H> {
    /// Creates an executor without upcalls, with room for `room` of them.
    pub(crate) fn new(
        room: usize,
        placement: Placement,
        grace: Option<Duration>,
        most_contained: u32,
        release_window: Duration,
        queues: Queues<H>,
    ) -> Self {
        let Queues { events, notices, notices_room, orders, answers } = queues;
        let mut free = ReadySet::new(room);
        (0..room as u32).for_each(|slot| free.insert(Rank(slot)));
        Self {
            policy: Rmdp::with_capacity(room),
            best_effort: VirtualTime::with_capacity(room),
            slots: (0..room).map(|_| Slot::free()).collect(),
            free,
            placement,
            grant: None,
            level_order: None,
            grace,
            most_contained,
            release_window,
            events,
            notices,
            orders,
            answers,
            seen_events: 0,
            obeyed: false,
            retired: Vec::new(),
            notices_room,
            out: Vec::with_capacity(room),
            home: None,
            running: None,
            gave_way: false,
            busy: false,
            background: None,
            exec_time: Service::ZERO,
        }
    }

    /// Records an event. A full ring drops it and counts the loss: the upcalls go first.
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

    /// Reports late jobs.
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

    /// Reports that jobs of the upcall in slot `left.oldest.task` were dropped.
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
        // The last places are reserved for urgent notices.
        let spare = if kind.is_urgent() { 0 } else { self.notices_room / 8 };
        if !self.notices.push_leaving(Notice { at, task, kind }, spare) {
            shared.notices_lost.fetch_add(1, Ordering::Relaxed);
        }
        if kind.is_urgent() {
            shared.noticed.notify();
        }
    }

    pub(super) fn say_activity(&self, slot: u32, shared: &Shared<H>) {
        let entry = &self.slots[slot as usize];
        shared.set_activity(slot, entry.task, entry.activity);
    }

    /// Returns the released jobs that are not complete, by the numbers of their upcalls.
    pub(super) fn unfinished(&mut self, now: Instant) -> Vec<Backlog> {
        let left: Vec<Backlog> = self.policy.unfinished(now).collect();
        let numbered = |left: Backlog| {
            let task = self.slots[left.oldest.task as usize].task.unwrap_or(u32::MAX);
            Backlog { oldest: JobId { task, ..left.oldest }, ..left }
        };
        left.into_iter().map(numbered).collect()
    }
}

/// The state that the executor's thread owns. Its policies identify an upcall by its slot; its
/// owner uses a number that is never reused.
pub(crate) struct Executor<H> {
    pub(super) policy: Rmdp,
    pub(super) best_effort: VirtualTime,
    pub(super) slots: Vec<Slot<H>>,
    /// Free slots, by their positions: the lowest is taken first.
    pub(super) free: ReadySet,
    pub(super) placement: Placement,
    /// Obtains a class for a thread whose placement is [`Placement::Granted`].
    pub(crate) grant: Option<Grant>,
    pub(super) level_order: Option<LevelOrder>,
    pub(super) grace: Option<Duration>,
    /// The number of containments after which an upcall is closed.
    pub(super) most_contained: u32,
    /// The time by which a release may be noticed late.
    pub(super) release_window: Duration,
    events: spsc::Producer<Event>,
    notices: spsc::Producer<Notice>,
    pub(super) orders: rtrb::Consumer<Order<H>>,
    pub(super) answers: rtrb::Producer<Reply<H>>,
    /// The count of wake-ups when the orders were last looked at.
    pub(super) seen_events: u32,
    /// True if an order was followed since a policy last chose. An owner that sends one order
    /// after the other thus keeps no upcall from running.
    pub(super) obeyed: bool,
    /// Replaced rates of the order across processes, which the owner frees.
    pub(super) retired: Vec<Rates>,
    /// The room for notices in their queue.
    notices_room: usize,
    /// Handlers that have not returned.
    pub(super) out: Vec<Out<H>>,
    /// The queue by which the handler that now runs returns if it is contained.
    pub(super) home: Option<rtrb::Consumer<Home<H>>>,
    /// The iteration that runs.
    pub(super) running: Option<Running>,
    pub(super) gave_way: bool,
    /// True if the guard's timer is set.
    pub(super) busy: bool,
    /// Set while best effort runs in an ordinary thread: the next release, and the period of the
    /// upcall that is released then.
    pub(super) background: Option<(Instant, Duration)>,
    /// The processor time of threads that were replaced, up to then.
    pub(super) exec_time: Service,
}

pub(super) struct Slot<H> {
    /// The upcall's number; `None` for a free slot.
    pub(crate) task: Option<u32>,
    pub(super) work: Option<Work>,
    /// The handler; absent while an iteration of it runs.
    pub(super) handler: Option<Box<H>>,
    /// The time that an iteration may take.
    pub(super) limit: Duration,
    /// The number of containments, and the time of the last one.
    pub(super) contained: u32,
    pub(super) contained_at: Instant,
    pub(super) activity: Activity,
}

/// The iteration that runs.
#[derive(Clone, Copy)]
pub(super) struct Running {
    pub(super) slot: u32,
    pub(super) index: u64,
    pub(super) release: Instant,
    pub(super) real_time: bool,
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
            contained_at: Instant::ZERO,
            activity: Activity::Closed,
        }
    }
}

pub(crate) enum Order<H> {
    Create { task: u32, work: Work, handler: Box<H>, first_release: Instant },
    Close { task: u32, slot: u32 },
    Suspend { task: u32, slot: u32 },
    Resume { task: u32, slot: u32 },
    Change { task: u32, slot: u32, upcall: Upcall },
    Stop,
}

/// An answer. It carries what the executor no longer needs, so that it is freed elsewhere.
pub(crate) enum Answer<H> {
    Created { slot: u32 },
    NoRoom { handler: Box<H> },
    Closed { handler: Option<Box<H>>, old: Option<Work> },
    Done { old: Option<Work> },
    NoSuchUpcall,
}

/// An answer, and values that the receiver frees.
pub(crate) struct Reply<H> {
    pub(crate) answer: Answer<H>,
    /// When the order was followed.
    pub(crate) at: Instant,
    pub(super) _retired: Vec<Rates>,
}

impl<H> Reply<H> {
    /// Returns what is answered of an upcall that is known not to be there.
    pub(crate) fn no_such_upcall() -> Self {
        Self { answer: Answer::NoSuchUpcall, at: Instant::ZERO, _retired: Vec::new() }
    }
}
