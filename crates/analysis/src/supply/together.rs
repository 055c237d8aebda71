//! Reservations that begin together: which CPU's timetable holds each.

use alloc::boxed::Box;
use alloc::vec::Vec;

use punctual_model::{Reservation, Slot, Timetable};
use thiserror::Error;

use super::extend::without;
use super::followed::{Failed, Rules, refusal};
use crate::offer::Axis;
use crate::verdict::Refusal;

/// A reservation, and the one CPU that it is bound to, as the kernel counts them; `None`: any.
pub type Wanted = (Reservation, Option<u16>);

/// The timetable of one CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table<Id = usize> {
    /// The CPU, as the kernel counts them.
    pub cpu: u16,
    /// Those that it holds. The table's owners are positions in this list.
    pub holds: Vec<Id>,
    /// Its slots.
    pub table: Timetable,
}

/// No table of any CPU holds one of them beside the others.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("CPU {cpu}: {refusal}")]
pub struct NotPlaced {
    /// The CPU that came nearest.
    pub cpu: u16,
    /// What failed there, and what would fit.
    pub refusal: Box<Refusal>,
}

/// The timetables of several CPUs, of which none is followed yet: each is built for all that it holds.
#[derive(Clone, Debug)]
pub struct Tables<Id = usize> {
    rules: Rules,
    tables: Vec<Table<Id>>,
    /// Of those that each table holds.
    reservations: Vec<Vec<Reservation>>,
}

impl<Id: Copy + Eq> Tables<Id> {
    /// Holds nothing yet.
    pub fn new(rules: Rules) -> Self {
        Self { rules, tables: Vec::new(), reservations: Vec::new() }
    }

    /// Returns the rules by which tables are built.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// Returns the tables, of each CPU that holds something one.
    pub fn all(&self) -> &[Table<Id>] {
        &self.tables
    }

    /// Finds the table that holds `id`.
    pub fn of(&self, id: Id) -> Option<&Table<Id>> {
        self.tables.iter().find(|table| table.holds.contains(&id))
    }

    /// Returns all that is held: by which table, as which of its owners, and what.
    pub(crate) fn held(&self) -> impl Iterator<Item = (Id, &Table<Id>, u32, Reservation)> {
        self.tables.iter().zip(&self.reservations).flat_map(|(table, reservations)| {
            let all = table.holds.iter().zip(0..).zip(reservations);
            all.map(move |((&id, owner), &reservation)| (id, table, owner, reservation))
        })
    }

    /// Has the first of `cpus` hold `reservation` on which a table of all that is there exists; returns that CPU.
    ///
    /// # Errors
    /// There is none; nothing is changed.
    ///
    /// # Panics
    /// If there is no CPU.
    pub fn add(
        &mut self,
        id: Id,
        reservation: Reservation,
        cpus: &[u16],
    ) -> Result<u16, NotPlaced> {
        let offered = |one: &Refusal| one.offers.along("", Axis::Budget).map(|offer| offer.to);
        let mut nearest: Option<NotPlaced> = None;
        for &cpu in cpus {
            let here = self.tables.iter().position(|table| table.cpu == cpu);
            let mut all = here.map_or(Vec::new(), |at| self.reservations[at].clone());
            all.push(reservation);
            match self.rules.together(&all) {
                Ok(table) => {
                    let mut holds = here.map_or(Vec::new(), |at| self.forget(at));
                    holds.push(id);
                    self.tables.push(Table { cpu, holds, table });
                    self.reservations.push(all);
                    return Ok(cpu);
                }
                Err(failed) => {
                    let offer = match failed {
                        Failed::TooMany => None,
                        _ => self.rules.largest_beside(&all),
                    };
                    let refusal = refusal(reservation, &failed, offer);
                    let is_nearer = |old: &NotPlaced| offered(&refusal) > offered(&old.refusal);
                    if nearest.as_ref().is_none_or(is_nearer) {
                        nearest = Some(NotPlaced { cpu, refusal });
                    }
                }
            }
        }
        Err(nearest.expect("there is a CPU"))
    }

    /// Takes out what `id` holds. The slots of the others stay where they are.
    pub fn remove(&mut self, id: Id) {
        let holding = |table: &Table<Id>| table.holds.iter().position(|&other| other == id);
        let found =
            self.tables.iter().enumerate().find_map(|(at, table)| Some((at, holding(table)?)));
        let Some((at, owner)) = found else { return };
        let Table { holds, table, .. } = &mut self.tables[at];
        holds.remove(owner);
        self.reservations[at].remove(owner);
        if holds.is_empty() {
            self.forget(at);
            return;
        }
        let rest = without(table, owner as u32);
        let renamed = rest.slots().iter().map(|slot| {
            let behind = slot.owner > owner as u32;
            Slot { owner: slot.owner - u32::from(behind), ..*slot }
        });
        *table = Timetable::new(rest.cycle(), renamed.collect()).expect("the same slots");
    }

    /// Takes the table of a CPU out, with what it holds.
    pub(crate) fn take(&mut self, cpu: u16) -> Option<(Vec<(Id, Reservation)>, Timetable)> {
        let at = self.tables.iter().position(|table| table.cpu == cpu)?;
        let reservations = self.reservations.remove(at);
        let Table { holds, table, .. } = self.tables.remove(at);
        Some((holds.into_iter().zip(reservations).collect(), table))
    }

    /// Forgets the table at a position, and returns what it held.
    fn forget(&mut self, at: usize) -> Vec<Id> {
        self.reservations.remove(at);
        self.tables.remove(at).holds
    }
}

/// Finds a table for each: first for those that are bound to a CPU, then for the others, each in order on the first
/// of `cpus` on which a table of all that is there exists. Tables hold positions in `wanted`.
///
/// # Errors
/// Of the first for which there is none. (First fit may miss a way to place all.)
///
/// # Panics
/// If one of them is not bound and there is no CPU.
pub fn place(wanted: &[Wanted], cpus: &[u16], rules: Rules) -> Result<Vec<Table>, NotPlaced> {
    let mut tables = Tables::new(rules);
    for at in bound_first(wanted.iter().map(|(_, own)| *own)) {
        let (reservation, own) = &wanted[at];
        let candidates = own.as_ref().map_or(cpus, core::slice::from_ref);
        tables.add(at, *reservation, candidates)?;
    }
    Ok(tables.tables)
}

/// Returns the positions of those that are bound to a CPU, and then of the others: the order in which they find their
/// tables.
pub(crate) fn bound_first(
    own: impl Iterator<Item = Option<u16>> + Clone,
) -> impl Iterator<Item = usize> {
    let those =
        |bound| move |(at, own): (usize, Option<u16>)| (own.is_some() == bound).then_some(at);
    own.clone().enumerate().filter_map(those(true)).chain(own.enumerate().filter_map(those(false)))
}
