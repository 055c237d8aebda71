//! Chooses the next turn; if there is none, decides at which level and until when the thread waits.
//! For best effort the thread is an ordinary one until something real-time is released.

use punctual_linux::sched::{Class, SchedError};
use punctual_linux::{clock, sched, thread};
use punctual_model::{Duration, Handler, Instant};
use punctual_policy::{rmdp, virtual_time};

use super::Shared;
use super::executor::Executor;
use super::shared::End;
use crate::level_order::{RUNNING, level_of};

/// The next step of the run loop.
pub(super) enum Choice {
    /// Choose again at this time.
    Again(Instant),
    RealTime(rmdp::Turn),
    BestEffort(virtual_time::Turn),
}

impl<H: Handler + Send> Executor<H> {
    /// Returns the next step at `now`. Sleeps first if there is nothing to do.
    pub(super) fn choose(&mut self, now: Instant, shared: &Shared<H>) -> Result<Choice, End> {
        // One load covers orders, handlers that returned, and the end.
        let events = shared.wakeups.count();
        if events != self.seen_events && !self.obeyed {
            self.seen_events = events;
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
        shared.idle(now);
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
        if let Some(level_order) = &mut self.level_order {
            level_order.sink(period, until)?;
        }
        self.obeyed = false;
        let sleeps = clock::now();
        shared.wakeups.sleep_until(self.seen_events, until_next);
        let woke = clock::now();
        shared.watch.waited(sleeps, woke);
        Ok(Choice::Again(woke))
    }

    /// Returns when to wake for a release at `until` of an upcall with this period, and the period
    /// that gives the level to wait at. More urgent upcalls may be released within the window. The
    /// thread waits as if they were, and gives way before a less urgent job.
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
        if let Some(level_order) = &mut self.level_order {
            // If it had to wait, its own upcalls may have been released meanwhile.
            if level_order.rise()? {
                let risen = clock::now();
                shared.watch.waited(now, risen);
                return Ok(Choice::Again(risen));
            }
            // The process gives way once a quantum, so it makes progress under constant pressure
            // from others.
            if !self.gave_way && level_order.must_give_way(rank_of(&turn), now) {
                self.gave_way = true;
                // While others run there is nothing to watch: with its timer still set the guard
                // would look again and again, above every upcall.
                if std::mem::replace(&mut self.busy, false) {
                    shared.watch.idle(Instant::MAX);
                }
                level_order.give_way(rank_of(&turn), now)?;
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
                // The timer is set for a longer turn before this one.
                shared.watch.arm(ends_by);
            }
        }
        self.obeyed = false;
        Ok(Choice::RealTime(turn))
    }

    /// Tells the guard that nothing runs until `until`.
    pub(super) fn rest(&mut self, until: Instant, shared: &Shared<H>) {
        if std::mem::replace(&mut self.busy, false) {
            shared.watch.idle(until);
        }
    }

    /// Returns whether another process has something more urgent than the job in `slot`.
    pub(super) fn is_outranked(&self, slot: u32, now: Instant) -> bool {
        self.level_order.as_ref().is_some_and(|level_order| level_order.must_give_way(slot, now))
    }

    /// Makes the thread an ordinary one until `until`, when the guard lifts it.
    fn enter_background(
        &mut self,
        until: Instant,
        period: Duration,
        now: Instant,
        shared: &Shared<H>,
    ) -> Result<(), SchedError> {
        match self.background {
            Some((at, _)) if at == until => return Ok(()),
            // An order changed the next release.
            Some(_) => _ = self.leave_background(shared)?,
            None => {}
        }
        self.background = Some((until, period));
        let Some(level_order) = &mut self.level_order else { return Ok(()) };
        self.busy = true;
        level_order.sink(period, until)?;
        shared.watch.count_from(clock::now());
        let limits = self.slots.iter().filter(|slot| slot.is_best_effort()).map(|slot| slot.limit);
        let limit = limits.max().unwrap_or(Duration::ZERO);
        shared.watch.lift(level_of(period), until, limit);
        shared.watch.arm(until.min(now.saturating_add(limit)));
        sched::set(thread::current(), Class::Other { nice: 0 })
    }

    /// Makes the thread a real-time one again. It first waits at its level, in the order of the
    /// levels. Returns whether it was an ordinary one.
    fn leave_background(&mut self, shared: &Shared<H>) -> Result<bool, SchedError> {
        let Some((_, period)) = self.background.take() else { return Ok(false) };
        if let Some(level_order) = &mut self.level_order {
            let this = thread::current();
            shared.watch.needs_no_lift();
            sched::set(this, Class::Fifo { priority: level_of(period) })?;
            sched::set_fifo_priority(this, RUNNING)?;
            level_order.rise()?;
        }
        self.rest(Instant::MAX, shared);
        Ok(true)
    }
}

/// Returns the upcall whose level counts in the order across processes. A demoted job gives way to
/// a waiting thread of any level: a position without an upcall has the lowest level.
pub(super) fn rank_of(turn: &rmdp::Turn) -> u32 {
    if turn.demoted { u32::MAX } else { turn.job.task }
}
