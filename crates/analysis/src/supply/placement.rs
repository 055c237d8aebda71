//! The placement of each serving in the cycle.
//!
//! Shorter periods go first. Every period divides the next, so the placed slots repeat in the
//! period of the next reservation, and so does the free time: its servings can be at the same
//! offsets each time. A serving takes the smallest free stretch that holds all of it, or else the
//! largest ones until it is complete. Without switching costs that fails only if the sum of b/p is
//! above one (docs/reservations.md, Lemma 4).

use alloc::vec::Vec;

use super::harmonic::Served;
use crate::steps::{OutOfSteps, Steps};

/// A slot `[start, end)` in the cycle; its first `switch` is lost to switching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) owner: usize,
}

/// The reason why there is no placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// There is not enough free time, including the switches that splitting costs.
    Full,
    /// There would be more slots than allowed.
    TooManySlots,
    /// The search was cut short.
    OutOfSteps,
}

impl From<OutOfSteps> for NoPlace {
    fn from(OutOfSteps: OutOfSteps) -> Self {
        Self::OutOfSteps
    }
}

/// Returns the cycle and its slots, in order.
pub(super) fn place(
    served: &[Served],
    switch: u64,
    most_slots: usize,
    steps: &mut Steps,
) -> Result<(u64, Vec<Placed>), NoPlace> {
    let mut order: Vec<usize> = (0..served.len()).collect();
    order.sort_by_key(|&at| (served[at].period, u64::MAX - served[at].budget));
    let mut cycle = order.first().map_or(1, |&at| served[at].period);
    let mut slots: Vec<Placed> = Vec::new();
    let mut free = Vec::from([(0, cycle)]);
    for owner in order {
        let Served { budget, period } = served[owner];
        let times = period / cycle;
        if slots.len() as u64 * times > most_slots as u64 {
            return Err(NoPlace::TooManySlots);
        }
        slots = repeat(&slots, times, |slot, by| Placed {
            start: slot.start + by * cycle,
            end: slot.end + by * cycle,
            ..slot
        });
        free = joined(repeat(&free, times, |(a, b), by| (a + by * cycle, b + by * cycle)));
        cycle = period;
        steps.take(slots.len() + free.len())?;
        let mut push = |start, end| slots.push(Placed { start, end, owner });
        take(&mut free, budget, switch, &mut push, steps)?;
        if slots.len() > most_slots {
            return Err(NoPlace::TooManySlots);
        }
    }
    slots.sort_unstable_by_key(|slot| slot.start);
    Ok((cycle, slots))
}

fn repeat<T: Copy>(what: &[T], times: u64, shifted: impl Fn(T, u64) -> T) -> Vec<T> {
    (0..times)
        .flat_map(|by| what.iter().map(move |&one| (one, by)))
        .map(|(one, by)| shifted(one, by))
        .collect()
}

/// Merges adjacent stretches.
fn joined(free: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    let mut joined: Vec<(u64, u64)> = Vec::with_capacity(free.len());
    for (start, end) in free {
        match joined.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => joined.push((start, end)),
        }
    }
    joined
}

/// Takes `budget` out of `free`, each piece with a switch of its own.
pub(super) fn take(
    free: &mut Vec<(u64, u64)>,
    budget: u64,
    switch: u64,
    mut piece: impl FnMut(u64, u64),
    steps: &mut Steps,
) -> Result<(), NoPlace> {
    let mut left = budget;
    while left > 0 {
        steps.take(2 * free.len())?;
        let length = |at: &usize| free[*at].1 - free[*at].0;
        let whole = (0..free.len())
            .filter(|at| length(at) >= left.saturating_add(switch))
            .min_by_key(length);
        // The first of equal ones: `max_by_key` returns the last, so the search goes from the end.
        let largest = || (0..free.len()).rev().filter(|at| length(at) > switch).max_by_key(length);
        let at = whole.or_else(largest).ok_or(NoPlace::Full)?;
        let (start, end) = free[at];
        let used = left.saturating_add(switch).min(end - start);
        piece(start, start + used);
        left -= used - switch;
        if start + used == end {
            free.remove(at);
        } else {
            free[at].0 = start + used;
        }
    }
    Ok(())
}
