//! The loop that turns the policy: one thread runs all upcalls of its process.
//!
//! Between two iterations of the same handler lie two clock reads, a compare, stores and a
//! compare-and-exchange (lending the baton), and a look at the table of other processes' releases;
//! between two handlers of the process there is no lock, no allocation and no system call, unless a
//! more urgent upcall of another process waits, or an owner's order came.
//!
//! - `crew`: what the one who turns owns, and what he does between two turns.
//! - `orders`: what an owner asks for. `shared`: what both can see.
//! - `background`: best effort.
//! - `watch`, `guard`: how a handler that does not come back is caught. `containment`: how the others
//!   go on. `account`: who was kept from running. `duty`: an owner learns of every end.

mod account;
mod background;
mod containment;
mod crew;
mod duty;
mod guard;
mod orders;
mod shared;
#[cfg(test)]
mod tests;
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
use crew::{Choice, Home, Payload, Running, Slot};
use duty::Duty;

pub(crate) use crew::{Crew, End, Out};
pub(crate) use duty::drop_quietly;
pub(crate) use guard::start as start_guard;
pub(crate) use orders::{Answer, Order, Reply};
pub(crate) use shared::{Finish, Shared};

/// An owner's ends of the queues, for the one who turns.
pub(crate) struct Queues<H> {
    pub(crate) events: spsc::Producer<Event>,
    pub(crate) notices: spsc::Producer<Notice>,
    /// Of the notices.
    pub(crate) notices_room: usize,
    pub(crate) orders: rtrb::Consumer<Order<H>>,
    pub(crate) answers: rtrb::Producer<Reply<H>>,
}

impl<H: Handler + Send> Crew<H> {
    /// No upcalls, and room for so many.
    pub(crate) fn new(
        room: usize,
        placement: Placement,
        grace: Option<Duration>,
        most_contained: u32,
        release_window: Duration,
        queues: Queues<H>,
    ) -> Self {
        let Queues { events, notices, notices_room, orders, answers } = queues;
        Self {
            policy: Rmdp::with_capacity(room),
            best_effort: VirtualTime::with_capacity(room),
            slots: (0..room).map(|_| Slot::free()).collect(),
            placement,
            ceiling: None,
            grace,
            most_contained,
            release_window,
            events,
            notices,
            orders,
            answers,
            rings: 0,
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
    crew: Held<Crew<H>>,
    shared: &Arc<Shared<H>>,
    ready: &SyncSender<Result<(), crate::upcalls::StartError>>,
) {
    shared.begun.store(true, Ordering::Release);
    Duty::kept(shared, |duty| enter(crew, shared, ready, duty));
}

fn enter<H: Handler + Send>(
    mut crew: Held<Crew<H>>,
    shared: &Arc<Shared<H>>,
    ready: &SyncSender<Result<(), crate::upcalls::StartError>>,
    duty: &Duty<'_, H>,
) {
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
            return finish(crew, End::Stopped, duty, shared);
        }
    }
    let (home, comes_by) = rtrb::RingBuffer::new(1);
    crew.home = Some(comes_by);
    shared.watch.turned_by_this_thread();
    let _ = ready.send(Ok(()));
    turn(crew, shared, home, duty);
}

/// Turns until there is a reason to stop, or until this thread was put aside: then its handler is
/// sent home.
fn turn<H: Handler + Send>(
    mut crew: Held<Crew<H>>,
    shared: &Arc<Shared<H>>,
    mut home: rtrb::Producer<Home<H>>,
    duty: &Duty<'_, H>,
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
            Err(end) => return finish(crew, end, duty, shared),
        };
        match turned {
            Turned::On(still_ours, at) => (crew, now) = (still_ours, at),
            Turned::Panicked(crew, panic) => {
                return finish(crew, End::Panicked(panic), duty, shared);
            }
            Turned::Aside(comes) => {
                duty.relieved();
                // It has room for exactly this one.
                let _room = home.push(comes);
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
    Panicked(Held<Crew<H>>, Payload),
    /// Another thread turns: this one did not come back in time.
    Aside(Home<H>),
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
        shared.watch.must_end_by(now, now.saturating_add(limit));
        let lent = crew.lend();
        let ran = iterate(handler, now, turn.pdus);
        let Some(back) = lent.take_back() else { return Turned::Aside(ran.map(|ran| ran.0)) };
        crew = back;
        let processed;
        (handler, processed, now) = match ran {
            Ok(ran) => ran,
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
    let (handler, limit) = crew.take_handler(slot, index, release, false);
    if !turn.resumed {
        crew.emit(slot, index, release, start, Kind::Start);
    }
    shared.watch.must_end_by(start, start.saturating_add(limit));
    let before = clock::thread_cpu_time();
    let lent = crew.lend();
    let ran = iterate(handler, start, turn.pdus);
    let Some(mut crew) = lent.take_back() else { return Turned::Aside(ran.map(|ran| ran.0)) };
    let (handler, processed, now) = match ran {
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

/// One iteration, with the time at its end. A handler that panics is dropped here, where it can be
/// put aside should that not end either.
fn iterate<H: Handler>(
    mut handler: Box<H>,
    now: Instant,
    pdus: u32,
) -> Result<(Box<H>, u32, Instant), Payload> {
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let processed = handler.iterate(now, pdus);
        handler.commit(clock::now());
        processed
    }));
    match ran {
        Ok(processed) => Ok((handler, processed, clock::now())),
        Err(panic) => {
            drop_quietly(handler);
            Err(panic)
        }
    }
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
fn finish<H: Handler + Send>(
    mut crew: Held<Crew<H>>,
    end: End,
    duty: &Duty<'_, H>,
    shared: &Shared<H>,
) {
    // First: what is not real-time any more is not to be lifted again.
    shared.watch.needs_no_lift();
    shared.watch.idle(Instant::MAX);
    let unfinished = crew.unfinished(clock::now());
    // The thread's place in the order across processes goes with it.
    crew.ceiling = None;
    let exec_time = crew.exec_time + clock::thread_cpu_time();
    let out = std::mem::take(&mut crew.out);
    let slots = std::mem::take(&mut crew.slots);
    let present = |slot: Slot<H>| Some((slot.task?, slot.handler?));
    let handlers = slots.into_iter().filter_map(present).collect();
    let (is_lost, _retired) = (false, std::mem::take(&mut crew.retired));
    duty.tell(Finish { end, unfinished, exec_time, handlers, out, is_lost, _retired });
}
