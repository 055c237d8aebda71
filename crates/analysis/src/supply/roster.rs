//! The reservations of one CPU, joining and leaving while their timetable is followed.
//!
//! Each change gives a [`Handover`]: which table to follow, and from when on. Up to that instant the
//! old one is followed. Every owner that stays keeps its promise in every window, those that span
//! the change included:
//!
//! 1. A leaver's slots go, all others stay ([`super::extend`]): at any instant.
//! 2. A newcomer takes free time, all others stay: at any instant.
//! 3. Where that does not fit, a table is built afresh, and an instant and a phase are looked for at
//!    which no window that spans them gets less ([`super::seam`]). Two such seams lie at least the
//!    longest period apart.
//!
//! An owner whose reservation changes is promised the weaker of both over the change: the smaller
//! budget, the longer period. (docs/reservations.md, Theorems 4 and 5.)
//!
//! A refusal changes nothing, names the test that failed and offers the largest budget found for the
//! same period; what is offered was itself tried.

mod refusal;
mod tables;

use alloc::boxed::Box;
use alloc::vec::Vec;

use punctual_model::{Duration, Instant, Reservation, Service, Timetable};

use super::constraint::{NoRoom, TimeConstraint};
use super::extend::{extended, without};
use super::seam::{Anchored, Continuing, seam, seam_in_place};
use super::timetable::{Limits, build};
use crate::ratio::Ratio;
use crate::verdict::Refusal;

pub use refusal::Failed;
pub(crate) use refusal::TEST;
pub(super) use refusal::refusal;
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
fn largest(asked: Reservation, fits: impl Fn(Reservation) -> bool) -> Option<Reservation> {
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

/// The reservations of one CPU and the table that is followed for them.
#[derive(Clone, Debug)]
pub struct Roster {
    rules: Rules,
    entries: Vec<Continuing>,
    follow: Option<Anchored>,
    /// The table in `follow` counts from here.
    from: Instant,
    /// Nobody changes to a table built afresh before this.
    next_seam: Instant,
    next_owner: u32,
}

impl Roster {
    /// Nothing is reserved.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            entries: Vec::new(),
            follow: None,
            from: Instant::ZERO,
            next_seam: Instant::ZERO,
            next_owner: 0,
        }
    }

    /// What stands, in the order of admission.
    pub fn entries(&self) -> &[Continuing] {
        &self.entries
    }

    /// From when on the table last handed over counts.
    pub fn from(&self) -> Instant {
        self.from
    }

    /// What the slots take of the CPU, switches included; rounded up.
    pub fn taken(&self) -> Ratio {
        self.follow.as_ref().map_or(Ratio::ZERO, |follow| taken(&follow.table))
    }

    /// Admits `asked`. The handover is not before `earliest`, which leaves the follower time to hear
    /// of it. `standing`: what is still to be done of the time constraints accepted.
    pub fn admit(
        &mut self,
        asked: Reservation,
        earliest: Instant,
        standing: &[TimeConstraint],
    ) -> Result<Handover, Box<Refusal>> {
        let owner = self.next_owner;
        let found = self.find(owner, asked, earliest, standing);
        let handover =
            found.map_err(|failed| self.refusal(owner, asked, failed, earliest, standing))?;
        self.next_owner += 1;
        self.entries.push(Continuing { owner, reservation: asked, since: handover.from });
        self.adopt(&handover);
        Ok(handover)
    }

    /// Admits all of `asked`, which begin together, or none of them. They are named one after the other, the first by
    /// the handover's owner.
    ///
    /// # Panics
    /// If something is reserved already.
    pub fn admit_together(
        &mut self,
        asked: &[Reservation],
        earliest: Instant,
    ) -> Result<Handover, Box<Refusal>> {
        assert!(self.entries.is_empty(), "they begin together");
        let table = self.rules.together(asked).map_err(|failed| {
            // Nothing cannot be refused but as nothing.
            let last = *asked.last().expect("at least one");
            refusal(last, &failed, self.rules.largest_beside(asked))
        })?;
        let (owner, from) = (self.next_owner, earliest.max(self.from));
        let names: Vec<u32> = (0..asked.len() as u32).map(|at| owner.wrapping_add(at)).collect();
        let follow = Anchored { table: named(&table, &names), origin: from };
        self.next_owner = owner.wrapping_add(asked.len() as u32);
        let entry = |(owner, reservation): (&u32, &Reservation)| Continuing {
            owner: *owner,
            reservation: *reservation,
            since: from,
        };
        self.entries.extend(names.iter().zip(asked).map(entry));
        let handover = Handover { owner, follow, from };
        self.adopt(&handover);
        Ok(handover)
    }

    /// Returns the first instant from `earliest` on that cuts no slot of `owner`: whoever joins in one of its slots
    /// gets the next one.
    pub fn joins_at(&self, owner: u32, earliest: Instant) -> Instant {
        let earliest = earliest.max(self.from);
        self.follow.as_ref().map_or(earliest, |follow| {
            after_own_slot(&follow.table, owner, follow.origin, earliest)
        })
    }

    /// Gives `owner` another reservation; a refusal leaves it the one it has. `None` if it has none.
    pub fn change(
        &mut self,
        owner: u32,
        asked: Reservation,
        earliest: Instant,
        standing: &[TimeConstraint],
    ) -> Option<Result<Handover, Box<Refusal>>> {
        let at = self.entries.iter().position(|entry| entry.owner == owner)?;
        let found = self.find(owner, asked, earliest, standing);
        Some(match found {
            Ok(handover) => {
                // What it had counts too: a window of the old length may span the change.
                let longest = self.entries[at].reservation.period().max(asked.period());
                self.entries[at].reservation = asked;
                self.entries[at].since = handover.from;
                self.adopt(&handover);
                self.next_seam = self.next_seam.max(handover.from.saturating_add(longest));
                Ok(handover)
            }
            Err(failed) => Err(self.refusal(owner, asked, failed, earliest, standing)),
        })
    }

    /// Takes `owner` out. `None` if it has no reservation.
    pub fn release(&mut self, owner: u32, earliest: Instant) -> Option<Handover> {
        let at = self.entries.iter().position(|entry| entry.owner == owner)?;
        self.entries.remove(at);
        let follow = self.follow.as_ref()?;
        let follow = Anchored { table: without(&follow.table, owner), origin: follow.origin };
        let handover = Handover { owner, follow, from: earliest.max(self.from) };
        self.adopt(&handover);
        Some(handover)
    }

    /// Whether `asked` fits beside what is reserved and `standing`, from `now` on.
    pub fn begin(
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

    fn adopt(&mut self, handover: &Handover) {
        let moved = self.follow.as_ref().is_some_and(|old| old.origin != handover.follow.origin);
        let longest = self.entries.iter().map(|entry| entry.reservation.period()).max();
        if moved {
            self.next_seam = handover.from.saturating_add(longest.unwrap_or(Duration::ZERO));
        }
        self.from = handover.from;
        self.follow = (!self.entries.is_empty()).then(|| handover.follow.clone());
    }

    /// A table with `asked` for `owner`, and the way to it.
    fn find(
        &self,
        owner: u32,
        asked: Reservation,
        earliest: Instant,
        standing: &[TimeConstraint],
    ) -> Result<Handover, Failed> {
        let earliest = earliest.max(self.from);
        let in_place = self.in_place(owner, asked, earliest);
        let found = match in_place {
            Some(handover) if self.check(&handover, earliest, standing).is_ok() => Ok(handover),
            _ => self.afresh(owner, asked, earliest),
        };
        let handover = found?;
        self.check(&handover, earliest, standing)?;
        Ok(handover)
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
                seam_in_place(old, &table, &[weaker], switch, earliest)?
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
        let stays = |entry: &&Continuing| entry.owner != owner;
        let mut names: Vec<u32> = self.entries.iter().filter(stays).map(|one| one.owner).collect();
        let mut all: Vec<Reservation> =
            self.entries.iter().filter(stays).map(|one| one.reservation).collect();
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
        let mut continuing: Vec<Continuing> = self.entries.iter().filter(stays).copied().collect();
        let mut earliest = earliest.max(self.next_seam);
        if let Some(weaker) = self.weaker(owner, asked) {
            earliest = earliest.max(weaker.since.saturating_add(weaker.reservation.period()));
            continuing.push(weaker);
        }
        let switch = self.rules.limits.context_switch;
        let (from, follow) =
            seam(old, &table, &continuing, switch, earliest).ok_or(Failed::NoSeam)?;
        Ok(Handover { owner, follow, from })
    }

    /// What an owner that changes is promised over the change; `None` for a newcomer.
    fn weaker(&self, owner: u32, asked: Reservation) -> Option<Continuing> {
        let entry = self.entries.iter().find(|entry| entry.owner == owner)?;
        let budget = entry.reservation.budget().min(asked.budget());
        let period = entry.reservation.period().max(asked.period());
        let reservation = Reservation::new(budget, period).ok()?;
        Some(Continuing { reservation, ..*entry })
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

    /// The refusal with the largest budget found, to a 256th of the one asked for.
    fn refusal(
        &self,
        owner: u32,
        asked: Reservation,
        failed: Failed,
        earliest: Instant,
        standing: &[TimeConstraint],
    ) -> Box<Refusal> {
        let fits = |trial| self.find(owner, trial, earliest, standing).is_ok();
        refusal(asked, &failed, largest(asked, fits))
    }
}
