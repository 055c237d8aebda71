//! A turn: iterations of one handler, until it gives way, is over, or does not return.

use std::panic::{AssertUnwindSafe, catch_unwind};

use punctual_linux::clock;
use punctual_model::{Duration, Handler, Instant};
use punctual_policy::rmdp::{Then, Turn, YieldPoint};
use punctual_policy::virtual_time;
use punctual_ring::lease::Held;
use punctual_trace::Kind;

use super::executor::{Home, Payload, Running};
use super::{Executor, Shared, drop_quietly};

/// The end of a turn.
pub(super) enum Turned<H> {
    /// It ended at this time, and the executor is still ours.
    On(Held<Executor<H>>, Instant),
    /// The handler panicked.
    Panicked(Held<Executor<H>>, Payload),
    /// Another thread took over the executor: this one did not come back in time.
    Aside(Home<H>),
}

/// Runs a job until it gives way or is over.
pub(super) fn run_turn<H: Handler + Send>(
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
pub(super) fn run_quantum<H: Handler + Send>(
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

/// Returns the upcall whose level counts in the order across processes. A demoted job gives way to
/// a waiting thread of any level: a position without an upcall has the lowest level.
pub(super) fn rank_of(turn: &Turn) -> u32 {
    if turn.demoted { u32::MAX } else { turn.job.task }
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
