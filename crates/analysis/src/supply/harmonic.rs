//! The choice of harmonic periods for a timetable.
//!
//! A reservation of X every Y is instead served b in every p, at the same offsets each time, with
//! `p = base·2^j ≤ Y`. Then it gets b in every window of length p, so in one of length Y, which is
//! k whole p and a rest r, it gets `k·b + max(0, r − (p − b))` ([`super::bound`], every window).
//! The least b for which that is X is
//!
//! ```text
//! b = min{ ⌈X/k⌉,  ⌈(X + p − r)/(k + 1)⌉ if that is at least p − r }
//! ```
//!
//! At `p = Y/k` it costs nothing above X/Y, and between such points the cost is least just after
//! one; so the candidates for the base are the fractions of the given periods.

use alloc::vec::Vec;

use crate::ratio::Ratio;
use crate::steps::{OutOfSteps, Steps};

/// A reservation in the search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) budget: u64,
    pub(super) period: u64,
}

/// The service in place of a reservation: `budget` in every `period`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Served {
    pub(super) budget: u64,
    pub(super) period: u64,
}

/// One way to serve all reservations.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// The service of each reservation, in the order given.
    pub(super) served: Vec<Served>,
    /// The share of the CPU that they take with one switch each time, rounded up.
    pub(super) needed: Ratio,
    /// The number of servings in a cycle.
    servings: u64,
}

/// The bases to try for each reservation, up to twice as many; if there are more, they are spread
/// evenly.
const BASES_A_RESERVATION: u64 = 96;
/// The number of reservations that give bases, those with the shortest periods.
const RESERVATIONS_WITH_BASES: usize = 32;
/// The base is not shorter than the shortest period over this. With all p at that length, k ≥ 16: a
/// cost of at most 1/16 of the request (docs/reservations.md, Theorem 2).
const FINEST: u64 = 16;
/// The number of choices kept.
const KEPT: usize = 24;
/// The steps of one trial of a period for a reservation, which takes a few divisions of 128 bits.
const STEPS_OF_A_PERIOD: usize = 4;

/// Returns the least b that gives `wanted` when served every `period`, which is at most its own.
pub(super) fn least_serving(wanted: Wanted, period: u64) -> u64 {
    let (whole, rest) = (wanted.period / period, wanted.period % period);
    let in_whole_ones = wanted.budget.div_ceil(whole);
    let unserved_rest = period - rest;
    let with_the_rest =
        (u128::from(wanted.budget) + u128::from(unserved_rest)).div_ceil(u128::from(whole) + 1);
    match u64::try_from(with_the_rest) {
        Ok(budget) if budget >= unserved_rest => budget.min(in_whole_ones),
        _ => in_whole_ones,
    }
}

/// Returns the choices that may fit, the cheapest first, and the share that the cheapest of all
/// needs, whether it fits or not.
///
/// At most 32·2·96 bases are tried, each with at most 22 longest periods.
pub(super) fn choices(
    wanted: &[Wanted],
    switch: u64,
    most_slots: u64,
    steps: &mut Steps,
) -> Result<(Vec<Choice>, Option<Ratio>), OutOfSteps> {
    let mut kept: Vec<Choice> = Vec::new();
    let mut cheapest: Option<Ratio> = None;
    // One period for all needs no splitting and the fewest slots, so it is tried in any case.
    let mut flat: Option<Choice> = None;
    for base in bases(wanted) {
        if let Some(choice) = choose(wanted, base, 0, switch, most_slots, steps)?
            && flat.as_ref().is_none_or(|least| choice.needed < least.needed)
        {
            flat = Some(choice);
        }
        let Some(choice) = halving(wanted, base, switch, most_slots, steps)? else { continue };
        cheapest = Some(cheapest.map_or(choice.needed, |least| least.min(choice.needed)));
        if choice.needed > Ratio::ONE {
            // Rounded up: a choice of exactly one is still kept.
            continue;
        }
        let key = (choice.needed, choice.servings);
        let at = kept.partition_point(|other| (other.needed, other.servings) <= key);
        if at < KEPT {
            kept.insert(at, choice);
            kept.truncate(KEPT);
        }
    }
    kept.extend(flat.filter(|choice| choice.needed <= Ratio::ONE));
    Ok((kept, cheapest))
}

fn bases(wanted: &[Wanted]) -> Vec<u64> {
    let mut periods: Vec<u64> = wanted.iter().map(|one| one.period).collect();
    periods.sort_unstable();
    periods.dedup();
    let Some(&shortest) = periods.first() else { return Vec::new() };
    let mut bases = Vec::new();
    for &period in periods.iter().take(RESERVATIONS_WITH_BASES) {
        let coarsest = period.div_ceil(shortest);
        let finest = (period / shortest).saturating_mul(FINEST).max(coarsest);
        let stride = ((finest - coarsest) / BASES_A_RESERVATION).max(1);
        let parts = (0..2 * BASES_A_RESERVATION)
            .map(|n| coarsest.saturating_add(n.saturating_mul(stride)))
            .take_while(|parts| *parts <= finest && *parts <= period);
        bases.extend(parts.map(|parts| period / parts));
    }
    bases.sort_unstable();
    bases.dedup();
    bases
}

/// Returns the choice on `base`. If it makes more than `most_slots`, the longest permitted period
/// is halved until it does not.
fn halving(
    wanted: &[Wanted],
    base: u64,
    switch: u64,
    most_slots: u64,
    steps: &mut Steps,
) -> Result<Option<Choice>, OutOfSteps> {
    let most = wanted.iter().map(|one| one.period / base).max().unwrap_or(1);
    for longest in (0..=most.ilog2().min(21)).rev() {
        if let Some(choice) = choose(wanted, base, longest, switch, most_slots, steps)? {
            return Ok(Some(choice));
        }
    }
    Ok(None)
}

/// Returns the cheapest p for each reservation on `base`, none longer than `base·2^longest`.
fn choose(
    wanted: &[Wanted],
    base: u64,
    longest: u32,
    switch: u64,
    most_slots: u64,
    steps: &mut Steps,
) -> Result<Option<Choice>, OutOfSteps> {
    let cycle = base << longest;
    let (mut served, mut servings, mut work) = (Vec::with_capacity(wanted.len()), 0u64, 0u128);
    for &one in wanted {
        steps.take(STEPS_OF_A_PERIOD * (longest as usize + 1))?;
        let cheapest = (0..=longest)
            .map(|j| (base << j, longest - j))
            .take_while(|(period, _)| *period <= one.period)
            .map(|(period, times)| {
                let budget = least_serving(one, period);
                let cost = (u128::from(budget) + u128::from(switch)) << times;
                (cost, period, budget)
            })
            // At the same cost the longer period: fewer switches.
            .min_by_key(|(cost, period, _)| (*cost, u64::MAX - period));
        let Some((cost, period, budget)) = cheapest else { return Ok(None) };
        served.push(Served { budget, period });
        servings = servings.saturating_add(cycle / period);
        work += cost;
    }
    if servings > most_slots {
        return Ok(None);
    }
    // Beyond 64 bits it is far above one.
    let work = u64::try_from(work).unwrap_or(u64::MAX);
    Ok(Some(Choice { served, needed: Ratio::above(work, cycle), servings }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supply::bound::{Guarantee, Supply};
    use punctual_model::{Duration, Reservation, Service};

    /// Compares with the definition: the least b whose supply bound at Y is X.
    #[test]
    fn the_least_serving_is_the_least() {
        for period in 1..=24 {
            for budget in 1..=period {
                for p in 1..=period {
                    let wanted = Wanted { budget, period };
                    let gives = |b| {
                        let served =
                            Reservation::new(Service::from_nanos(b), Duration::from_nanos(p));
                        Supply::new(served.expect("b ≤ p"), Guarantee::EveryWindow)
                            .least_in(Duration::from_nanos(period))
                            .as_nanos()
                            >= budget
                    };
                    let least = (1..=p).find(|b| gives(*b));
                    assert_eq!(Some(least_serving(wanted, p)), least, "{budget}/{period} by {p}");
                }
            }
        }
    }
}
