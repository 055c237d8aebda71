//! A turn: iterations of one handler, until it gives way, is over, or does not come back.

use std::panic::{AssertUnwindSafe, catch_unwind};

use punctual_linux::clock;
use punctual_model::{Duration, Handler, Instant};
use punctual_policy::rmdp::{Then, Turn, YieldPoint};
use punctual_policy::virtual_time;
use punctual_ring::baton::Held;
use punctual_trace::Kind;

use super::crew::{Home, Payload, Running};
use super::{Crew, Shared, drop_quietly};

/// How a turn ended.
pub(super) enum Turned<H> {
    /// At this time, and everything is as it was.
    On(Held<Crew<H>>, Instant),
    /// The handler panicked.
    Panicked(Held<Crew<H>>, Payload),
    /// Another thread turns: this one did not come back in time.
    Aside(Home<H>),
}

/// Runs a job until it gives way or is over.
pub(super) fn run_turn<H: Handler + Send>(
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
pub(super) fn run_quantum<H: Handler + Send>(
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
pub(super) fn rank_of(turn: &Turn) -> u32 {
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
