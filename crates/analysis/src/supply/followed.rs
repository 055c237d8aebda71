//! The timetable that one CPU follows, and changes from it to others. It only finds them;
//! [`crate::System`] decides.
//!
//! Each change gives a [`Handover`]: the table to follow and the instant from which it is followed.
//! The old table is followed up to that instant. Every owner that stays keeps its promise in every
//! window, including those that span the change:
//!
//! 1. When an owner leaves, its slots go and all others stay ([`super::extend`]): at any instant.
//! 2. A newcomer takes free time, and all others stay: at any instant.
//! 3. If the newcomer does not fit in the free time, a new table is built, with an instant and a
//!    phase at which no window that spans the change gets less ([`super::mode_change`]). Two such
//!    mode changes are at least the longest period apart.
//!
//! While an owner's reservation changes, it is promised the weaker of both: the smaller budget and
//! the longer period. (docs/reservations.md, Theorems 4 and 5.)

mod refusal;
mod tables;

use alloc::vec::Vec;

use punctual_model::{Duration, Instant, Reservation, Service, Timetable};

use super::constraint::{NoRoom, TimeConstraint};
use super::extend::{extended, without};
use super::mode_change::{Anchored, Continuing, mode_change, mode_change_in_place};
use super::timetable::{Limits, build};
use crate::ratio::Ratio;
use crate::steps::Steps;

pub use refusal::Failed;
pub(crate) use refusal::TEST;
pub(crate) use refusal::{offers, refusal};
use tables::{after_own_slot, commitments, named, taken};

/// The most reservations of one CPU: the room in its dispatcher.
pub const MOST_OWNERS: usize = 64;

/// The limits on the slots of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Switching and the number of slots.
    pub limits: Limits,
    /// The largest share of the CPU for all slots together, in millionths.
    pub most_ppm: u32,
}

impl Rules {
    /// Builds the table of reservations that begin together. Its owners are positions in `all`.
    ///
    /// # Errors
    /// Returns the test that failed.
    pub fn together(&self, all: &[Reservation], steps: &mut Steps) -> Result<Timetable, Failed> {
        if all.len() > MOST_OWNERS {
            return Err(Failed::TooMany);
        }
        let table = build(all, self.limits, steps).map_err(Failed::NoTable)?.table;
        self.within_cap(&table)?;
        Ok(table)
    }

    /// Returns the last reservation of `all` with the largest budget found that fits beside the
    /// others, to a 256th of the requested one. The result was itself tried.
    pub fn largest_beside(&self, all: &[Reservation], steps: &mut Steps) -> Option<Reservation> {
        let (asked, others) = all.split_last()?;
        largest(*asked, |trial| {
            let mut with = others.to_vec();
            with.push(trial);
            self.together(&with, steps).is_ok()
        })
    }

    fn within_cap(&self, table: &Timetable) -> Result<(), Failed> {
        let needed = taken(table);
        let most = Ratio::below(u64::from(self.most_ppm), 1_000_000);
        if needed > most { Err(Failed::AboveCap { needed, most }) } else { Ok(()) }
    }
}

/// Returns `asked` with the largest budget found that `fits`, to a 256th.
pub(crate) fn largest(
    asked: Reservation,
    mut fits: impl FnMut(Reservation) -> bool,
) -> Option<Reservation> {
    let (mut low, mut high) = (0, asked.budget().as_nanos());
    let mut offer = None;
    for _ in 0..8 {
        let middle = low + (high - low) / 2;
        let Ok(trial) = Reservation::new(Service::from_nanos(middle), asked.period()) else {
            break;
        };
        if fits(trial) {
            (low, offer) = (middle, Some(trial));
        } else {
            high = middle;
        }
    }
    offer
}

/// The table to follow, and the instant from which it is followed.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    /// The reservation that changes, by its name in the slots.
    pub owner: u32,
    /// The table and its origin, which is not after `from`.
    pub follow: Anchored,
    /// The old table is followed until this instant.
    pub from: Instant,
}

/// A reservation in the timetable, under the name that the caller gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held<Id> {
    id: Id,
    promise: Continuing,
}

/// The reservations of one CPU and the table that is followed for them.
#[derive(Clone, Debug)]
pub(crate) struct Followed<Id> {
    rules: Rules,
    held: Vec<Held<Id>>,
    follow: Option<Anchored>,
    /// The instant from which the table in `follow` applies.
    from: Instant,
    /// The earliest instant of the next change to a newly built table.
    next_mode_change: Instant,
    next_owner: u32,
}

impl<Id: Copy + Eq> Followed<Id> {
    /// Starts without reservations.
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            rules,
            held: Vec::new(),
            follow: None,
            from: Instant::ZERO,
            next_mode_change: Instant::ZERO,
            next_owner: 0,
        }
    }

    /// Returns the reservations in the order of their arrival, each with its promise.
    pub(crate) fn held(&self) -> impl Iterator<Item = (Id, Continuing)> + '_ {
        self.held.iter().map(|held| (held.id, held.promise))
    }

    /// Returns whether `id` has a reservation here.
    pub(crate) fn holds(&self, id: Id) -> bool {
        self.promise_of(id).is_some()
    }

    /// Returns whether there are no reservations.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Returns the table, or `None` if there are no reservations.
    pub(crate) fn table(&self) -> Option<&Timetable> {
        self.follow.as_ref().map(|follow| &follow.table)
    }

    /// Returns the share of the CPU that the slots take, switches included, rounded up.
    pub(crate) fn taken(&self) -> Ratio {
        self.table().map_or(Ratio::ZERO, taken)
    }

    /// Returns the last handover, addressed to `id`.
    pub(crate) fn handover(&self, id: Id) -> Option<Handover> {
        let owner = self.promise_of(id)?.owner;
        Some(Handover { owner, follow: self.follow.clone()?, from: self.from })
    }

    /// Returns the first instant from `earliest` on that cuts no slot of `id`. A holder that joins
    /// during one of its slots gets the next one.
    pub(crate) fn joins_at(&self, id: Id, earliest: Instant) -> Instant {
        let earliest = earliest.max(self.from);
        let owner = self.promise_of(id).map(|promise| promise.owner);
        self.follow.as_ref().zip(owner).map_or(earliest, |(follow, owner)| {
            after_own_slot(&follow.table, owner, follow.origin, earliest)
        })
    }

    /// Begins to follow `table`, whose owners are positions in `all`. No reservations may exist
    /// yet.
    pub(crate) fn begin(
        &mut self,
        all: &[(Id, Reservation)],
        table: &Timetable,
        earliest: Instant,
    ) {
        debug_assert!(self.held.is_empty(), "they begin together");
        let (owner, since) = (self.next_owner, earliest.max(self.from));
        let names: Vec<u32> = (0..all.len() as u32).map(|at| owner.wrapping_add(at)).collect();
        let follow = Anchored { table: named(table, &names), origin: since };
        self.next_owner = owner.wrapping_add(all.len() as u32);
        let held = |(&owner, &(id, reservation)): (&u32, &(Id, Reservation))| Held {
            id,
            promise: Continuing { owner, reservation, since },
        };
        self.held = names.iter().zip(all).map(held).collect();
        self.adopt(&Handover { owner, follow, from: since });
    }

    /// Finds a table with `asked` for `id`, and the handover to it, which is not before `earliest`,
    /// so that the dispatcher has time to receive it. `standing` holds the remaining work of the
    /// accepted time constraints. The slots of all others stay in place unless they `may_move`.
    pub(crate) fn way(
        &self,
        id: Id,
        asked: Reservation,
        earliest: Instant,
        standing: &[TimeConstraint],
        may_move: bool,
        steps: &mut Steps,
    ) -> Result<Handover, Failed> {
        let owner = self.promise_of(id).map(|promise| promise.owner);
        if owner.is_none() && self.held.len() >= MOST_OWNERS {
            return Err(Failed::TooMany);
        }
        let owner = owner.unwrap_or(self.next_owner);
        let earliest = earliest.max(self.from);
        let in_place = self.in_place(owner, asked, earliest, steps);
        let found = match in_place {
            Some(handover) if self.check(&handover, earliest, standing).is_ok() => Ok(handover),
            _ if may_move || self.follow.is_none() => self.afresh(owner, asked, earliest, steps),
            _ => Err(Failed::NoFreeTime),
        };
        let handover = found?;
        self.check(&handover, earliest, standing)?;
        Ok(handover)
    }

    /// Applies the handover that was found for `id` and `asked`.
    pub(crate) fn go(&mut self, id: Id, asked: Reservation, handover: &Handover) {
        let old = self.held.iter_mut().find(|held| held.id == id);
        let changed = old.map(|held| {
            let before = held.promise.reservation;
            held.promise.reservation = asked;
            held.promise.since = handover.from;
            before.period().max(asked.period())
        });
        if changed.is_none() {
            let Handover { owner, from, .. } = *handover;
            let promise = Continuing { owner, reservation: asked, since: from };
            self.next_owner = self.next_owner.wrapping_add(1);
            self.held.push(Held { id, promise });
        }
        self.adopt(handover);
        // The old reservation counts too: a window of the old length may span the change.
        if let Some(longest) = changed {
            self.next_mode_change =
                self.next_mode_change.max(handover.from.saturating_add(longest));
        }
    }

    /// Removes `id`. Returns `None` if it has no reservation.
    pub(crate) fn leave(&mut self, id: Id, earliest: Instant) -> Option<Handover> {
        let at = self.held.iter().position(|held| held.id == id)?;
        let owner = self.held.remove(at).promise.owner;
        let follow = self.follow.as_ref()?;
        let follow = Anchored { table: without(&follow.table, owner), origin: follow.origin };
        let handover = Handover { owner, follow, from: earliest.max(self.from) };
        self.adopt(&handover);
        Some(handover)
    }

    /// Checks that `asked` fits beside the reservations and the `standing` constraints from `now`
    /// on.
    pub(crate) fn has_room(
        &self,
        asked: TimeConstraint,
        standing: &[TimeConstraint],
        now: Instant,
    ) -> Result<(), NoRoom> {
        let from = now.max(self.from);
        let mut commitments = match &self.follow {
            Some(follow) => commitments(follow, self.rules),
            None => {
                let second = Timetable::free(Duration::from_secs(1)).expect("not zero");
                commitments(&Anchored { table: second, origin: from }, self.rules)
            }
        };
        for one in standing {
            let one = TimeConstraint { start: one.start.max(from), ..*one };
            // A constraint that fell behind its promise takes the time there is.
            if let Err(less) = commitments.accept(one) {
                let _ =
                    commitments.accept(TimeConstraint { estimate: less.largest_estimate, ..one });
            }
        }
        commitments.accept(TimeConstraint { start: asked.start.max(from), ..asked })
    }

    fn promise_of(&self, id: Id) -> Option<Continuing> {
        self.held.iter().find(|held| held.id == id).map(|held| held.promise)
    }

    fn adopt(&mut self, handover: &Handover) {
        let moved = self.follow.as_ref().is_some_and(|old| old.origin != handover.follow.origin);
        let longest = self.held().map(|(_, one)| one.reservation.period()).max();
        if moved {
            self.next_mode_change = handover.from.saturating_add(longest.unwrap_or(Duration::ZERO));
        }
        self.from = handover.from;
        self.follow = (!self.held.is_empty()).then(|| handover.follow.clone());
    }

    /// Finds a handover in which all others keep their slots.
    fn in_place(
        &self,
        owner: u32,
        asked: Reservation,
        earliest: Instant,
        steps: &mut Steps,
    ) -> Option<Handover> {
        let old = self.follow.as_ref()?;
        let others = without(&old.table, owner);
        let table = extended(&others, owner, asked, self.rules.limits, steps)?;
        let from = match self.weaker(owner, asked) {
            Some(weaker) => {
                // The owner's own windows may not span two changes either.
                let earliest =
                    earliest.max(weaker.since.saturating_add(weaker.reservation.period()));
                let switch = self.rules.limits.context_switch;
                mode_change_in_place(old, &table, &[weaker], switch, earliest, steps)?
            }
            // A cut slot would cost its rest a switch.
            None => after_own_slot(&table, owner, old.origin, earliest),
        };
        Some(Handover { owner, follow: Anchored { table, origin: old.origin }, from })
    }

    fn afresh(
        &self,
        owner: u32,
        asked: Reservation,
        earliest: Instant,
        steps: &mut Steps,
    ) -> Result<Handover, Failed> {
        let stays = |one: &Continuing| one.owner != owner;
        let mut continuing: Vec<Continuing> =
            self.held().map(|(_, promise)| promise).filter(stays).collect();
        let mut names: Vec<u32> = continuing.iter().map(|one| one.owner).collect();
        let mut all: Vec<Reservation> = continuing.iter().map(|one| one.reservation).collect();
        names.push(owner);
        all.push(asked);
        let built = build(&all, self.rules.limits, steps).map_err(Failed::NoTable)?;
        let table = named(&built.table, &names);
        let Some(old) = &self.follow else {
            return Ok(Handover {
                owner,
                follow: Anchored { table, origin: earliest },
                from: earliest,
            });
        };
        let mut earliest = earliest.max(self.next_mode_change);
        if let Some(weaker) = self.weaker(owner, asked) {
            earliest = earliest.max(weaker.since.saturating_add(weaker.reservation.period()));
            continuing.push(weaker);
        }
        let switch = self.rules.limits.context_switch;
        let (from, follow) = mode_change(old, &table, &continuing, switch, earliest, steps)
            .ok_or(Failed::NoModeChange)?;
        Ok(Handover { owner, follow, from })
    }

    /// Returns the promise to a changing owner during the change, or `None` for a newcomer.
    fn weaker(&self, owner: u32, asked: Reservation) -> Option<Continuing> {
        let (_, entry) = self.held().find(|(_, promise)| promise.owner == owner)?;
        let budget = entry.reservation.budget().min(asked.budget());
        let period = entry.reservation.period().max(asked.period());
        let reservation = Reservation::new(budget, period).ok()?;
        Some(Continuing { reservation, ..entry })
    }

    /// Checks the conditions other than the reservations themselves.
    fn check(
        &self,
        handover: &Handover,
        earliest: Instant,
        standing: &[TimeConstraint],
    ) -> Result<(), Failed> {
        self.rules.within_cap(&handover.follow.table)?;
        let mut commitments = commitments(&handover.follow, self.rules);
        for one in standing {
            let start = one.start.max(handover.from).max(earliest);
            commitments
                .accept(TimeConstraint { start, ..*one })
                .map_err(|_| Failed::Promised { deadline: one.deadline })?;
        }
        Ok(())
    }
}
