//! Reservations that begin together: the choice of the CPU whose timetable holds each.

use alloc::boxed::Box;
use alloc::vec::Vec;

use punctual_model::{Reservation, Slot, Timetable};
use thiserror::Error;

use super::extend::without;
use super::followed::{Failed, Rules, refusal};
use super::timetable::Table;
use crate::offer::Axis;
use crate::steps::Steps;
use crate::verdict::Refusal;

/// A reservation, and the CPU that it is bound to, by the kernel's number; `None` for any.
pub type Wanted = (Reservation, Option<u16>);

/// The error if no CPU's table holds a reservation beside the others.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("CPU {cpu}: {refusal}")]
pub struct NotPlaced {
    /// The CPU that came nearest.
    pub cpu: u16,
    /// The failed test there, and what would fit.
    pub refusal: Box<Refusal>,
}

/// A new table for all reservations of a CPU, the last of which has no name yet.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) cpu: u16,
    all: Vec<Reservation>,
    table: Timetable,
}

/// The table of a CPU, as it was among all tables.
#[derive(Clone, Debug)]
pub(crate) struct Place<Id> {
    at: usize,
    table: Table<Id>,
    reservations: Vec<Reservation>,
}

/// The timetables of several CPUs that are not followed yet. Each is built for all its reservations
/// at once.
#[derive(Clone, Debug)]
pub struct Tables<Id = usize> {
    rules: Rules,
    tables: Vec<Table<Id>>,
    /// The reservations of each table.
    reservations: Vec<Vec<Reservation>>,
}

impl<Id: Copy + Eq> Tables<Id> {
    /// Starts without tables.
    pub fn new(rules: Rules) -> Self {
        Self { rules, tables: Vec::new(), reservations: Vec::new() }
    }

    /// Returns the rules by which tables are built.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// Returns the tables, one for each CPU that has reservations.
    pub fn all(&self) -> &[Table<Id>] {
        &self.tables
    }

    /// Returns the table that holds `id`.
    pub fn of(&self, id: Id) -> Option<&Table<Id>> {
        self.tables.iter().find(|table| table.holds.contains(&id))
    }

    /// Returns all reservations on the CPUs that `is_asked` for, each with its table and its owner
    /// there.
    pub(crate) fn held(
        &self,
        is_asked: impl Fn(u16) -> bool,
    ) -> impl Iterator<Item = (Id, &Table<Id>, u32, Reservation)> {
        let tables = self.tables.iter().zip(&self.reservations);
        tables.filter(move |(table, _)| is_asked(table.cpu)).flat_map(|(table, reservations)| {
            let all = table.holds.iter().zip(0..).zip(reservations);
            all.map(move |((&id, owner), &reservation)| (id, table, owner, reservation))
        })
    }

    /// Adds `reservation` to the first of `cpus` on which there is a table with it beside the
    /// existing ones, and returns that CPU.
    ///
    /// # Errors
    /// Fails if there is no such CPU; then nothing changes.
    ///
    /// # Panics
    /// Panics if `cpus` is empty.
    pub fn add(
        &mut self,
        id: Id,
        reservation: Reservation,
        cpus: &[u16],
        steps: &mut Steps,
    ) -> Result<u16, NotPlaced> {
        let found = self.find(reservation, cpus, steps)?;
        let cpu = found.cpu;
        self.put(id, found);
        Ok(cpu)
    }

    /// Finds what [`Self::add`] adds.
    pub(crate) fn find(
        &self,
        reservation: Reservation,
        cpus: &[u16],
        steps: &mut Steps,
    ) -> Result<Found, NotPlaced> {
        let offered = |one: &Refusal| one.offers.along("", Axis::Budget).map(|offer| offer.to);
        let mut nearest: Option<NotPlaced> = None;
        for &cpu in cpus {
            let here = self.position_of(cpu);
            let mut all = here.map_or(Vec::new(), |at| self.reservations[at].clone());
            all.push(reservation);
            match self.rules.together(&all, steps) {
                Ok(table) => return Ok(Found { cpu, all, table }),
                Err(failed) => {
                    let offer = match failed {
                        Failed::TooMany => None,
                        _ => self.rules.largest_beside(&all, steps),
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

    /// Puts a new table in place of the former one of its CPU, with `id` as its last reservation.
    pub(crate) fn put(&mut self, id: Id, Found { cpu, all, table }: Found) {
        let mut holds = self.position_of(cpu).map_or(Vec::new(), |at| self.forget(at));
        holds.push(id);
        self.tables.push(Table { cpu, holds, table });
        self.reservations.push(all);
    }

    /// Returns a copy of the table of `cpu`, if it has one.
    pub(crate) fn place_of(&self, cpu: u16) -> Option<Place<Id>> {
        let at = self.position_of(cpu)?;
        let (table, reservations) = (self.tables[at].clone(), self.reservations[at].clone());
        Some(Place { at, table, reservations })
    }

    /// Restores the table of `cpu`, provided that all others are as they were.
    pub(crate) fn restore(&mut self, cpu: u16, before: Option<Place<Id>>) {
        self.position_of(cpu).map(|at| self.forget(at));
        if let Some(Place { at, table, reservations }) = before {
            self.tables.insert(at, table);
            self.reservations.insert(at, reservations);
        }
    }

    /// Removes the reservation of `id`. The slots of the others stay in place.
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

    /// Removes the table of a CPU, and returns it with its reservations.
    pub(crate) fn take(&mut self, cpu: u16) -> Option<(Vec<(Id, Reservation)>, Timetable)> {
        let at = self.position_of(cpu)?;
        let reservations = self.reservations.remove(at);
        let Table { holds, table, .. } = self.tables.remove(at);
        Some((holds.into_iter().zip(reservations).collect(), table))
    }

    fn position_of(&self, cpu: u16) -> Option<usize> {
        self.tables.iter().position(|table| table.cpu == cpu)
    }

    /// Drops the table at a position, and returns the names that it held.
    fn forget(&mut self, at: usize) -> Vec<Id> {
        self.reservations.remove(at);
        self.tables.remove(at).holds
    }
}

/// Finds a table for each reservation: first for those that are bound to a CPU, then for the
/// others, each in order on the first of `cpus` on which there is a table with it beside the
/// existing ones. Tables hold positions in `wanted`.
///
/// # Errors
/// Returns the refusal of the first reservation without a table. (First fit may miss a placement of
/// all.)
///
/// # Panics
/// Panics if a reservation is not bound and `cpus` is empty.
pub fn place(wanted: &[Wanted], cpus: &[u16], rules: Rules) -> Result<Vec<Table>, NotPlaced> {
    let steps = &mut Steps::default();
    let mut tables = Tables::new(rules);
    for at in bound_first(wanted.iter().map(|(_, own)| *own)) {
        let (reservation, own) = &wanted[at];
        let candidates = own.as_ref().map_or(cpus, core::slice::from_ref);
        tables.add(at, *reservation, candidates, steps)?;
    }
    Ok(tables.tables)
}

/// Returns the positions of the reservations that are bound to a CPU, and then of the others: the
/// order of their placement.
pub(crate) fn bound_first(
    own: impl Iterator<Item = Option<u16>> + Clone,
) -> impl Iterator<Item = usize> {
    let those =
        |bound| move |(at, own): (usize, Option<u16>)| (own.is_some() == bound).then_some(at);
    own.clone().enumerate().filter_map(those(true)).chain(own.enumerate().filter_map(those(false)))
}
