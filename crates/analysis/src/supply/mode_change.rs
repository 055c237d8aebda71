//! The change from one timetable to another without a window that gets less than promised.
//!
//! # The question
//! Table A is followed until an instant S, table B from S on. Owners of both were promised X in
//! `[T, T + Y)` for every T. Windows before S lie in A, and windows from S on in B, so only those
//! that span S are in question. Which S, and which phase of B at S, leave each of them its X?
//!
//! # The test
//! For each owner of both, `A's useful time in [T, S) + B's in [S, T + Y) ≥ X` for every T in
//! `(S − Y, S)`. The left side is piecewise linear in T, so its least value is at an edge of A's
//! useful time, at an edge of B's less Y, or at an end: these are all checked, exactly.
//! (docs/reservations.md, Theorem 5.)
//!
//! # Assumptions and answers
//! As in [`super::timetable`]. The previous mode change was at least Y ago, so that no window spans
//! two ([`super::followed`] ensures that). S is the end of a slot of A, and B begins there with one
//! of its slots, so that no slot is cut. At most [`TRIES`] pairs are tried, the earliest S first:
//! `None` means that none of these is possible.

use alloc::vec::Vec;

use punctual_model::{Duration, Instant, Reservation, Service, Timetable};

use crate::steps::Steps;

/// The number of pairs of an instant and a phase that are tried.
pub const TRIES: usize = 64 * 64;
const INSTANTS: usize = 64;
/// The steps to examine one window: four searches among the slots of an owner.
const STEPS_OF_A_WINDOW: usize = 16;
const PHASES: usize = TRIES / INSTANTS;

/// A timetable with the start of its first cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchored {
    /// The slots.
    pub table: Timetable,
    /// The instant of offset zero.
    pub origin: Instant,
}

/// An owner of both tables, by the same name, with its promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Continuing {
    /// Its name in the slots of both.
    pub owner: u32,
    /// The promise in every window that starts at `since` or later.
    pub reservation: Reservation,
    /// The start of the promise.
    pub since: Instant,
}

/// Returns the first instant found, not before `earliest`, from which `new` can be followed in
/// place of `old`, and `new` with its origin.
pub fn mode_change(
    old: &Anchored,
    new: &Timetable,
    owners: &[Continuing],
    context_switch: Service,
    earliest: Instant,
    steps: &mut Steps,
) -> Option<(Instant, Anchored)> {
    let switch = context_switch.as_nanos();
    let phases: Vec<u64> = new.slots().iter().map(|slot| slot.start.as_nanos()).collect();
    let stride = phases.len().div_ceil(PHASES).max(1);
    let owners = sides(&old.table, new, owners, switch);
    for at in ends_of_slots(old, earliest).take(INSTANTS) {
        for phase in phases.iter().step_by(stride) {
            // B has run for `phase` at S; the origin may lie before the clock's own.
            let Some(origin) = at.as_nanos().checked_sub(*phase) else { continue };
            if owners
                .iter()
                .all(|side| side.keeps(old.origin.as_nanos(), origin, at.as_nanos(), steps))
            {
                let origin = Instant::from_nanos(origin);
                return Some((at, Anchored { table: new.clone(), origin }));
            }
        }
    }
    None
}

/// Returns the first instant found for a table whose phase is given: its origin is that of `old`,
/// because the slots of all but `owners` are the same in both. At S no slot of `owners` in it is
/// cut.
pub fn mode_change_in_place(
    old: &Anchored,
    new: &Timetable,
    owners: &[Continuing],
    context_switch: Service,
    earliest: Instant,
    steps: &mut Steps,
) -> Option<Instant> {
    let sides = sides(&old.table, new, owners, context_switch.as_nanos());
    let origin = old.origin.as_nanos();
    ends_of_slots(old, earliest).take(INSTANTS).find(|at| {
        let offset = at.saturating_since(old.origin) % new.cycle();
        let cut = new.slots().iter().any(|slot| {
            slot.start < offset
                && offset < slot.end()
                && owners.iter().any(|one| one.owner == slot.owner)
        });
        !cut && sides.iter().all(|side| side.keeps(origin, origin, at.as_nanos(), steps))
    })
}

/// An owner with its time in both tables.
struct Side {
    one: Continuing,
    a: Useful,
    b: Useful,
}

fn sides(old: &Timetable, new: &Timetable, owners: &[Continuing], switch: u64) -> Vec<Side> {
    let side = |one: &Continuing| Side {
        one: *one,
        a: Useful::new(old, one.owner, switch),
        b: Useful::new(new, one.owner, switch),
    };
    owners.iter().map(side).collect()
}

/// Returns the ends of slots at or after `earliest`, in order; the ends of cycles if there are no
/// slots.
fn ends_of_slots(old: &Anchored, earliest: Instant) -> impl Iterator<Item = Instant> + '_ {
    let cycle = old.table.cycle();
    let first = earliest.saturating_since(old.origin) / cycle;
    let ends = move |n: u64| {
        let start = old.origin.saturating_add(cycle.checked_mul(n).unwrap_or(Duration::MAX));
        let ends = old.table.slots().iter().map(|slot| slot.end());
        let whole = old.table.slots().is_empty().then_some(cycle);
        ends.chain(whole).map(move |end| start.saturating_add(end))
    };
    (first..first.saturating_add(INSTANTS as u64)).flat_map(ends).filter(move |at| *at >= earliest)
}

impl Side {
    /// Returns whether the owner certainly gets its budget in each window that spans the mode
    /// change.
    fn keeps(&self, a_origin: u64, b_origin: u64, mode_change: u64, steps: &mut Steps) -> bool {
        let Self { one, a, b } = self;
        let (budget, period) = (one.reservation.budget(), one.reservation.period().as_nanos());
        let first = one.since.as_nanos().max(mode_change.saturating_sub(period)).max(a_origin);
        let (old_end, new_start) =
            (a.until(mode_change - a_origin), b.until(mode_change - b_origin));
        let gets = |from: u64| {
            let old = old_end - a.until(from - a_origin);
            old + (b.until(from + period - b_origin) - new_start)
        };
        let edges_of_old =
            a.edges_between(first.min(mode_change) - a_origin, mode_change - a_origin);
        let edges_of_new = b.edges_between(mode_change - b_origin, mode_change + period - b_origin);
        edges_of_old
            .map(|edge| edge + a_origin)
            .chain(edges_of_new.map(|edge| (edge + b_origin).saturating_sub(period)))
            .chain([first, mode_change])
            .filter(|from| (first..=mode_change).contains(from))
            .all(|from| steps.take(STEPS_OF_A_WINDOW).is_ok() && gets(from) >= budget.as_nanos())
    }
}

/// An owner's time of service, without the switches at the start of its slots.
struct Useful {
    cycle: u64,
    /// `(start, end, useful time before start)` in the cycle.
    stretches: Vec<(u64, u64, u64)>,
    in_a_cycle: u64,
}

impl Useful {
    fn new(table: &Timetable, owner: u32, switch: u64) -> Self {
        let (mut stretches, mut in_a_cycle) = (Vec::new(), 0);
        for slot in table.slots().iter().filter(|slot| slot.owner == owner) {
            let (start, end) =
                (slot.start.as_nanos().saturating_add(switch), slot.end().as_nanos());
            if start < end {
                stretches.push((start, end, in_a_cycle));
                in_a_cycle += end - start;
            }
        }
        Self { cycle: table.cycle().as_nanos(), stretches, in_a_cycle }
    }

    /// Returns the useful time from offset zero to `offset`, over any number of cycles.
    fn until(&self, offset: u64) -> u64 {
        let (cycles, offset) = (offset / self.cycle, offset % self.cycle);
        let next = self.stretches.partition_point(|(_, end, _)| *end <= offset);
        let here = match self.stretches.get(next) {
            Some((start, _, before)) => before + offset.saturating_sub(*start),
            None => self.in_a_cycle,
        };
        cycles * self.in_a_cycle + here
    }

    fn edges_between(&self, from: u64, to: u64) -> impl Iterator<Item = u64> + '_ {
        (from / self.cycle..=to / self.cycle).flat_map(move |n| {
            let both = |&(start, end, _): &(u64, u64, u64)| [start, end];
            self.stretches.iter().flat_map(both).map(move |edge| n * self.cycle + edge)
        })
    }
}
