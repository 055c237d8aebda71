//! The loop that turns the policy: one thread runs all upcalls of its process.
//!
//! Between two iterations of the same handler lie a clock read, a compare, a store and a
//! compare-and-exchange (lending the baton), and a look at the table of other processes' releases;
//! between two handlers of the process there is no lock, no allocation and no system call, unless a
//! more urgent upcall of another process waits, or an owner's order came.
//!
//! - `crew`: what the one who turns owns, and what he does between two turns.
//! - `orders`: what an owner asks for. `shared`: what both can see.
//! - `background`: best effort.
//! - `watch`, `guard`: how a handler that does not come back is caught. `containment`: how the others
//!   go on.

mod background;
mod containment;
mod crew;
mod guard;
mod orders;
mod shared;
mod watch;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;

use punctual_linux::clock;
use punctual_model::{Duration, Handler, Instant, Service};
use punctual_policy::rmdp::{Rmdp, Then, Turn, YieldPoint};
use punctual_policy::virtual_time::{self, VirtualTime};
use punctual_ring::baton::Held;
use punctual_ring::spsc;
use punctual_trace::{Event, Kind};

use crate::placement::Placement;
use crate::upcalls::notice::Notice;
use crew::{Choice, Running, Slot};

pub(crate) use crew::{Crew, End, Out};
pub(crate) use guard::start as start_guard;
pub(crate) use orders::{Answer, Order};
pub(crate) use shared::{Finish, Shared};

/// An owner's ends of the queues, for the one who turns.
pub(crate) struct Queues<H> {
    pub(crate) events: spsc::Producer<Event>,
    pub(crate) notices: spsc::Producer<Notice>,
    pub(crate) orders: rtrb::Consumer<Order<H>>,
    pub(crate) answers: rtrb::Producer<Answer<H>>,
}

impl<H: Handler + Send> Crew<H> {
    /// No upcalls, and room for so many.
    pub(crate) fn new(
        room: usize,
        placement: Placement,
        grace: Option<Duration>,
        most_contained: u32,
        queues: Queues<H>,
    ) -> Self {
        let Queues { events, notices, orders, answers } = queues;
        Self {
            policy: Rmdp::with_capacity(room),
            best_effort: VirtualTime::with_capacity(room),
            slots: (0..room).map(|_| Slot::free()).collect(),
            placement,
            ceiling: None,
            grace,
            most_contained,
            events,
            notices,
            orders,
            answers,
            rings: 0,
            out: Vec::with_capacity(room),
            home: None,
            running: None,
            gave_way: false,
            busy: false,
            background: None,
            exec_time: Service::ZERO,
        }
    }

    /// Takes on an upcall before anything runs.
    pub(crate) fn enlist(
        &mut self,
        task: u32,
        work: crate::upcalls::admission::Work,
        handler: Box<H>,
        first_release: Instant,
        shared: &Shared<H>,
    ) {
        if let Ok(slot) = self.join(task, work, handler, first_release) {
            self.say_activity(slot, shared);
        }
    }
}

/// The calling thread enters the placement, says whether it could, and turns.
pub(crate) fn begin<H: Handler + Send>(
    mut crew: Held<Crew<H>>,
    shared: &Arc<Shared<H>>,
    ready: &SyncSender<Result<(), crate::upcalls::StartError>>,
) {
    shared.begun.store(true, Ordering::Release);
    let slots = crew.slots.len();
    let mut releases = vec![None; slots];
    for (slot, period, next) in crew.policy.schedule() {
        releases[slot as usize] = next.map(|next| (period, next));
    }
    let entered = crew.placement.enter(crate::ceiling::Rates::with_phases(releases));
    match entered {
        Ok(ceiling) => crew.ceiling = ceiling,
        Err(refused) => {
            // The other end waits for exactly this message.
            let _ = ready.send(Err(refused));
            return finish(crew, End::Stopped, shared);
        }
    }
    let (home, comes_by) = rtrb::RingBuffer::new(1);
    crew.home = Some(comes_by);
    shared.watch.turned_by_this_thread();
    let _ = ready.send(Ok(()));
    turn(crew, shared, home);
}

/// Turns until there is a reason to stop, or until this thread was put aside: then its handler is
/// sent home.
fn turn<H: Handler + Send>(
    mut crew: Held<Crew<H>>,
    shared: &Arc<Shared<H>>,
    mut home: rtrb::Producer<Box<H>>,
) {
    let mut now = clock::now();
    loop {
        let turned = match crew.choose(now, shared) {
            Ok(Choice::Again(at)) => {
                now = at;
                continue;
            }
            Ok(Choice::RealTime(turn)) => run_turn(crew, turn, now, shared),
            Ok(Choice::BestEffort(turn)) => run_quantum(crew, &turn, now, shared),
            Err(end) => return finish(crew, end, shared),
        };
        match turned {
            Turned::On(still_ours, at) => (crew, now) = (still_ours, at),
            Turned::Panicked(crew, panic) => return finish(crew, End::Panicked(panic), shared),
            Turned::Aside(handler) => {
                // It has room for exactly this one. A panic drops the handler, and the other end
                // sees that.
                if let Some(handler) = handler {
                    let _room = home.push(handler);
                }
                drop(home);
                shared.bell.ring();
                return;
            }
        }
    }
}

/// How a turn ended.
enum Turned<H> {
    /// At this time, and everything is as it was.
    On(Held<Crew<H>>, Instant),
    /// The handler panicked.
    Panicked(Held<Crew<H>>, Box<dyn std::any::Any + Send>),
    /// Another thread turns: this one did not come back in time. With the handler, unless it
    /// panicked.
    Aside(Option<Box<H>>),
}

/// Runs a job until it gives way or is over.
fn run_turn<H: Handler + Send>(
    mut crew: Held<Crew<H>>,
    mut turn: Turn,
    start: Instant,
    shared: &Shared<H>,
) -> Turned<H> {
    let (slot, index, release) = (turn.job.task, turn.job.index, turn.release);
    let (mut handler, limit) = crew.take_handler(slot, index, release, true);
    let begins = if turn.resumed { Kind::Resume } else { Kind::Start };
    crew.emit(slot, index, release, start, begins);
    let mut now = start;
    loop {
        shared.watch.must_end_by(now.saturating_add(limit));
        let lent = crew.lend();
        let ran = catch_unwind(AssertUnwindSafe(|| iterate(&mut *handler, now, turn.pdus)));
        let Some(back) = lent.take_back() else { return Turned::Aside(ran.ok().map(|_| handler)) };
        crew = back;
        let processed = match ran {
            Ok((processed, at)) => {
                now = at;
                processed
            }
            Err(panic) => return Turned::Panicked(crew, panic),
        };
        let kind = match turn.iterated(now, processed) {
            YieldPoint::Continue if crew.is_outranked(rank_of(&turn), now) => {
                crew.policy.give_way(&turn);
                Some(Kind::GiveWay)
            }
            YieldPoint::Continue => continue,
            YieldPoint::Look => {
                let look = crew.policy.look(&mut turn, now);
                if let Some(missed) = look.missed {
                    crew.tell(missed, now, shared);
                }
                match look.then {
                    // Before the next turn, which may be of the same job, `choose` gives way.
                    Then::Continue if crew.is_outranked(rank_of(&turn), now) => {
                        crew.policy.give_way(&turn);
                        Some(Kind::GiveWay)
                    }
                    Then::Continue => continue,
                    Then::Yield => Some(Kind::GiveWay),
                    Then::Abort => None,
                }
            }
            YieldPoint::Complete => {
                if let Some(missed) = crew.policy.complete(&turn, now) {
                    crew.tell(missed, now, shared);
                }
                Some(Kind::Complete)
            }
        };
        if let Some(kind) = kind {
            crew.emit(slot, index, release, now, kind);
        }
        crew.put_back(slot, handler);
        return Turned::On(crew, now);
    }
}

/// Runs a best-effort handler's quantum.
fn run_quantum<H: Handler + Send>(
    mut crew: Held<Crew<H>>,
    turn: &virtual_time::Turn,
    start: Instant,
    shared: &Shared<H>,
) -> Turned<H> {
    let (slot, index, release) = (turn.job.task, turn.job.index, turn.release);
    let (mut handler, limit) = crew.take_handler(slot, index, release, false);
    if !turn.resumed {
        crew.emit(slot, index, release, start, Kind::Start);
    }
    shared.watch.must_end_by(start.saturating_add(limit));
    let before = clock::thread_cpu_time();
    let lent = crew.lend();
    let ran = catch_unwind(AssertUnwindSafe(|| iterate(&mut *handler, start, turn.pdus)));
    let Some(mut crew) = lent.take_back() else {
        return Turned::Aside(ran.ok().map(|_| handler));
    };
    let (processed, now) = match ran {
        Ok(ran) => ran,
        Err(panic) => return Turned::Panicked(crew, panic),
    };
    if processed == 0 {
        crew.emit(slot, index, release, now, Kind::Complete);
    }
    let used = clock::thread_cpu_time().saturating_sub(before);
    crew.best_effort.ended(turn, now, processed, used);
    crew.put_back(slot, handler);
    Turned::On(crew, now)
}

/// A demoted job gives way to whoever waits at whatever level: the level of no upcall is the lowest.
fn rank_of(turn: &Turn) -> u32 {
    if turn.demoted { u32::MAX } else { turn.job.task }
}

/// One iteration, with the time at its end.
fn iterate<H: Handler>(handler: &mut H, now: Instant, pdus: u32) -> (u32, Instant) {
    let processed = handler.iterate(now, pdus);
    let now = clock::now();
    handler.commit(now);
    (processed, now)
}

impl<H: Handler + Send> Crew<H> {
    /// The handler in `slot`, for an iteration that may never end, and how long it may take.
    fn take_handler(
        &mut self,
        slot: u32,
        index: u64,
        release: Instant,
        real_time: bool,
    ) -> (Box<H>, Duration) {
        self.running = Some(Running { slot, index, release, real_time });
        let entry = &mut self.slots[slot as usize];
        let handler = entry.handler.take().expect("who is out is not released");
        (handler, entry.limit)
    }

    fn put_back(&mut self, slot: u32, handler: Box<H>) {
        self.running = None;
        self.slots[slot as usize].handler = Some(handler);
    }
}

/// Nobody turns any more: everything goes back to the owner.
fn finish<H: Handler + Send>(mut crew: Held<Crew<H>>, end: End, shared: &Shared<H>) {
    shared.watch.idle(Instant::MAX);
    let unfinished = crew.unfinished(clock::now());
    // The thread's place in the order across processes goes with it.
    crew.ceiling = None;
    let exec_time = crew.exec_time + clock::thread_cpu_time();
    let out = std::mem::take(&mut crew.out);
    let slots = std::mem::take(&mut crew.slots);
    let present = |slot: Slot<H>| Some((slot.task?, slot.handler?));
    let handlers = slots.into_iter().filter_map(present).collect();
    shared.over.store(true, Ordering::Release);
    // An owner that is gone waits for nothing.
    let _ = shared.finish.send(Finish { end, unfinished, exec_time, handlers, out });
    shared.changed.ring();
    shared.answered.ring();
}
