//! Adding a reservation to a timetable that is being followed, or removing one.
//!
//! The slots of all others stay in place, so their guarantee holds at whatever instant the new
//! table replaces the old one: every window of theirs has the same slots in both.
//! (docs/reservations.md, Theorem 4.)
//!
//! # Assumptions and answers
//! As in [`super::timetable`]. The newcomer is served b in every p, where p is the cycle, a whole
//! part of it or a whole multiple; the least b is that of `harmonic`. It fits if the time that is
//! free in *every* repetition of p holds b, cut into pieces if necessary. That can fail although a
//! newly built table would fit.

use alloc::vec::Vec;

use punctual_model::{Duration, Reservation, Slot, Timetable};

use super::harmonic::{Wanted, least_serving};
use super::placement::take;
use super::timetable::Limits;
use crate::steps::Steps;

/// The numbers of parts and multiples of the cycle that are tried.
const PARTS: u64 = 64;
const MULTIPLES: u64 = 16;

/// Returns `running` with slots for `reservation` under the name `owner`, or `None` if it does not
/// fit beside the existing slots, or the steps do not suffice. Tries at most 80 periods.
pub fn extended(
    running: &Timetable,
    owner: u32,
    reservation: Reservation,
    limits: Limits,
    steps: &mut Steps,
) -> Option<Timetable> {
    let wanted =
        Wanted { budget: reservation.budget().as_nanos(), period: reservation.period().as_nanos() };
    let cycle = running.cycle().as_nanos();
    let parts = (1..=PARTS).filter(|part| cycle.is_multiple_of(*part)).map(|part| cycle / part);
    let multiples = (2..=MULTIPLES).filter_map(|times| cycle.checked_mul(times));
    let switch = limits.context_switch.as_nanos();
    let mut choices: Vec<(u128, u64, u64)> = parts
        .chain(multiples)
        .filter(|period| *period <= wanted.period)
        .map(|period| {
            let budget = least_serving(wanted, period);
            // In 2⁻⁶⁴ of a CPU, rounded up: comparable across periods.
            let taken = u128::from(budget) + u128::from(switch);
            ((taken << 64).div_ceil(u128::from(period)), period, budget)
        })
        .collect();
    choices.sort_unstable_by_key(|(cost, period, _)| (*cost, u64::MAX - period));
    choices
        .into_iter()
        .find_map(|(_, period, budget)| placed(running, owner, period, budget, limits, steps))
}

/// Returns `running` without the slots of `owner`.
pub fn without(running: &Timetable, owner: u32) -> Timetable {
    let slots = running.slots().iter().filter(|slot| slot.owner != owner).copied();
    Timetable::new(running.cycle(), slots.collect()).expect("fewer slots overlap no more")
}

fn placed(
    running: &Timetable,
    owner: u32,
    period: u64,
    budget: u64,
    limits: Limits,
    steps: &mut Steps,
) -> Option<Timetable> {
    let old = running.cycle().as_nanos();
    let cycle = old.max(period);
    let (times, repeats) = (cycle / old, cycle / period);
    if running.slots().len() as u64 * times + repeats > limits.most_slots as u64 {
        return None;
    }
    let mut slots: Vec<Slot> = (0..times)
        .flat_map(|by| {
            let shift = running.cycle() * by;
            running.slots().iter().map(move |slot| Slot { start: slot.start + shift, ..*slot })
        })
        .collect();
    steps.take(slots.len()).ok()?;
    let mut free = free_in_every(&slots, cycle, period);
    let mut pieces = Vec::new();
    let piece = |start, end| pieces.push((start, end));
    take(&mut free, budget, limits.context_switch.as_nanos(), piece, steps).ok()?;
    for by in 0..repeats {
        slots.extend(pieces.iter().map(|(start, end)| Slot {
            start: Duration::from_nanos(start + by * period),
            length: Duration::from_nanos(end - start),
            owner,
        }));
    }
    if slots.len() > limits.most_slots {
        return None;
    }
    slots.sort_unstable_by_key(|slot| slot.start);
    // Taken from free time only, so they do not overlap.
    Timetable::new(Duration::from_nanos(cycle), slots).ok()
}

/// Returns the stretches of `[0, period)` that no slot covers in any repetition.
fn free_in_every(slots: &[Slot], cycle: u64, period: u64) -> Vec<(u64, u64)> {
    let mut taken: Vec<(u64, u64)> = Vec::new();
    for slot in slots {
        let (mut from, end) = (slot.start.as_nanos(), slot.end().as_nanos());
        debug_assert!(end <= cycle);
        while from < end {
            let upto = end.min((from / period + 1) * period);
            taken.push((from % period, from % period + (upto - from)));
            from = upto;
        }
    }
    taken.sort_unstable();
    let (mut free, mut from) = (Vec::new(), 0);
    for (start, end) in taken {
        if start > from {
            free.push((from, start));
        }
        from = from.max(end);
    }
    if from < period {
        free.push((from, period));
    }
    free
}
