//! The least processor time that a reservation surely gives in a window.
//!
//! # The bounds
//! For X every Y and a window of length t in which the holder is runnable throughout:
//!
//! ```text
//! every window:  sbf(t) = ⌊t/Y⌋·X + max(0, t mod Y − (Y − X))
//! every period:  sbf(t) = the same for t − (Y − X), and 0 for t < Y − X
//! ```
//!
//! # Assumptions and sources
//! - *Every period* ([`Guarantee::EveryPeriod`]): X somewhere in each `[s + kY, s + (k+1)Y)`, the
//!   periodic resource model (Shin & Lee, RTSS 2003, §3, equation for `sbf`, here written as a
//!   delay). The longest time without service is `2(Y − X)`: X early, then X late.
//! - *Every window* ([`Guarantee::EveryWindow`]): X in `[T, T + Y)` for every T, as Rialto/NT
//!   promises (soft modem study, §5.4) and `crate::supply::timetable` builds. Disjoint windows give
//!   `⌊t/Y⌋·X`; the rest r lies in a window with at most `Y − r` outside of r, so it has at least
//!   `X − (Y − r)`. A slot of X at the start of each Y gives no more, so the bound is tight. The
//!   longest time without service is `Y − X`.
//! - *A hard constant bandwidth server under earliest deadline first* ([`Supply::hard_cbs`]): as
//!   every period. docs/reservations.md, Lemma 2, proves it for a holder that blocks and wakes.
//!
//! # Units and answers
//! Nanoseconds, exact. There is no answer (`None`) if a time does not fit in 64 bits.

use punctual_model::{Duration, Reservation, Service};

use crate::ratio::Utilisation;

/// The promise of a reservation of X every Y.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guarantee {
    /// X somewhere in each period, counted from some instant.
    EveryPeriod,
    /// X in every window of length Y, with any start: the stronger guarantee.
    EveryWindow,
}

/// A reservation with its guarantee, as supply to the tasks inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supply {
    reservation: Reservation,
    guarantee: Guarantee,
}

impl Supply {
    /// Creates the supply of `reservation` under `guarantee`.
    pub fn new(reservation: Reservation, guarantee: Guarantee) -> Self {
        Self { reservation, guarantee }
    }

    /// Creates the supply of a `reservation` kept by a hard constant bandwidth server (Abeni &
    /// Buttazzo, RTSS 1998; `SCHED_DEADLINE` with its deadline at the end of the period; `cbs` in
    /// `punctual-sim`) that always has its budget by its deadline, as under EDF on one CPU with a
    /// total share of at most one.
    pub fn hard_cbs(reservation: Reservation) -> Self {
        Self::new(reservation, Guarantee::EveryPeriod)
    }

    /// Returns X and Y.
    pub fn reservation(&self) -> Reservation {
        self.reservation
    }

    /// Returns the guarantee.
    pub fn guarantee(&self) -> Guarantee {
        self.guarantee
    }

    /// Returns the longest stretch without any service for a runnable holder, or `None` beyond 64
    /// bits.
    pub fn longest_gap(&self) -> Option<Duration> {
        self.unserved().checked_add(self.delay()).map(Duration::from_nanos)
    }

    /// Returns `sbf(window)`: the least service in any window of that length.
    pub fn least_in(&self, window: Duration) -> Service {
        let (budget, period) = self.numbers();
        let Some(window) = window.as_nanos().checked_sub(self.delay()) else {
            return Service::ZERO;
        };
        // At most the window, so it fits.
        let whole = window / period * budget;
        let rest = (window % period).saturating_sub(self.unserved());
        Service::from_nanos(whole + rest)
    }

    /// Returns the inverse: the shortest window that surely contains `service`, or `None` beyond 64
    /// bits.
    pub fn time_for(&self, service: Service) -> Option<Duration> {
        self.nanos_for(service.as_nanos()).map(Duration::from_nanos)
    }

    pub(crate) fn nanos_for(&self, service: u64) -> Option<u64> {
        let (budget, period) = self.numbers();
        // service = whole·X + last with 0 < last ≤ X.
        let Some(before) = service.checked_sub(1) else { return Some(0) };
        let (whole, last) = (before / budget, before % budget + 1);
        whole
            .checked_mul(period)?
            .checked_add(self.unserved())?
            .checked_add(self.delay())?
            .checked_add(last)
    }

    /// Returns X and Y in nanoseconds.
    pub(crate) fn numbers(&self) -> (u64, u64) {
        (self.reservation.budget().as_nanos(), self.reservation.period().as_nanos())
    }

    /// Returns `Y − X`.
    pub(crate) fn unserved(&self) -> u64 {
        let (budget, period) = self.numbers();
        // A valid reservation has X ≤ Y.
        period - budget
    }

    /// Returns the delay of all service compared with the stronger guarantee.
    pub(crate) fn delay(&self) -> u64 {
        match self.guarantee {
            Guarantee::EveryPeriod => self.unserved(),
            Guarantee::EveryWindow => 0,
        }
    }
}

/// The result for a task set inside a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// Every deadline is proven to be met.
    Fits,
    /// A deadline is proven to be missed for some arrivals and some supply that the reservation
    /// allows. (With quanta, jitter or deadlines beyond the period under fixed priorities: not
    /// proven in time.)
    Late,
    /// Not decided within the steps.
    Undecided,
}

/// Returns the time outside the reservation as if it were a task: `(Y − X) / Y`. With it, "the
/// tasks need more than X/Y" is "the sum is above one", and the hyperperiod includes Y.
pub(super) fn absence(supply: &Supply) -> Utilisation {
    let mut sum = Utilisation::ZERO;
    sum.add(supply.unserved(), supply.numbers().1);
    sum
}
