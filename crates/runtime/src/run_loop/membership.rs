//! Adds, changes and removes upcalls between two turns.

use punctual_model::{Duration, Handler, Instant, Rank, Upcall};

use super::Shared;
use super::executor::{Executor, Slot};
use crate::level_order::Rates;
use crate::upcalls::admission::Work;
use crate::upcalls::notice::Activity;

impl<H: Handler + Send> Executor<H> {
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
    pub(super) fn join(
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
    pub(super) fn change(&mut self, slot: u32, upcall: Upcall) -> Option<Work> {
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
    pub(super) fn vacate(&mut self, slot: u32) {
        self.slots[slot as usize] = Slot::free();
        self.free.insert(Rank(slot));
    }
}
