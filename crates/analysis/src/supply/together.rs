//! Reservations that begin together: which CPU's timetable holds each.

use alloc::boxed::Box;
use alloc::vec::Vec;

use punctual_model::{Reservation, Timetable};
use thiserror::Error;

use super::roster::{Failed, Rules, refusal};
use crate::offer::Axis;
use crate::verdict::Refusal;

/// A reservation, and the one CPU that it is bound to, as the kernel counts them; `None`: any.
pub type Wanted = (Reservation, Option<u16>);

/// The timetable of one CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The CPU, as the kernel counts them.
    pub cpu: u16,
    /// The positions of those that it holds. The table's owners are positions in this list.
    pub holds: Vec<usize>,
    /// Its slots.
    pub table: Timetable,
}

/// No table of any CPU holds one of them beside the others.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("CPU {cpu}: {refusal}")]
pub struct NotPlaced {
    /// The position of the one for which there is no room.
    pub at: usize,
    /// The CPU that came nearest.
    pub cpu: u16,
    /// What failed there, and what would fit.
    pub refusal: Box<Refusal>,
}

/// Finds a table for each: first for those that are bound to a CPU, then for the others, each in order on the first
/// of `cpus` on which a table of all that is there exists.
///
/// # Errors
/// The first for which there is none. (First fit may miss a way to place all.)
///
/// # Panics
/// If one of them is not bound and there is no CPU.
pub fn place(wanted: &[Wanted], cpus: &[u16], rules: Rules) -> Result<Vec<Table>, NotPlaced> {
    let mut tables: Vec<Table> = Vec::new();
    let bound = (0..wanted.len()).filter(|&at| wanted[at].1.is_some());
    let free = (0..wanted.len()).filter(|&at| wanted[at].1.is_none());
    for at in bound.chain(free) {
        let own = wanted[at].1;
        let candidates = own.as_ref().map_or(cpus, core::slice::from_ref);
        let tried = candidates.iter().map(|&cpu| (cpu, with(&tables, wanted, cpu, at, rules)));
        let mut nearest: Option<NotPlaced> = None;
        let mut found = None;
        for (cpu, outcome) in tried {
            match outcome {
                Ok(table) => {
                    found = Some(table);
                    break;
                }
                Err(refusal) => {
                    let offered =
                        |one: &Refusal| one.offers.along("", Axis::Budget).map(|offer| offer.to);
                    let better = nearest
                        .as_ref()
                        .is_none_or(|old| offered(&refusal) > offered(&old.refusal));
                    if better {
                        nearest = Some(NotPlaced { at, cpu, refusal });
                    }
                }
            }
        }
        let Some(table) = found else { return Err(nearest.expect("there is a CPU")) };
        tables.retain(|old| old.cpu != table.cpu);
        tables.push(table);
    }
    Ok(tables)
}

/// The table of `cpu` with the one at `at`, too.
fn with(
    tables: &[Table],
    wanted: &[Wanted],
    cpu: u16,
    at: usize,
    rules: Rules,
) -> Result<Table, Box<Refusal>> {
    let here = tables.iter().find(|table| table.cpu == cpu);
    let mut holds = here.map_or(Vec::new(), |table| table.holds.clone());
    holds.push(at);
    let all: Vec<Reservation> = holds.iter().map(|&at| wanted[at].0).collect();
    match rules.together(&all) {
        Ok(table) => Ok(Table { cpu, holds, table }),
        Err(failed) => {
            let offer = match failed {
                Failed::TooMany => None,
                _ => rules.largest_beside(&all),
            };
            Err(refusal(wanted[at].0, &failed, offer))
        }
    }
}
