//! Executes a timetable that is replaced at run time, with one-shot work in its free time.
//!
//! [`Turns`] finds the owner of the current slot. A [`TableDispatcher`] follows one table until an
//! instant and another from then on. It gives the time outside the slots to the accepted time
//! constraints, the earliest deadline first (the soft modem study, §2: Rialto/NT's time
//! constraints). `analysis` tests whether the free time suffices for them: EDF is optimal there
//! (docs/reservations.md, Theorem 3).
//!
//! One switch is lost at the start of each stretch of one-shot work, and is not charged to it.

use alloc::vec::Vec;

use punctual_model::{Duration, Instant, Service};

use crate::timetable::Turns;

/// The holder of the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The time is free.
    Free,
    /// The owner of a slot.
    Owner(u32),
    /// A time constraint, by its name.
    Constraint(u32),
}

/// The holder of the CPU, and the end of its time.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The holder.
    pub who: Holder,
    /// The time of the next call, later than now; the end of time if nothing will change by itself.
    pub until: Instant,
}

/// The error when the time constraints, or the tables to come, have reached their limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A time constraint: work to be done once, with its remaining part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Its name.
    pub name: u32,
    /// It may not run before this time.
    pub start: Instant,
    /// It must be done by this time.
    pub deadline: Instant,
    /// The part of its estimate that it has not received yet.
    pub left: Service,
}

/// A timetable, the next ones, and the one-shot work between the slots.
///
/// Call order: [`at`](Self::at) with the current instant, again at the `until` that it returned,
/// and after any other call. Time must not decrease. It allocates only when it is made, and frees
/// nothing: the caller must collect replaced tables with [`retired`](Self::retired).
#[derive(Clone, Debug)]
pub struct TableDispatcher {
    turns: Option<Turns>,
    /// The tables to come, in order.
    next: Vec<(Instant, Option<Turns>)>,
    /// Replaced tables that were not collected yet.
    retired: Vec<Turns>,
    /// In deadline order.
    pending: Vec<Pending>,
    context_switch: Duration,
    /// The time constraint that runs, and the time from which it progresses, after the switch.
    running: Option<(u32, Instant)>,
}

impl TableDispatcher {
    /// The most time constraints at a time.
    pub const MOST: usize = 256;

    /// The most tables to come.
    pub const MOST_NEXT: usize = 16;

    /// Makes a dispatcher without a table. `context_switch` is lost at the start of each stretch of
    /// one-shot work.
    pub fn new(context_switch: Service) -> Self {
        Self {
            turns: None,
            next: Vec::with_capacity(Self::MOST_NEXT),
            retired: Vec::with_capacity(Self::MOST_NEXT + 1),
            pending: Vec::with_capacity(Self::MOST),
            context_switch: context_switch.at_full_speed(),
            running: None,
        }
    }

    /// Follows `turns` from `from` on (`None`: all time is free then), after the tables handed over
    /// before, whose instants must not be later. Replaced tables that were not collected count as
    /// tables to come.
    pub fn hand_over(&mut self, from: Instant, turns: Option<Turns>) -> Result<(), Full> {
        if self.next.len() + self.retired.len() >= Self::MOST_NEXT {
            return Err(Full);
        }
        self.next.push((from, turns));
        Ok(())
    }

    /// Returns a table that is no longer followed, for the caller to free where that does no harm.
    pub fn retired(&mut self) -> Option<Turns> {
        self.retired.pop()
    }

    /// Adds a time constraint that was accepted.
    pub fn add(&mut self, one: Pending) -> Result<(), Full> {
        if self.pending.len() >= Self::MOST {
            return Err(Full);
        }
        let at = self.pending.partition_point(|other| other.deadline <= one.deadline);
        self.pending.insert(at, one);
        Ok(())
    }

    /// Removes a time constraint, which is done or abandoned, and returns its remaining work.
    pub fn end(&mut self, name: u32, now: Instant) -> Option<Service> {
        self.charge(now);
        let at = self.pending.iter().position(|one| one.name == name)?;
        Some(self.pending.remove(at).left)
    }

    /// Returns the time constraints, the earliest deadline first.
    pub fn pending(&self) -> &[Pending] {
        &self.pending
    }

    /// Returns the holder of the CPU at `now`, and changes the table if it is time. Linear in the
    /// time constraints.
    pub fn at(&mut self, now: Instant) -> Step {
        let before = self.charge(now);
        // Constraints that are late or done are removed: their deadline has passed, or their time
        // is used up.
        self.pending.retain(|one| one.deadline > now && !one.left.is_zero());
        while self.next.first().is_some_and(|(from, _)| *from <= now) {
            let (_, turns) = self.next.remove(0);
            // There is room: neither list grows beyond its initial capacity.
            self.retired.extend(core::mem::replace(&mut self.turns, turns));
        }
        let change = self.next.first().map_or(Instant::MAX, |(from, _)| *from);
        let (owner, until) = match &self.turns {
            Some(turns) => {
                let decision = turns.at(now);
                (decision.owner, decision.until.min(change))
            }
            None => (None, change),
        };
        match owner {
            Some(owner) => Step { who: Holder::Owner(owner), until },
            None => self.free(now, until, before),
        }
    }

    /// Selects one-shot work in a free stretch from `now` to `until`.
    fn free(&mut self, now: Instant, until: Instant, before: Option<(u32, Instant)>) -> Step {
        // The next to start may be more urgent.
        let starts = self.pending.iter().map(|one| one.start).filter(|start| *start > now);
        let until = starts.fold(until, Instant::min);
        let Some(one) = self.pending.iter().find(|one| one.start <= now) else {
            return Step { who: Holder::Free, until };
        };
        let useful = match before {
            Some((name, useful)) if name == one.name => useful.max(now),
            _ => now.saturating_add(self.context_switch),
        };
        self.running = Some((one.name, useful));
        let done = useful.saturating_add(one.left.at_full_speed());
        // A deadline ends it too: late work has no promise.
        Step { who: Holder::Constraint(one.name), until: until.min(done).min(one.deadline) }
    }

    /// Charges the one-shot work that ran until now, and returns it.
    fn charge(&mut self, now: Instant) -> Option<(u32, Instant)> {
        let (name, useful) = self.running.take()?;
        if let Some(one) = self.pending.iter_mut().find(|one| one.name == name) {
            one.left = one.left.saturating_sub(now.saturating_since(useful).as_full_service());
        }
        Some((name, useful))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use punctual_model::{Slot, Timetable};

    fn ns(n: u64) -> Instant {
        Instant::from_nanos(n)
    }

    fn once(name: u32, start: u64, work: u64, deadline: u64) -> Pending {
        let left = Service::from_nanos(work);
        Pending { name, start: ns(start), deadline: ns(deadline), left }
    }

    fn turns(owner: u32, start: u64, length: u64) -> Turns {
        let slot = Slot {
            start: Duration::from_nanos(start),
            length: Duration::from_nanos(length),
            owner,
        };
        let table = Timetable::new(Duration::from_nanos(10), vec![slot]).expect("valid");
        Turns::new(table, ns(0))
    }

    fn steps(table_dispatcher: &mut TableDispatcher, until: u64) -> Vec<(u64, Holder)> {
        let (mut now, mut seen) = (ns(0), vec![]);
        while now < ns(until) {
            let step = table_dispatcher.at(now);
            assert!(step.until > now);
            seen.push((now.as_nanos(), step.who));
            now = step.until;
        }
        seen
    }

    #[test]
    fn one_shot_work_runs_between_the_slots_by_deadline() {
        let mut table_dispatcher = TableDispatcher::new(Service::ZERO);
        assert_eq!(table_dispatcher.hand_over(ns(0), Some(turns(7, 2, 3))), Ok(()));
        table_dispatcher.add(once(1, 0, 4, 20)).expect("room");
        table_dispatcher.add(once(2, 6, 3, 12)).expect("room");
        assert_eq!(
            steps(&mut table_dispatcher, 12),
            [
                (0, Holder::Constraint(1)),
                (2, Holder::Owner(7)),
                (5, Holder::Constraint(1)),
                (6, Holder::Constraint(2)),
                (9, Holder::Constraint(1)),
                (10, Holder::Free),
            ]
        );
        assert!(table_dispatcher.pending().is_empty());
    }

    #[test]
    fn a_table_is_exchanged_at_its_instant_and_not_before() {
        let mut table_dispatcher = TableDispatcher::new(Service::ZERO);
        table_dispatcher.hand_over(ns(0), Some(turns(7, 0, 4))).expect("room");
        assert_eq!(table_dispatcher.at(ns(0)), Step { who: Holder::Owner(7), until: ns(4) });
        table_dispatcher.hand_over(ns(12), Some(turns(8, 2, 4))).expect("room");
        table_dispatcher.hand_over(ns(13), None).expect("room");
        assert_eq!(table_dispatcher.at(ns(4)), Step { who: Holder::Free, until: ns(10) });
        assert_eq!(table_dispatcher.at(ns(10)), Step { who: Holder::Owner(7), until: ns(12) });
        assert_eq!(table_dispatcher.at(ns(12)), Step { who: Holder::Owner(8), until: ns(13) });
        assert_eq!(table_dispatcher.at(ns(14)), Step { who: Holder::Free, until: Instant::MAX });
    }

    #[test]
    fn switching_is_not_charged_and_an_early_end_returns_the_rest() {
        let mut table_dispatcher = TableDispatcher::new(Service::from_nanos(2));
        table_dispatcher.add(once(1, 0, 5, 100)).expect("room");
        assert_eq!(table_dispatcher.at(ns(0)), Step { who: Holder::Constraint(1), until: ns(7) });
        // A call in between does not begin another stretch.
        assert_eq!(table_dispatcher.at(ns(4)), Step { who: Holder::Constraint(1), until: ns(7) });
        assert_eq!(table_dispatcher.end(1, ns(5)), Some(Service::from_nanos(2)));
        assert_eq!(table_dispatcher.end(1, ns(5)), None);
        assert_eq!(table_dispatcher.at(ns(5)).who, Holder::Free);
    }

    #[test]
    fn late_work_is_dropped_and_the_places_are_counted() {
        let mut table_dispatcher = TableDispatcher::new(Service::ZERO);
        table_dispatcher.add(once(1, 0, 5, 3)).expect("room");
        assert_eq!(
            steps(&mut table_dispatcher, 4),
            [(0, Holder::Constraint(1)), (3, Holder::Free)]
        );
        for name in 0..TableDispatcher::MOST as u32 {
            table_dispatcher.add(once(name, 10, 1, 1_000)).expect("room");
        }
        assert_eq!(table_dispatcher.add(once(999, 10, 1, 1_000)), Err(Full));
    }
}
