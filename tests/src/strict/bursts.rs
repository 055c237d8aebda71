//! How exactly a budget is enforced: what a program that never waits gets in each period.

use std::fmt;

use punctual_linux::clock;
use punctual_model::reservation::Reservation;
use punctual_model::{Duration, Instant};

/// When a program ran: the bursts, each from its first to its last look at the clock.
pub type Bursts = Vec<(Instant, Instant)>;

/// What was taken in the periods of one run.
#[derive(Clone, Copy, Debug)]
pub struct Enforcement {
    /// How many whole periods were looked at.
    pub periods: u64,
    /// The least time that a period gave.
    pub least: Duration,
    /// The most time that a period gave.
    pub most: Duration,
    /// The longest burst.
    pub longest: Duration,
    /// The longest pause between two bursts.
    pub pause: Duration,
}

/// Spins until `until` and returns the bursts in which it could. A pause shorter than `pause` is an interrupt in a
/// burst. `goes_on` is asked at each look, and ends a burst with `false`, after it has waited.
pub fn spin(until: Instant, pause: Duration, mut goes_on: impl FnMut() -> bool) -> Bursts {
    let mut bursts = Vec::with_capacity(1 << 16);
    let mut first = clock::now();
    let mut last = first;
    while last < until {
        let now = clock::now();
        if now.saturating_since(last) > pause {
            bursts.push((first, last));
            first = now;
        }
        last = now;
        if !goes_on() {
            bursts.push((first, now));
            first = clock::now();
            last = first;
        }
    }
    bursts
}

impl Enforcement {
    /// Counts what each period gave, periods from the first burst after a pause; `None` for fewer than two.
    ///
    /// A period is counted from the middle of a pause, so that a burst which comes a little earlier or later than
    /// the one before belongs to one. The first tenth is left out: a reservation begins somewhere within its first
    /// period, and a program is held only once it has been started.
    pub fn of(bursts: &[(Instant, Instant)], reservation: Reservation) -> Option<Self> {
        let bursts = bursts.get(bursts.len() / 10 + 1..)?;
        let period = reservation.period();
        let pause = period.saturating_sub(Duration::from_nanos(reservation.budget().as_nanos()));
        let (start, end) = (bursts.get(1)?.0 - pause / 2, bursts.last()?.1);
        let periods = ((end - start).as_nanos() / period.as_nanos()).saturating_sub(1);
        let mut given = vec![Duration::ZERO; usize::try_from(periods).ok()?];
        for &(from, to) in &bursts[1..] {
            // A burst that reaches over the end of a period is counted to both.
            let mut from = from;
            while from < to {
                let index = (from - start).as_nanos() / period.as_nanos();
                let next = start + period * (index + 1);
                let part = to.min(next) - from;
                if let Some(given) = given.get_mut(usize::try_from(index).ok()?) {
                    *given += part;
                }
                from += part;
            }
        }
        let pauses = bursts.windows(2).map(|pair| pair[1].0 - pair[0].1);
        Some(Self {
            periods,
            least: given.iter().copied().min()?,
            most: given.iter().copied().max()?,
            longest: bursts.iter().map(|&(from, to)| to - from).max()?,
            pause: pauses.max()?,
        })
    }

    /// Returns the largest difference between the budget and what a period gave.
    pub fn error(&self, budget: Duration) -> Duration {
        self.most.saturating_sub(budget).max(budget.saturating_sub(self.least))
    }
}

impl fmt::Display for Enforcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { periods, least, most, longest, pause } = self;
        write!(
            f,
            "{periods} periods of {least} to {most}, bursts of {longest} at most, pauses of {pause} at most"
        )
    }
}
