//! The loop that turns the policy: one thread runs all upcalls of its process.
//!
//! Between two iterations of the same handler lie two clock reads, a compare, stores and a
//! compare-and-exchange (lending the baton), and a look at the table of other processes' releases;
//! between two handlers of the process there is no lock, no allocation and no system call, unless a
//! more urgent upcall of another process waits, or an owner's order came.
//!
//! - `crew`: what the one who turns owns. `choosing`: what he does between two turns. `turns`: a turn.
//! - `orders`: what an owner asks for. `roster`: upcalls come, change and go. `telling`: what happened.
//!   `shared`: what both can see.
//! - `background`: best effort.
//! - `watch`, `guard`: how a handler that does not come back is caught. `account`, `suspect`: whether it
//!   is to blame. `containment`: how the others go on. `probation`: how it goes on itself. `duty`: an
//!   owner learns of every end.

mod account;
mod background;
mod choosing;
mod containment;
mod crew;
mod duty;
mod guard;
mod orders;
mod probation;
mod roster;
mod shared;
mod suspect;
mod telling;
#[cfg(test)]
mod tests;
mod turns;
mod watch;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;

use punctual_linux::clock;
use punctual_model::{Duration, Handler, Instant, Rank, Service};
use punctual_policy::ready::ReadySet;
use punctual_policy::rmdp::Rmdp;
use punctual_policy::virtual_time::VirtualTime;
use punctual_ring::baton::Held;
use punctual_ring::spsc;
use punctual_trace::Event;

use crate::placement::Placement;
use crate::upcalls::notice::Notice;
use choosing::Choice;
use crew::{Home, Slot};
use duty::Duty;
use turns::{Turned, run_quantum, run_turn};

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
        let mut free = ReadySet::new(room);
        (0..room as u32).for_each(|slot| free.insert(Rank(slot)));
        Self {
            policy: Rmdp::with_capacity(room),
            best_effort: VirtualTime::with_capacity(room),
            slots: (0..room).map(|_| Slot::free()).collect(),
            free,
            placement,
            grant: None,
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
    let rates = crate::ceiling::Rates::with_phases(releases);
    let entered = crew.placement.enter(rates, crew.grant.as_mut());
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
