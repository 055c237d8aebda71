//! Counter-offers for refused requests.
//!
//! Numbers are searched by bisection with admission itself as the judge, so every offer was
//! admitted when it was made. Admission is not monotone in a period, so an offered period is one
//! that fits, but not necessarily the shortest.

use punctual_model::reservation::Enforcement;
use punctual_model::{Duration, Reservation, Service, Upcall, UpcallSpec};

use super::terms::Offer;
use punctual_client::want::{Guarantee, LEAST_PRIORITY_SHARE, LONGEST};

/// Tries of one search.
const TRIES: u32 = 12;

/// Finds the offers; a reservation is to have at least `least_ppm` of a CPU, a program at least the
/// budget `least_served`.
pub(super) fn find(
    what: &Guarantee,
    least_ppm: u64,
    least_served: Service,
    mut fits: impl FnMut(&Guarantee) -> bool,
) -> Vec<Offer> {
    match what {
        Guarantee::Upcalls(upcalls) => {
            let smaller = smaller_batches(upcalls, &mut fits);
            smaller.into_iter().chain(longer_periods(upcalls, &mut fits)).collect()
        }
        Guarantee::Reservation(reservation) => {
            let period = u128::from(reservation.period().as_nanos());
            let least = (period * u128::from(least_ppm)).div_ceil(1_000_000);
            let least = Service::from_nanos(u64::try_from(least).unwrap_or(u64::MAX));
            let with = Guarantee::Reservation;
            another_budget(*reservation, least, with, &mut fits).into_iter().collect()
        }
        Guarantee::Program { reservation, enforcement } => {
            let enforcement = *enforcement;
            let with = |reservation| Guarantee::Program { reservation, enforcement };
            // A hard budget may be exceeded by a tenth.
            let times = if enforcement == Enforcement::Hard { 10 } else { 1 };
            let least = least_served.checked_mul(times).unwrap_or(least_served);
            another_budget(*reservation, least, with, &mut fits).into_iter().collect()
        }
        Guarantee::Priority { share_ppm } => {
            let (least, asked) = (u64::from(LEAST_PRIORITY_SHARE), u64::from(*share_ppm));
            let with = |ppm: u64| Guarantee::Priority {
                share_ppm: u32::try_from(ppm).unwrap_or(u32::MAX),
            };
            let share = largest(least, asked, |ppm| fits(&with(ppm)));
            share
                .map(|ppm| (format!("a share_ppm of at most {ppm}"), with(ppm)))
                .into_iter()
                .collect()
        }
    }
}

/// Returns the largest number from `least` to below `asked` that fits, within 2⁻¹² of the range, or
/// `None` if `least` does not fit.
fn largest(least: u64, asked: u64, mut fits: impl FnMut(u64) -> bool) -> Option<u64> {
    if least >= asked || !fits(least) {
        return None;
    }
    let (mut good, mut bad) = (least, asked);
    for _ in 0..TRIES {
        if bad - good <= 1 {
            break;
        }
        let middle = good + (bad - good) / 2;
        if fits(middle) { good = middle } else { bad = middle }
    }
    Some(good)
}

fn spec(upcall: &Upcall) -> UpcallSpec {
    UpcallSpec {
        name: upcall.name().into(),
        period: upcall.period(),
        batch: upcall.batch().get(),
        quantum: upcall.quantum().get(),
        time_per_pdu: upcall.time_per_pdu(),
    }
}

/// Offers a smaller batch for the upcall that needs most of the CPU.
fn smaller_batches(upcalls: &[Upcall], fits: &mut impl FnMut(&Guarantee) -> bool) -> Option<Offer> {
    let (at, most) =
        upcalls.iter().enumerate().max_by_key(|(_, upcall)| upcall.utilisation_ppm())?;
    let with = |batch: u64| {
        let batch = u32::try_from(batch).ok()?;
        let smaller = UpcallSpec { batch, quantum: most.quantum().get().min(batch), ..spec(most) };
        let mut changed = upcalls.to_vec();
        changed[at] = Upcall::new(smaller).ok()?;
        Some(Guarantee::Upcalls(changed))
    };
    let asked = most.batch().get().into();
    let batch = largest(1, asked, |batch| with(batch).is_some_and(|what| fits(&what)))?;
    Some((format!("a batch of at most {batch} for \"{}\"", most.name()), with(batch)?))
}

/// Offers longer periods, all stretched by the same factor of up to four.
fn longer_periods(upcalls: &[Upcall], fits: &mut impl FnMut(&Guarantee) -> bool) -> Option<Offer> {
    const ONE: u64 = 1 << 10;
    let with = |factor: u64| {
        let stretched = upcalls.iter().map(|upcall| {
            let nanos =
                u128::from(upcall.period().as_nanos()) * u128::from(factor) / u128::from(ONE);
            let period = Duration::from_nanos(u64::try_from(nanos).ok()?);
            let watched = period <= LONGEST;
            watched.then(|| Upcall::new(UpcallSpec { period, ..spec(upcall) }).ok()).flatten()
        });
        Some(Guarantee::Upcalls(stretched.collect::<Option<_>>()?))
    };
    let mut fits = |factor: u64| with(factor).is_some_and(|what| fits(&what));
    // Search in the other direction: the least factor is four minus the largest reduction that
    // fits.
    let shorter = largest(0, 3 * ONE, |less| fits(4 * ONE - less))?;
    let factor = 4 * ONE - shorter;
    let text = format!("periods {:.3} times as long", factor as f64 / ONE as f64);
    Some((text, with(factor)?))
}

fn another_budget(
    asked: Reservation,
    least: Service,
    what: impl Fn(Reservation) -> Guarantee,
    fits: &mut impl FnMut(&Guarantee) -> bool,
) -> Option<Offer> {
    // In whole microseconds, as people type them.
    let with = |micros: u64| {
        let budget = Service::from_micros(micros);
        Reservation::new(budget, asked.period()).ok().map(&what)
    };
    let most = asked.budget().as_nanos() / 1_000;
    let least = least.as_nanos().div_ceil(1_000).max(2);
    if most < least {
        let more = with(least).filter(|what| fits(what))?;
        return Some((format!("a budget of at least {}", Service::from_micros(least)), more));
    }
    let micros = largest(least, most, |micros| with(micros).is_some_and(|what| fits(&what)))?;
    Some((format!("a budget of at most {}", Service::from_micros(micros)), with(micros)?))
}
