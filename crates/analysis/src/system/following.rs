//! Reservations that join, change and leave while the timetable of their CPU is followed.
//!
//! [`Followed`] finds the handover from one table to another. This module decides whether it is
//! permitted: within the share of timetables, beside the accepted time constraints, and with the
//! tasks and channels beneath the slots in time.
//!
//! # Assumptions
//! No window of a task may see two tables. So beneath the slots of a CPU with tasks or channels, a
//! newcomer takes free time only, and a reservation changes only to one whose slots take no more.
//! Before the caller admits a task on a CPU, it waits until the CPU's last handover is in effect.

use alloc::boxed::Box;
use alloc::vec::Vec;

use punctual_model::{HostProfile, Instant};

use super::commands::{no_timetable, slots_of_followed};
use super::exchange::Timetables;
use super::request::Joining;
use super::{Slots, System, UpcallOrder, late};
use crate::reservation::ReservedLoad;
use crate::steps::Steps;
use crate::supply::followed::{Failed, Followed, Handover, Rules, largest, offers, refusal};
use crate::supply::mode_change::Continuing;
use crate::supply::together::Tables;
use crate::supply::{NoRoom, TimeConstraint};
use crate::verdict::{Refusal, Resource};

impl<Id: Copy + Ord> System<Id> {
    /// Creates a state with only the timetable of a CPU, by the kernel's number, under `rules`.
    pub fn of_timetable(cpu: u16, rules: Rules) -> Self {
        let host = HostProfile {
            slot_allowance: rules.limits.context_switch,
            ..HostProfile::ideal(cpu.saturating_add(1))
        };
        let mut system = Self::new(host, UpcallOrder::LevelOrder);
        system.tables = Tables::new(rules);
        system
    }

    /// Starts to follow the timetable of `cpu` from `earliest` on. Returns `None` if it has no
    /// commands.
    pub fn follow(&mut self, cpu: u16, earliest: Instant) -> Option<Handover> {
        let (all, table) = self.tables.take(cpu)?;
        let followed = self.followed_mut(cpu);
        followed.begin(&all, &table, earliest);
        followed.handover(all.first()?.0)
    }

    /// Returns the followed table that holds `id`, with the instant from which it is followed, or
    /// `None` if there is none.
    pub fn handover(&self, id: Id) -> Option<Handover> {
        self.followed.values().find_map(|followed| followed.handover(id))
    }

    /// Returns the reservations in the timetable that `cpu` follows, with the promise to each.
    pub fn continuing(&self, cpu: u16) -> impl Iterator<Item = (Id, Continuing)> + '_ {
        self.followed.get(&cpu).into_iter().flat_map(Followed::held)
    }

    /// Returns the share of the CPU that its followed slots take, switches included, in parts per
    /// million, rounded up.
    pub fn followed_ppm(&self, cpu: u16) -> u64 {
        let taken = self.followed.get(&cpu).map_or(0, |followed| followed.taken().ppm_above());
        u64::try_from(taken).unwrap_or(u64::MAX)
    }

    /// Returns the first instant from `earliest` on that cuts no slot of `id`. A holder that joins
    /// during one of its slots gets the next one. Returns `None` if no followed timetable holds
    /// `id`.
    pub fn joins_at(&self, id: Id, earliest: Instant) -> Option<Instant> {
        let followed = self.followed.values().find(|followed| followed.holds(id))?;
        Some(followed.joins_at(id, earliest))
    }

    /// Removes an entry from its followed timetable, and returns the table to follow instead, not
    /// before `earliest`. Returns `None` if no followed timetable holds it.
    pub fn leave(&mut self, id: Id, earliest: Instant) -> Option<Handover> {
        let handover = self.unseat(id, earliest)?;
        self.entries.remove(&id);
        Some(handover)
    }

    /// Removes a reservation from its timetable alone; the entry stays. The slots of the others
    /// stay in place.
    pub(super) fn unseat(&mut self, id: Id, earliest: Instant) -> Option<Handover> {
        let (&cpu, _) = self.followed.iter().find(|(_, followed)| followed.holds(id))?;
        self.take_slots_from_above(id, cpu);
        self.followed.get_mut(&cpu)?.leave(id, earliest)
    }

    /// Checks that `asked` fits beside the reservations on `cpu` and the `standing` time
    /// constraints there, from `now` on.
    ///
    /// # Errors
    /// Returns the work that would fit.
    pub fn has_room(
        &self,
        cpu: u16,
        asked: TimeConstraint,
        standing: &[TimeConstraint],
        now: Instant,
    ) -> Result<(), NoRoom> {
        let none = Followed::new(self.tables.rules());
        self.followed.get(&cpu).unwrap_or(&none).has_room(asked, standing, now)
    }

    /// Returns whether the timetable that `cpu` follows holds `id`.
    pub(super) fn is_seated(&self, id: Id, cpu: u16) -> bool {
        self.followed.get(&cpu).is_some_and(|followed| followed.holds(id))
    }

    /// Adds a reservation as `id` to the timetable of a CPU, or replaces its old one there, and
    /// returns the CPU as it was before. A refusal changes nothing, and offers the largest budget
    /// found for the same period, to a 256th, which was itself tried.
    pub(super) fn seat(
        &mut self,
        id: Id,
        joining: Joining<'_>,
        steps: &mut Steps,
    ) -> Result<Timetables<Id>, Box<Refusal>> {
        self.refuse_both_back_ends(false)?;
        self.has_cpu(joining.cpu)?;
        self.refuse_beside_timetables(joining.cpu)?;
        if self.tables.all().iter().any(|table| table.cpu == joining.cpu) {
            let why =
                "it is to join others on its CPU, and their timetable is not followed yet".into();
            return Err(no_timetable(Resource::Cpu, None, why));
        }
        let no = match self.try_to_seat(id, joining, steps) {
            Ok(before) => return Ok(before),
            Err(no) => no,
        };
        let asked = joining.reservation;
        let fits = |reservation| {
            let steps = &mut Steps::new(Steps::ADMISSION / 16);
            let seated = self.try_to_seat(id, Joining { reservation, ..joining }, steps);
            seated.map(|before| self.restore(before)).is_ok()
        };
        Err(match no {
            No::Table(Failed::TooMany) => refusal(asked, &Failed::TooMany, None),
            No::Table(failed) => refusal(asked, &failed, largest(asked, fits)),
            No::Beneath(refusal) => {
                Box::new(Refusal { offers: offers(asked, largest(asked, fits)), ..*refusal })
            }
        })
    }

    fn try_to_seat(
        &mut self,
        id: Id,
        joining: Joining<'_>,
        steps: &mut Steps,
    ) -> Result<Timetables<Id>, No> {
        let Joining { reservation, cpu, earliest, standing } = joining;
        let at = self.position_of(cpu);
        let beneath = at.is_some_and(|at| self.cpus[at].has_tasks()) || self.carries_on(cpu);
        let begun = || Followed::new(self.tables.rules());
        let mut followed = self.followed.get(&cpu).cloned().unwrap_or_else(begun);
        let way = followed.way(id, reservation, earliest, standing, !beneath, steps);
        let handover = way.map_err(No::Table)?;
        let slots = |followed: &Followed<Id>| -> Vec<Slots> {
            let all = slots_of_followed(cpu, followed, self.host.context_switch);
            all.map(|(_, slots)| slots).collect()
        };
        let old = slots(&followed);
        followed.go(id, reservation, &handover);
        let new = slots(&followed);
        let (gone, come) = (difference(&old, &new), difference(&new, &old));
        // A window over the change has some of both.
        let loads: Vec<ReservedLoad> = come.iter().map(Slots::load).collect();
        if let Some(at) = at {
            let beneath = self.cpus[at].exchange_above(&[], &loads, steps);
            beneath.map_err(|denial| No::Beneath(late(denial, None)))?;
        }
        let before = self.followed.insert(cpu, followed);
        let mut above = self.above_carrier();
        above.slots.extend(gone.iter().filter(|_| self.carries_on(cpu)));
        let outcome = self.channels_in_time_beneath(&above, steps);
        let leaving = match &outcome {
            Ok(()) => gone.iter().map(Slots::load).collect(),
            Err(_) => loads,
        };
        if let Some(at) = at {
            leaving.iter().for_each(|load| self.cpus[at].take_from_above(load));
        }
        if let Err(refusal) = outcome {
            self.follow_as(cpu, before);
            return Err(No::Beneath(refusal));
        }
        Ok(Timetables { cpu, table: self.tables.place_of(cpu), followed: before })
    }

    /// Has `cpu` follow `followed`, without a look at the load on its tasks.
    pub(super) fn follow_as(&mut self, cpu: u16, followed: Option<Followed<Id>>) {
        match followed {
            Some(followed) => _ = self.followed.insert(cpu, followed),
            None => _ = self.followed.remove(&cpu),
        }
    }

    fn followed_mut(&mut self, cpu: u16) -> &mut Followed<Id> {
        let rules = self.tables.rules();
        self.followed.entry(cpu).or_insert_with(|| Followed::new(rules))
    }

    /// Returns whether the channels' threads run on `cpu`.
    fn carries_on(&self, cpu: u16) -> bool {
        self.carried.as_ref().is_some_and(|carried| carried.carrier().cpu == Some(cpu))
    }
}

/// The reason why a reservation is not added.
enum No {
    /// There is no table, or no handover to it.
    Table(Failed),
    /// A task or channel beneath the slots would be late.
    Beneath(Box<Refusal>),
}

/// Returns the elements of `all` that are not in `others`, counting repetitions.
fn difference(all: &[Slots], others: &[Slots]) -> Vec<Slots> {
    let mut others = others.to_vec();
    let is_more = |slots: &&Slots| match others.iter().position(|other| other == *slots) {
        Some(at) => {
            others.swap_remove(at);
            false
        }
        None => true,
    };
    all.iter().filter(is_more).copied().collect()
}
