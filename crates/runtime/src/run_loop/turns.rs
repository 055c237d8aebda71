//! The turns of the loop, from its begin to its end. A turn is iterations of one handler, until it
//! gives way, is over, or does not return.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;

use punctual_linux::clock;
use punctual_model::{Duration, Handler, Instant};
use punctual_policy::rmdp::{Then, Turn, YieldPoint};
use punctual_policy::virtual_time;
use punctual_ring::lease::Held;
use punctual_trace::Kind;

use super::containment::CompletionGuard;
use super::dispatching::{Choice, rank_of};
use super::executor::{Running, Slot};
use super::shared::{Home, Payload};
use super::{End, Executor, Finish, Shared, drop_quietly};

/// The end of a turn.
enum Turned<H> {
    /// It ended at this time, and the executor is still ours.
    On(Held<Executor<H>>, Instant),
    /// The handler panicked.
    Panicked(Held<Executor<H>>, Payload),
    /// Another thread took over the executor: this one did not come back in time.
    Aside(Home<H>),
}

/// Runs a job until it gives way or is over.
fn run_turn<H: Handler + Send>(
    mut executor: Held<Executor<H>>,
    mut turn: Turn,
    start: Instant,
    shared: &Shared<H>,
) -> Turned<H> {
    let (slot, index, release) = (turn.job.task, turn.job.index, turn.release);
    let (mut handler, limit) = executor.take_handler(slot, index, release, true);
    let begins = if turn.resumed { Kind::Resume } else { Kind::Start };
    executor.emit(slot, index, release, start, begins);
    let mut now = start;
    loop {
        shared.watch.must_end_by(now, now.saturating_add(limit));
        let lent = executor.lend();
        let ran = iterate(handler, now, turn.pdus);
        let Some(back) = lent.take_back() else { return Turned::Aside(ran.map(|ran| ran.0)) };
        executor = back;
        let processed;
        (handler, processed, now) = match ran {
            Ok(ran) => ran,
            Err(panic) => return Turned::Panicked(executor, panic),
        };
        let kind = match turn.iterated(now, processed) {
            YieldPoint::Continue if executor.is_outranked(rank_of(&turn), now) => {
                executor.policy.give_way(&turn);
                Some(Kind::GiveWay)
            }
            YieldPoint::Continue => continue,
            YieldPoint::Look => {
                let look = executor.policy.look(&mut turn, now);
                if let Some(missed) = look.missed {
                    executor.tell(missed, now, shared);
                }
                match look.then {
                    // Before the next turn, which may be of the same job, `choose` gives way.
                    Then::Continue if executor.is_outranked(rank_of(&turn), now) => {
                        executor.policy.give_way(&turn);
                        Some(Kind::GiveWay)
                    }
                    Then::Continue => continue,
                    Then::Yield => Some(Kind::GiveWay),
                    Then::Abort => None,
                }
            }
            YieldPoint::Complete => {
                if let Some(missed) = executor.policy.complete(&turn, now) {
                    executor.tell(missed, now, shared);
                }
                Some(Kind::Complete)
            }
        };
        if let Some(kind) = kind {
            executor.emit(slot, index, release, now, kind);
        }
        executor.put_back(slot, handler);
        return Turned::On(executor, now);
    }
}

/// Runs a best-effort handler's quantum.
fn run_quantum<H: Handler + Send>(
    mut executor: Held<Executor<H>>,
    turn: &virtual_time::Turn,
    start: Instant,
    shared: &Shared<H>,
) -> Turned<H> {
    let (slot, index, release) = (turn.job.task, turn.job.index, turn.release);
    let (handler, limit) = executor.take_handler(slot, index, release, false);
    if !turn.resumed {
        executor.emit(slot, index, release, start, Kind::Start);
    }
    shared.watch.must_end_by(start, start.saturating_add(limit));
    let before = clock::thread_cpu_time();
    let lent = executor.lend();
    let ran = iterate(handler, start, turn.pdus);
    let Some(mut executor) = lent.take_back() else { return Turned::Aside(ran.map(|ran| ran.0)) };
    let (handler, processed, now) = match ran {
        Ok(ran) => ran,
        Err(panic) => return Turned::Panicked(executor, panic),
    };
    if processed == 0 {
        executor.emit(slot, index, release, now, Kind::Complete);
    }
    let used = clock::thread_cpu_time().saturating_sub(before);
    executor.best_effort.ended(turn, now, processed, used);
    executor.put_back(slot, handler);
    Turned::On(executor, now)
}

/// Runs one iteration, and returns the time at its end. A handler that panics is dropped here, so
/// that its thread can still be replaced if dropping does not end either.
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

impl<H: Handler + Send> Executor<H> {
    /// Takes the handler in `slot` for an iteration that may never end. Returns it and how long it
    /// may take.
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
pub(super) fn turn<H: Handler + Send>(
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
pub(super) fn finish<H: Handler + Send>(
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
