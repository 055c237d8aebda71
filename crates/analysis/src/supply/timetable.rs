//! A static cyclic timetable that gives X in every window of length Y.
//!
//! # The promise
//! Each reservation gets at least X, after its switches, in `[T, T + Y)` for every T (the soft
//! modem study's §5.4), for any mix of periods; those of Rialto/NT were powers of two. The proof is
//! Theorem 1 of docs/reservations.md; the construction is in `harmonic` and `placement`.
//!
//! # Assumptions
//! The CPU is not used by other work; the dispatcher follows the table exactly; a switch costs at
//! most [`Limits::context_switch`], at the start of each slot.
//!
//! # Units and answers
//! Nanoseconds. It refuses if the shares exceed one, which no timetable can serve, and if this
//! construction does not fit, although another might: docs/reservations.md says how often. If the
//! shares are at most 16/17 in total and switching is free, it fits (Theorem 2, apart from rounding
//! up to whole nanoseconds). Time and size are bounded: at most 6,144 bases times the reservations,
//! 25 placements, [`Limits::most_slots`], and [`Steps`] for all of it.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use punctual_model::reservation::Enforcement;
use punctual_model::{Duration, HostProfile, Reservation, Service, Slot, Timetable};
use thiserror::Error;

use crate::ratio::{Ratio, Utilisation};
use crate::steps::Steps;
use crate::verdict::Shortfall;

use super::harmonic::{Wanted, choices};
use super::placement::{NoPlace, Placed, place};

/// The limits on a timetable's cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The time lost at the start of each slot.
    pub context_switch: Service,
    /// The most slots in a cycle, for all owners together.
    pub most_slots: usize,
}

impl Default for Limits {
    /// Returns free switching and 1024 slots: the assumption of textbooks, and some 24 KiB.
    fn default() -> Self {
        Self { context_switch: Service::ZERO, most_slots: 1024 }
    }
}

impl Limits {
    /// Returns the limits on a timetable of `host`, by which commands are admitted.
    pub fn of(host: &HostProfile) -> Self {
        Self { context_switch: host.slot_allowance, ..Self::default() }
    }

    /// Checks that slots and budgets can be ended precisely enough for `reservation`. Each is longer
    /// by the switch: a soft reservation has at least that as its budget, and a hard one may get at
    /// most a tenth more than its budget.
    ///
    /// # Errors
    /// Returns the least budget that the reservation can have.
    pub fn hold(
        &self,
        reservation: Reservation,
        enforcement: Enforcement,
    ) -> Result<(), TooCoarse> {
        let allowance = self.context_switch;
        let least = match enforcement {
            Enforcement::Soft => allowance,
            Enforcement::Hard => allowance * 10,
        };
        if reservation.budget() >= least {
            return Ok(());
        }
        Err(TooCoarse { reservation, enforcement, allowance, least })
    }
}

/// A budget is too small for the precision with which slots and budgets end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "it cannot be held to {reservation}, {}: each slot or budget ends up to {allowance} late here, as assumed or \
     calibrated, {}", .enforcement.name(), instead(self)
)]
pub struct TooCoarse {
    /// The requested reservation.
    pub reservation: Reservation,
    /// Soft or hard.
    pub enforcement: Enforcement,
    /// The time by which each slot is longer.
    pub allowance: Service,
    /// The smallest budget that can be held.
    pub least: Service,
}

impl TooCoarse {
    /// Returns what the budget lacks.
    pub(crate) fn shortfall(&self) -> Shortfall {
        Shortfall::Time((self.least - self.reservation.budget()).at_full_speed())
    }
}

fn instead(TooCoarse { reservation, enforcement, least, .. }: &TooCoarse) -> String {
    let fits = least.at_full_speed() <= reservation.period();
    let longer = if fits { "" } else { ", in a longer period" };
    match enforcement {
        Enforcement::Soft => format!("and the least budget is {least}{longer}"),
        Enforcement::Hard => format!(
            "and a tenth of the budget is the most: the least budget is {least}{longer}; or ask for a soft one"
        ),
    }
}

/// The timetable of one CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table<Id = usize> {
    /// The CPU, by the kernel's number.
    pub cpu: u16,
    /// The reservations in the table. The table's owners are positions in this list.
    pub holds: Vec<Id>,
    /// Its slots.
    pub table: Timetable,
}

/// The service of one reservation in a timetable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The requested reservation.
    pub reservation: Reservation,
    /// The time after which its slots repeat, at most its own period.
    pub period: Duration,
    /// The service in each such period, and in each window of that length, after its switches.
    pub budget: Service,
    /// The number of slots in each such period.
    pub pieces: usize,
    /// The longest stretch without service: an upper bound of the wait for service.
    pub longest_gap: Duration,
    /// The share of the CPU that its slots take, with their switches, rounded up.
    pub bandwidth: Ratio,
    /// The part of `bandwidth` that is above X/Y, rounded up.
    pub above: Ratio,
}

/// A timetable, and the service of each reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// The table. Its owners are positions in the list of reservations given.
    pub table: Timetable,
    /// The share of each reservation, in the order given.
    pub shares: Vec<Share>,
}

/// The reason why there is no timetable, with the numbers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TimetableRefusal {
    /// There are no reservations.
    #[error("there is no reservation to place")]
    Empty,
    /// No timetable exists.
    #[error("the shares are {shares} in total, more than one CPU, so no timetable exists")]
    Overload {
        /// The sum of X/Y, rounded up.
        shares: Ratio,
    },
    /// The shares fit, but not with the cost of harmonic periods and switching.
    #[error(
        "the shares are {shares} in total, and with the cost of harmonic periods and switches the \
         cheapest timetable of this construction needs {needed} of the CPU"
    )]
    TooDear {
        /// The sum of X/Y, rounded up.
        shares: Ratio,
        /// The need of the cheapest choice of periods, before splitting, rounded up.
        needed: Ratio,
    },
    /// The time would suffice, but not in so few slots.
    #[error("a timetable for {reservations} reservations needs more than {most_slots} slots")]
    TooManySlots {
        /// The number of reservations given.
        reservations: usize,
        /// The limit.
        most_slots: usize,
    },
    /// The search was cut short.
    #[error(
        "no timetable for {reservations} reservations was found within the bound on the search"
    )]
    Undecided {
        /// The number of reservations given.
        reservations: usize,
    },
}

/// Builds a timetable for `reservations`: of all choices of periods that fit, the one that takes
/// least of the CPU.
pub fn build(
    reservations: &[Reservation],
    limits: Limits,
    steps: &mut Steps,
) -> Result<Built, TimetableRefusal> {
    if reservations.is_empty() {
        return Err(TimetableRefusal::Empty);
    }
    let mut sum = Utilisation::ZERO;
    let mut wanted = Vec::with_capacity(reservations.len());
    for reservation in reservations {
        let (budget, period) = (reservation.budget().as_nanos(), reservation.period().as_nanos());
        sum.add(budget, period);
        wanted.push(Wanted { budget, period });
    }
    if sum.exceeds_one() {
        return Err(TimetableRefusal::Overload { shares: sum.above() });
    }
    let switch = limits.context_switch.as_nanos();
    let undecided = TimetableRefusal::Undecided { reservations: reservations.len() };
    let Ok((choices, cheapest)) = choices(&wanted, switch, limits.most_slots as u64, steps) else {
        return Err(undecided);
    };
    let too_many = TimetableRefusal::TooManySlots {
        reservations: reservations.len(),
        most_slots: limits.most_slots,
    };
    let Some(cheapest) = cheapest else { return Err(too_many) };
    let mut refusal = TimetableRefusal::TooDear { shares: sum.above(), needed: cheapest };
    let mut best: Option<(Ratio, Built)> = None;
    for choice in choices {
        // Splitting only adds, so none of the rest can be cheaper.
        if best.as_ref().is_some_and(|(cost, _)| *cost <= choice.needed) {
            break;
        }
        match place(&choice.served, switch, limits.most_slots, steps) {
            Ok((cycle, slots)) => {
                let taken = slots.iter().map(|slot| slot.end - slot.start).sum();
                let cost = Ratio::above(taken, cycle);
                if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                    let periods = choice.served.iter().map(|served| served.period);
                    best = built(reservations, periods, cycle, &slots, switch)
                        .map(|built| (cost, built));
                }
            }
            Err(NoPlace::TooManySlots) => refusal = too_many.clone(),
            Err(NoPlace::Full) => {}
            // A choice that was placed before is a timetable, if not the cheapest.
            Err(NoPlace::OutOfSteps) => {
                refusal = undecided;
                break;
            }
        }
    }
    best.map(|(_, built)| built).ok_or(refusal)
}

/// Finds the first reservation for which there is no room beside those before it (which do fit),
/// and returns it with the largest budget for which there is, to a millionth of its period. Returns
/// `None` if all fit, or if there is no room for it at all.
///
/// The offer was itself built. The search bisects, so it may miss a larger budget that happens to
/// fit better than a smaller one. It builds some thirty timetables.
pub fn counter_offer(reservations: &[Reservation], limits: Limits) -> Option<(usize, Reservation)> {
    let builds = |all: &[Reservation]| build(all, limits, &mut Steps::default());
    builds(reservations).err()?;
    // The first `fits` fit, the first `fails` do not.
    let (mut fits, mut fails) = (0, reservations.len());
    while fails - fits > 1 {
        let middle = fits + (fails - fits) / 2;
        match builds(&reservations[..middle]) {
            Ok(_) => fits = middle,
            Err(_) => fails = middle,
        }
    }
    let at = fails.checked_sub(1)?;
    let precision = (reservations[at].period().as_nanos() / 1_000_000).max(1);
    let mut trial = reservations[..=at].to_vec();
    let (mut low, mut high) = (0, reservations[at].budget().as_nanos());
    let mut offer = None;
    while high - low > precision {
        let middle = low + (high - low) / 2;
        trial[at] =
            Reservation::new(Service::from_nanos(middle), reservations[at].period()).ok()?;
        if builds(&trial).is_ok() {
            low = middle;
            offer = Some((at, trial[at]));
        } else {
            high = middle;
        }
    }
    offer
}

fn built(
    reservations: &[Reservation],
    periods: impl Iterator<Item = u64>,
    cycle: u64,
    placed: &[Placed],
    switch: u64,
) -> Option<Built> {
    let shares = reservations
        .iter()
        .zip(periods)
        .enumerate()
        .map(|(owner, (&reservation, period))| {
            let own = || placed.iter().filter(|slot| slot.owner == owner);
            let taken: u64 = own().map(|slot| slot.end - slot.start).sum();
            let count = own().count() as u64;
            let times = cycle / period;
            let bandwidth = Ratio::above(taken, cycle);
            let (x, y) = (reservation.budget().as_nanos(), reservation.period().as_nanos());
            Share {
                reservation,
                period: Duration::from_nanos(period),
                budget: Service::from_nanos((taken - count * switch) / times),
                pieces: (count / times) as usize,
                longest_gap: Duration::from_nanos(longest_gap(own(), cycle, switch)),
                bandwidth,
                above: bandwidth.minus(Ratio::below(x, y)),
            }
        })
        .collect();
    let slots = placed.iter().map(|slot| Slot {
        start: Duration::from_nanos(slot.start),
        length: Duration::from_nanos(slot.end - slot.start),
        owner: slot.owner as u32,
    });
    let table = Timetable::new(Duration::from_nanos(cycle), slots.collect()).ok()?;
    Some(Built { table, shares })
}

/// Returns the longest time from the end of a slot until the next one, after its switch, serves.
fn longest_gap<'a>(slots: impl Iterator<Item = &'a Placed>, cycle: u64, switch: u64) -> u64 {
    let slots: Vec<&Placed> = slots.collect();
    let Some(first) = slots.first() else { return cycle };
    let next =
        slots.iter().skip(1).map(|slot| slot.start).chain([cycle.saturating_add(first.start)]);
    let gap = |(slot, next): (&&Placed, u64)| (next - slot.end).saturating_add(switch);
    slots.iter().zip(next).map(gap).max().unwrap_or(cycle)
}
