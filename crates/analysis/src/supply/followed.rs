//! The timetable of one CPU that is followed, and the ways from it to others: data, of which [`crate::System`] is the
//! judge.
//!
//! Each change gives a [`Handover`]: which table to follow, and from when on. Up to that instant the
//! old one is followed. Every owner that stays keeps its promise in every window, those that span
//! the change included:
//!
//! 1. A leaver's slots go, all others stay ([`super::extend`]): at any instant.
//! 2. A newcomer takes free time, all others stay: at any instant.
//! 3. Where that does not fit, a table is built afresh, and an instant and a phase are looked for at
//!    which no window that spans them gets less ([`super::mode_change`]). Two such seams lie at least the
//!    longest period apart.
//!
//! An owner whose reservation changes is promised the weaker of both over the change: the smaller
//! budget, the longer period. (docs/reservations.md, Theorems 4 and 5.)

mod refusal;
mod tables;

use alloc::vec::Vec;

use punctual_model::{Duration, Instant, Reservation, Service, Timetable};

use super::constraint::{NoRoom, TimeConstraint};
use super::extend::{extended, without};
use super::mode_change::{Anchored, Continuing, mode_change, mode_change_in_place};
use super::timetable::{Limits, build};
use crate::ratio::Ratio;

pub use refusal::Failed;
pub(crate) use refusal::TEST;
pub(crate) use refusal::{offers, refusal};
use tables::{after_own_slot, commitments, named, taken};

/// The most reservations of one CPU: what its dispatcher has room for.
pub const MOST_OWNERS: usize = 64;

/// What a CPU may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Switching and the number of slots.
    pub limits: Limits,
    /// The most that the slots may take of the CPU together, in millionths.
    pub most_ppm: u32,
}

impl Rules {
    /// Builds the table of reservations that begin together; its owners are positions in `all`.
    ///
    /// # Errors
    /// The test that failed.
    pub fn together(&self, all: &[Reservation]) -> Result<Timetable, Failed> {
        if all.len() > MOST_OWNERS {
            return Err(Failed::TooMany);
        }
        let table = build(all, self.limits).map_err(Failed::NoTable)?.table;
        self.within_cap(&table)?;
        Ok(table)
    }

    /// Returns the same reservation as the last of `all` with the largest budget found that fits beside the others,
    /// to a 256th of the one asked for. What is returned was itself tried.
    pub fn largest_beside(&self, all: &[Reservation]) -> Option<Reservation> {
        let (asked, others) = all.split_last()?;
        largest(*asked, |trial| {
            let mut with = others.to_vec();
            with.push(trial);
            self.together(&with).is_ok()
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
    fits: impl Fn(Reservation) -> bool,
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

/// Which table to follow, and from when on.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    /// The reservation that this is about, as the slots name it.
    pub owner: u32,
    /// The table and its origin, which is not after `from`.
    pub follow: Anchored,
    /// Until then the old one is followed.
    pub from: Instant,
}

/// Who is held by a timetable, under a name that whoever admits chose.
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
    /// The table in `follow` counts from here.
    from: Instant,
    /// Nobody changes to a table built afresh before this.
    next_mode_change: Instant,
    next_owner: u32,
}

impl<Id: Copy + Eq> Followed<Id> {
    /// Holds nothing.
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

    /// Returns what is held, in the order in which it came, with what was promised to each.
    pub(crate) fn held(&self) -> impl Iterator<Item = (Id, Continuing)> + '_ {
        self.held.iter().map(|held| (held.id, held.promise))
    }

    /// Says whether `id` is held.
    pub(crate) fn holds(&self, id: Id) -> bool {
        self.promise_of(id).is_some()
    }

    /// Says whether nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Returns the table; `None` while nothing is held.
    pub(crate) fn table(&self) -> Option<&Timetable> {
        self.follow.as_ref().map(|follow| &follow.table)
    }

    /// Returns what the slots take of the CPU, switches included; rounded up.
    pub(crate) fn taken(&self) -> Ratio {
        self.table().map_or(Ratio::ZERO, taken)
    }

    /// Returns the last handover, as it is to whoever is held as `id`.
    pub(crate) fn handover(&self, id: Id) -> Option<Handover> {
        let owner = self.promise_of(id)?.owner;
        Some(Handover { owner, follow: self.follow.clone()?, from: self.from })
    }

    /// Returns the first instant from `earliest` on that cuts no slot of `id`: whoever joins in one of its slots
    /// gets the next one.
    pub(crate) fn joins_at(&self, id: Id, earliest: Instant) -> Instant {
        let earliest = earliest.max(self.from);
        let owner = self.promise_of(id).map(|promise| promise.owner);
        self.follow.as_ref().zip(owner).map_or(earliest, |(follow, owner)| {
            after_own_slot(&follow.table, owner, follow.origin, earliest)
        })
    }

    /// Begins to follow `table`, whose owners are positions in `all`; nothing may be held yet.
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

    /// Finds a table with `asked` for `id`, and the way to it. The handover is not before `earliest`, which leaves the
    /// follower time to hear of it. `standing`: what is still to be done of the time constraints accepted. The slots of
    /// all others stay where they are unless they `may_move`.
    pub(crate) fn way(
        &self,
        id: Id,
        asked: Reservation,
        earliest: Instant,
        standing: &[TimeConstraint],
        may_move: bool,
    ) -> Result<Handover, Failed> {
        let owner = self.promise_of(id).map(|promise| promise.owner);
        if owner.is_none() && self.held.len() >= MOST_OWNERS {
            return Err(Failed::TooMany);
        }
        let owner = owner.unwrap_or(self.next_owner);
        let earliest = earliest.max(self.from);
        let in_place = self.in_place(owner, asked, earliest);
        let found = match in_place {
            Some(handover) if self.check(&handover, earliest, standing).is_ok() => Ok(handover),
            _ if may_move || self.follow.is_none() => self.afresh(owner, asked, earliest),
            _ => Err(Failed::NoFreeTime),
        };
        let handover = found?;
        self.check(&handover, earliest, standing)?;
        Ok(handover)
    }

    /// Goes the way that was found for `id` and `asked`.
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
        // What it had counts too: a window of the old length may span the change.
        if let Some(longest) = changed {
            self.next_mode_change =
                self.next_mode_change.max(handover.from.saturating_add(longest));
        }
    }

    /// Takes `id` out. `None` if it is not held.
    pub(crate) fn leave(&mut self, id: Id, earliest: Instant) -> Option<Handover> {
        let at = self.held.iter().position(|held| held.id == id)?;
        let owner = self.held.remove(at).promise.owner;
        let follow = self.follow.as_ref()?;
        let follow = Anchored { table: without(&follow.table, owner), origin: follow.origin };
        let handover = Handover { owner, follow, from: earliest.max(self.from) };
        self.adopt(&handover);
        Some(handover)
    }

    /// Says whether `asked` fits beside what is reserved and `standing`, from `now` on.
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
            // Whoever fell behind its promise takes what there is.
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

    /// Where all others keep their slots.
    fn in_place(&self, owner: u32, asked: Reservation, earliest: Instant) -> Option<Handover> {
        let old = self.follow.as_ref()?;
        let others = without(&old.table, owner);
        let table = extended(&others, owner, asked, self.rules.limits)?;
        let from = match self.weaker(owner, asked) {
            Some(weaker) => {
                // Its own windows may not span two changes either.
                let earliest =
                    earliest.max(weaker.since.saturating_add(weaker.reservation.period()));
                let switch = self.rules.limits.context_switch;
                mode_change_in_place(old, &table, &[weaker], switch, earliest)?
            }
            // A slot of its own that were cut would lose a switch to its rest.
            None => after_own_slot(&table, owner, old.origin, earliest),
        };
        Some(Handover { owner, follow: Anchored { table, origin: old.origin }, from })
    }

    fn afresh(
        &self,
        owner: u32,
        asked: Reservation,
        earliest: Instant,
    ) -> Result<Handover, Failed> {
        let stays = |one: &Continuing| one.owner != owner;
        let mut continuing: Vec<Continuing> =
            self.held().map(|(_, promise)| promise).filter(stays).collect();
        let mut names: Vec<u32> = continuing.iter().map(|one| one.owner).collect();
        let mut all: Vec<Reservation> = continuing.iter().map(|one| one.reservation).collect();
        names.push(owner);
        all.push(asked);
        let built = build(&all, self.rules.limits).map_err(Failed::NoTable)?;
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
        let (from, follow) =
            mode_change(old, &table, &continuing, switch, earliest).ok_or(Failed::NoModeChange)?;
        Ok(Handover { owner, follow, from })
    }

    /// What an owner that changes is promised over the change; `None` for a newcomer.
    fn weaker(&self, owner: u32, asked: Reservation) -> Option<Continuing> {
        let (_, entry) = self.held().find(|(_, promise)| promise.owner == owner)?;
        let budget = entry.reservation.budget().min(asked.budget());
        let period = entry.reservation.period().max(asked.period());
        let reservation = Reservation::new(budget, period).ok()?;
        Some(Continuing { reservation, ..entry })
    }

    /// What must hold besides the reservations themselves.
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
