//! Follows the owner's requests to upcalls that run, and answers them: without locks, in bounded
//! queues. Between two turns it adds, changes and removes upcalls.
//!
//! An order names its upcall and its slot, so that the executor need not search for it.

use punctual_model::{Duration, Handler, Instant, Rank, Upcall};

use super::executor::{Executor, Slot};
use super::{Answer, Order, Reply, Shared};
use crate::level_order::Rates;
use crate::upcalls::admission::Work;
use crate::upcalls::notice::Activity;

impl<H: Handler + Send> Executor<H> {
    /// Follows one order, if there is one. Returns false if that is to stop.
    pub(super) fn follow_order(&mut self, now: Instant, shared: &Shared<H>) -> bool {
        let Ok(order) = self.orders.pop() else { return true };
        let Some(answer) = self.follow(order, now, shared) else { return false };
        self.set_rates();
        let _retired = std::mem::take(&mut self.retired);
        // There is room: the owner sends no order before the last answer.
        let _full = self.answers.push(Reply { answer, at: now, _retired });
        shared.answered.notify();
        true
    }

    fn follow(&mut self, order: Order<H>, now: Instant, shared: &Shared<H>) -> Option<Answer<H>> {
        let about = match &order {
            Order::Create { .. } => None,
            Order::Stop => return None,
            Order::Close { task, slot }
            | Order::Suspend { task, slot }
            | Order::Resume { task, slot }
            | Order::Change { task, slot, .. } => Some((*task, *slot)),
        };
        let slot = match about {
            None => 0,
            // The slot stays the upcall's own until its handler has gone back.
            Some((task, slot)) => match self.slots.get(slot as usize) {
                Some(entry) if entry.task == Some(task) => slot,
                _ => return Some(Answer::NoSuchUpcall),
            },
        };
        Some(match order {
            Order::Create { task, work, handler, first_release } => {
                match self.join(task, work, handler, first_release, now) {
                    Ok(slot) => {
                        self.say_activity(slot, shared);
                        Answer::Created { slot }
                    }
                    Err(handler) => Answer::NoRoom { handler },
                }
            }
            Order::Close { .. } => self.close(slot, now, shared),
            Order::Suspend { .. } => self.suspend(slot, now, shared),
            Order::Resume { .. } => self.resume(slot, now, shared),
            Order::Change { upcall, .. } => {
                let left = self.policy.change(slot, &upcall, now).ok().flatten();
                self.dropped(left, now, shared);
                Answer::Done { old: self.change(slot, upcall) }
            }
            Order::Stop => return None,
        })
    }

    fn close(&mut self, slot: u32, now: Instant, shared: &Shared<H>) -> Answer<H> {
        if self.slots[slot as usize].activity != Activity::Closed {
            self.let_go(slot, now, shared);
        }
        let entry = &mut self.slots[slot as usize];
        let (handler, old) = (entry.handler.take(), entry.work.take());
        if handler.is_some() {
            self.vacate(slot);
        }
        Answer::Closed { handler, old }
    }

    fn suspend(&mut self, slot: u32, now: Instant, shared: &Shared<H>) -> Answer<H> {
        let entry = &mut self.slots[slot as usize];
        if entry.activity == Activity::Closed {
            return Answer::NoSuchUpcall;
        }
        entry.activity = Activity::Suspended;
        match &entry.work {
            Some(Work::BestEffort(_)) => {
                let _known = self.best_effort.suspend(slot);
            }
            _ => {
                let left = self.policy.suspend(slot, now).ok().flatten();
                self.dropped(left, now, shared);
            }
        }
        self.say_activity(slot, shared);
        Answer::Done { old: None }
    }

    fn resume(&mut self, slot: u32, now: Instant, shared: &Shared<H>) -> Answer<H> {
        let entry = &mut self.slots[slot as usize];
        if entry.activity == Activity::Closed {
            return Answer::NoSuchUpcall;
        }
        if entry.activity == Activity::Suspended {
            let is_out = entry.handler.is_none();
            entry.activity = if is_out { Activity::Contained } else { Activity::Active };
            match (&entry.work, is_out) {
                (_, true) => {}
                (Some(Work::BestEffort(_)), false) => {
                    let _known = self.best_effort.resume(slot, now);
                }
                (_, false) => {
                    let _known = self.policy.resume(slot, now);
                }
            }
            self.say_activity(slot, shared);
        }
        Answer::Done { old: None }
    }

    /// Takes on an upcall before anything runs.
    pub(crate) fn enrol(
        &mut self,
        task: u32,
        work: Work,
        handler: Box<H>,
        first_release: Instant,
        now: Instant,
        shared: &Shared<H>,
    ) {
        if let Ok(slot) = self.join(task, work, handler, first_release, now) {
            self.say_activity(slot, shared);
        }
    }

    /// Takes an upcall on in a free slot. Returns the slot, or the handler if that failed.
    fn join(
        &mut self,
        task: u32,
        work: Work,
        handler: Box<H>,
        first_release: Instant,
        now: Instant,
    ) -> Result<u32, Box<H>> {
        let Some(Rank(slot)) = self.free.first() else { return Err(handler) };
        let taken = match &work {
            Work::RealTime(upcall) => self.policy.create(slot, upcall, first_release, now),
            Work::BestEffort(upcall) => self.best_effort.create(slot, upcall, first_release),
        };
        if taken.is_err() {
            return Err(handler);
        }
        self.free.remove(Rank(slot));
        self.slots[slot as usize] = Slot {
            task: Some(task),
            limit: self.limit_of(&work),
            work: Some(work),
            handler: Some(handler),
            contained: 0,
            contained_at: Instant::ZERO,
            activity: Activity::Active,
        };
        Ok(slot)
    }

    /// Gives the upcall in `slot` a new contract. Returns the old one.
    fn change(&mut self, slot: u32, upcall: Upcall) -> Option<Work> {
        let work = Work::RealTime(upcall);
        let limit = self.limit_of(&work);
        let entry = &mut self.slots[slot as usize];
        entry.limit = limit;
        entry.work.replace(work)
    }

    fn limit_of(&self, work: &Work) -> Duration {
        let grace = self.grace.unwrap_or(Duration::ZERO);
        work.quantum_service().at_full_speed().saturating_add(grace)
    }

    /// Stops the releases of the upcall in `slot`. Its slot stays taken until its handler is
    /// fetched.
    pub(super) fn let_go(&mut self, slot: u32, now: Instant, shared: &Shared<H>) {
        match &self.slots[slot as usize].work {
            Some(Work::BestEffort(_)) => {
                let _known = self.best_effort.close(slot);
            }
            _ => {
                let left = self.policy.close(slot, now).ok().flatten();
                self.dropped(left, now, shared);
            }
        }
        self.slots[slot as usize].activity = Activity::Closed;
        self.say_activity(slot, shared);
    }

    /// Tells the order across processes the current upcalls. Allocates; it is called only after an
    /// order or a containment, and never between two turns otherwise.
    pub(super) fn set_rates(&mut self) {
        let Some(level_order) = &mut self.level_order else { return };
        let mut releases = vec![None; self.slots.len()];
        for (slot, period, next) in self.policy.schedule() {
            releases[slot as usize] = next.map(|next| (period, next));
        }
        self.retired.push(level_order.set_rates(Rates::with_phases(releases)));
    }

    /// Frees the slot.
    fn vacate(&mut self, slot: u32) {
        self.slots[slot as usize] = Slot::free();
        self.free.insert(Rank(slot));
    }
}
