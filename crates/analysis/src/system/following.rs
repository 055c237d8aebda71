//! Reservations that join, change and leave while the timetable of their CPU is followed.
//!
//! The way from one table to another is data ([`Followed`]); whether it may be gone is decided here: within the share of
//! timetables, beside the time constraints that stand, and with the tasks and channels beneath the slots in time.
//!
//! # Assumptions
//! Of two tables no window of a task may see both: beneath the slots of a CPU with tasks or channels a newcomer takes
//! free time only, and a reservation does not change but for one whose slots take no more. Who admits a task on a CPU
//! waits until its last handover counts.

use alloc::boxed::Box;
use alloc::vec::Vec;

use punctual_model::{HostProfile, Instant};

use super::commands::{no_timetable, slots_of_followed};
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
    /// Describes the one timetable of a CPU, as the kernel counts them, by `rules`.
    pub fn of_timetable(cpu: u16, rules: Rules) -> Self {
        let host = HostProfile {
            slot_allowance: rules.limits.context_switch,
            ..HostProfile::ideal(cpu.saturating_add(1))
        };
        let mut system = Self::new(host, UpcallOrder::LevelOrder);
        system.tables = Tables::new(rules);
        system
    }

    /// Has the timetable of `cpu`, which holds commands, followed from `earliest` on; `None` if it holds none.
    pub fn follow(&mut self, cpu: u16, earliest: Instant) -> Option<Handover> {
        let (all, table) = self.tables.take(cpu)?;
        let followed = self.followed_mut(cpu);
        followed.begin(&all, &table, earliest);
        followed.handover(all.first()?.0)
    }

    /// Returns the table that holds `id` and from when on it is followed; `None` if none is followed that does.
    pub fn handover(&self, id: Id) -> Option<Handover> {
        self.followed.values().find_map(|followed| followed.handover(id))
    }

    /// Returns who is held by the timetable that `cpu` follows, and what each is promised.
    pub fn continuing(&self, cpu: u16) -> impl Iterator<Item = (Id, Continuing)> + '_ {
        self.followed.get(&cpu).into_iter().flat_map(Followed::held)
    }

    /// Returns what the slots take that `cpu` follows, switches included, in parts per million of it, rounded up.
    pub fn followed_ppm(&self, cpu: u16) -> u64 {
        let taken = self.followed.get(&cpu).map_or(0, |followed| followed.taken().ppm_above());
        u64::try_from(taken).unwrap_or(u64::MAX)
    }

    /// Returns the first instant from `earliest` on that cuts no slot of `id`: whoever joins in one of its slots gets
    /// the next one. `None` if no timetable is followed that holds it.
    pub fn joins_at(&self, id: Id, earliest: Instant) -> Option<Instant> {
        let followed = self.followed.values().find(|followed| followed.holds(id))?;
        Some(followed.joins_at(id, earliest))
    }

    /// Takes out what a timetable holds that is followed: which table to follow in its place, not before `earliest`.
    /// `None` if none holds it.
    pub fn leave(&mut self, id: Id, earliest: Instant) -> Option<Handover> {
        let handover = self.unseat(id, earliest)?;
        self.entries.remove(&id);
        Some(handover)
    }

    /// The same of the timetable alone. The slots of the others stay where they are.
    pub(super) fn unseat(&mut self, id: Id, earliest: Instant) -> Option<Handover> {
        let (&cpu, _) = self.followed.iter().find(|(_, followed)| followed.holds(id))?;
        self.take_slots_from_above(id);
        self.followed.get_mut(&cpu)?.leave(id, earliest)
    }

    /// Says whether `asked` fits beside what is reserved on `cpu` and the time constraints that stand there, from `now`
    /// on.
    ///
    /// # Errors
    /// What would fit.
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

    /// Says whether the timetable that `cpu` follows holds `id`.
    pub(super) fn is_seated(&self, id: Id, cpu: u16) -> bool {
        self.followed.get(&cpu).is_some_and(|followed| followed.holds(id))
    }

    /// Has the timetable of a CPU hold a reservation as `id`, which joins or has another one there; a refusal changes
    /// nothing, and offers the largest budget found for the same period, to a 256th, which was itself tried.
    pub(super) fn seat(
        &mut self,
        id: Id,
        joining: Joining<'_>,
        steps: &mut Steps,
    ) -> Result<(), Box<Refusal>> {
        self.refuse_both_back_ends(false)?;
        self.has_cpu(joining.cpu)?;
        if self.tables.all().iter().any(|table| table.cpu == joining.cpu) {
            let why =
                "it is to join others on its CPU, and their timetable is not followed yet".into();
            return Err(no_timetable(Resource::Cpu, None, why));
        }
        let Err(no) = self.try_to_seat(id, joining, steps) else { return Ok(()) };
        let asked = joining.reservation;
        let fits = |reservation| {
            let steps = &mut Steps::new(Steps::ADMISSION / 16);
            self.clone().try_to_seat(id, Joining { reservation, ..joining }, steps).is_ok()
        };
        Err(match no {
            No::Table(Failed::TooMany) => refusal(asked, &Failed::TooMany, None),
            No::Table(failed) => refusal(asked, &failed, largest(asked, fits)),
            No::Beneath(refusal) => {
                Box::new(Refusal { offers: offers(asked, largest(asked, fits)), ..*refusal })
            }
        })
    }

    fn try_to_seat(&mut self, id: Id, joining: Joining<'_>, steps: &mut Steps) -> Result<(), No> {
        let Joining { reservation, cpu, earliest, standing } = joining;
        let at = self.position_of(cpu);
        let beneath = at.is_some_and(|at| self.cpus[at].has_tasks()) || self.carries_on(cpu);
        let mut followed = self.followed_mut(cpu).clone();
        let way = followed.way(id, reservation, earliest, standing, !beneath);
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
        outcome.map_err(|refusal| {
            before.into_iter().for_each(|before| _ = self.followed.insert(cpu, before));
            No::Beneath(refusal)
        })
    }

    fn followed_mut(&mut self, cpu: u16) -> &mut Followed<Id> {
        let rules = self.tables.rules();
        self.followed.entry(cpu).or_insert_with(|| Followed::new(rules))
    }

    /// Says whether the channels' threads run on `cpu`.
    fn carries_on(&self, cpu: u16) -> bool {
        self.carried.as_ref().is_some_and(|carried| carried.carrier().cpu == Some(cpu))
    }
}

/// Why nobody is seated.
enum No {
    /// There is no table, or no way to it.
    Table(Failed),
    /// What runs beneath the slots would be late.
    Beneath(Box<Refusal>),
}

/// Returns those of `all` that are not in `others`, each as often as it is oftener there.
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
