//! Chooses the next turn; if there is none, decides at which level and until when the thread waits.

use punctual_linux::clock;
use punctual_model::{Duration, Handler, Instant};
use punctual_policy::{rmdp, virtual_time};

use super::Shared;
use super::executor::{End, Executor};
use super::turns::rank_of;

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
}
