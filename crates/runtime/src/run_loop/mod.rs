//! The loop that drives the policy: one thread runs all upcalls of its process.
//!
//! Between two iterations of the same handler lie two clock reads, a compare, stores and a
//! compare-and-exchange (lending the executor), and a look at the table of other processes'
//! releases. Between two handlers of the process there is no lock, no allocation and no system
//! call, unless a more urgent upcall of another process waits, or an owner's order came.
//!
//! - `executor`: the state that the loop owns. `dispatching`: the steps between two turns. `turns`:
//!   a turn.
//! - `orders`: the owner's requests. `membership`: adds, changes and removes upcalls. `reporting`:
//!   reports events. `shared`: state that the owner sees too.
//! - `background`: best effort.
//! - `watch`, `guard`: catch a handler that does not return. `account`, `watchdog`: decide whether
//!   it is at fault. `containment`: goes on without it. `demotion`: lowers it. `completion_guard`:
//!   tells the owner of every end.

mod account;
mod background;
mod completion_guard;
mod containment;
mod demotion;
mod dispatching;
mod executor;
mod guard;
mod membership;
mod orders;
mod reporting;
mod shared;
#[cfg(test)]
mod tests;
mod turns;
mod watch;
mod watchdog;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;

use punctual_linux::clock;
use punctual_model::{Duration, Handler, Instant, Rank, Service};
use punctual_policy::ready::ReadySet;
use punctual_policy::rmdp::Rmdp;
use punctual_policy::virtual_time::VirtualTime;
use punctual_ring::lease::Held;
use punctual_ring::spsc;
use punctual_trace::Event;

use crate::placement::Placement;
use crate::upcalls::notice::Notice;
use completion_guard::CompletionGuard;
use dispatching::Choice;
use executor::{Home, Slot};
use turns::{Turned, run_quantum, run_turn};

pub(crate) use completion_guard::drop_quietly;
pub(crate) use executor::{End, Executor, Out};
pub(crate) use guard::start as start_guard;
pub(crate) use orders::{Answer, Order, Reply};
pub(crate) use shared::{Finish, Shared};

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
}

/// Puts the calling thread in its placement, says on `ready` whether that succeeded, and runs the
/// loop.
pub(crate) fn begin<H: Handler + Send>(
    executor: Held<Executor<H>>,
    shared: &Arc<Shared<H>>,
    ready: &SyncSender<Result<(), crate::upcalls::StartError>>,
) {
    shared.begun.store(true, Ordering::Release);
    CompletionGuard::kept(shared, |completion_guard| {
        enter(executor, shared, ready, completion_guard)
    });
}

fn enter<H: Handler + Send>(
    mut executor: Held<Executor<H>>,
    shared: &Arc<Shared<H>>,
    ready: &SyncSender<Result<(), crate::upcalls::StartError>>,
    completion_guard: &CompletionGuard<'_, H>,
) {
    let slots = executor.slots.len();
    let mut releases = vec![None; slots];
    for (slot, period, next) in executor.policy.schedule() {
        releases[slot as usize] = next.map(|next| (period, next));
    }
    let rates = crate::level_order::Rates::with_phases(releases);
    let entered = executor.placement.enter(rates, executor.grant.as_mut());
    match entered {
        Ok(level_order) => executor.level_order = level_order,
        Err(refused) => {
            // The receiver waits for exactly this message.
            let _ = ready.send(Err(refused));
            return finish(executor, End::Stopped, completion_guard, shared);
        }
    }
    let (home, comes_by) = rtrb::RingBuffer::new(1);
    executor.home = Some(comes_by);
    shared.watch.watch_this_thread();
    let _ = ready.send(Ok(()));
    turn(executor, shared, home, completion_guard);
}

/// Runs the loop until there is a reason to stop, or until this thread is replaced: then its
/// handler is sent home.
fn turn<H: Handler + Send>(
    mut executor: Held<Executor<H>>,
    shared: &Arc<Shared<H>>,
    mut home: rtrb::Producer<Home<H>>,
    completion_guard: &CompletionGuard<'_, H>,
) {
    let mut now = clock::now();
    loop {
        let turned = match executor.choose(now, shared) {
            Ok(Choice::Again(at)) => {
                now = at;
                continue;
            }
            Ok(Choice::RealTime(turn)) => run_turn(executor, turn, now, shared),
            Ok(Choice::BestEffort(turn)) => run_quantum(executor, &turn, now, shared),
            Err(end) => return finish(executor, end, completion_guard, shared),
        };
        match turned {
            Turned::On(still_ours, at) => (executor, now) = (still_ours, at),
            Turned::Panicked(executor, panic) => {
                return finish(executor, End::Panicked(panic), completion_guard, shared);
            }
            Turned::Aside(comes) => {
                completion_guard.relieved();
                // The queue has room for exactly this one.
                let _room = home.push(comes);
                drop(home);
                shared.wakeups.notify();
                return;
            }
        }
    }
}

/// Ends the run loop: everything goes back to the owner.
fn finish<H: Handler + Send>(
    mut executor: Held<Executor<H>>,
    end: End,
    completion_guard: &CompletionGuard<'_, H>,
    shared: &Shared<H>,
) {
    // This comes first: a thread that is no longer real-time must not be lifted again.
    shared.watch.needs_no_lift();
    shared.watch.idle(Instant::MAX);
    let unfinished = executor.unfinished(clock::now());
    // The thread's place in the order across processes goes with it.
    executor.level_order = None;
    let exec_time = executor.exec_time + clock::thread_cpu_time();
    let out = std::mem::take(&mut executor.out);
    let slots = std::mem::take(&mut executor.slots);
    let present = |slot: Slot<H>| Some((slot.task?, slot.handler?));
    let handlers = slots.into_iter().filter_map(present).collect();
    let (is_lost, _retired) = (false, std::mem::take(&mut executor.retired));
    completion_guard.tell(Finish { end, unfinished, exec_time, handlers, out, is_lost, _retired });
}
