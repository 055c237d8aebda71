//! Measures how exactly a budget is enforced: how much a program that never waits gets in each
//! period.

use std::fmt;

use punctual_linux::sched::{self, Class};
use punctual_linux::{clock, thread};
use punctual_model::reservation::Reservation;
use punctual_model::{Duration, Instant};

/// The bursts in which a program ran, each from its first to its last reading of the clock.
pub type Bursts = Vec<(Instant, Instant)>;

/// The time taken in the periods of one run.
#[derive(Clone, Copy, Debug)]
pub struct Enforcement {
    /// The number of whole periods examined.
    pub periods: u64,
    /// The least time in a period.
    pub least: Duration,
    /// The most time in a period.
    pub most: Duration,
    /// The longest burst.
    pub longest: Duration,
    /// The longest pause between two bursts.
    pub pause: Duration,
}

/// Spins until `until` and returns the bursts in which it ran. A gap shorter than `pause` counts as
/// an interrupt within a burst. `goes_on` is called at each reading of the clock and ends a burst
/// by returning `false`, after it has waited.
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

/// Spins until `until`, and returns the processor time of each stretch in which this thread was
/// under SCHED_FIFO, by its own look at its class. The first stretch is left out, and one that had
/// not ended.
pub fn raised(until: Instant) -> Vec<Duration> {
    let me = thread::current();
    let is_raised =
        || matches!(sched::get(me).map(|now| now.class()), Ok(Some(Class::Fifo { .. })));
    let (mut stretches, mut since) = (Vec::with_capacity(1 << 14), None);
    while clock::now() < until {
        match (is_raised(), since) {
            (true, None) => since = Some(clock::thread_cpu_time()),
            (false, Some(start)) => {
                stretches.push((clock::thread_cpu_time() - start).at_full_speed());
                since = None;
            }
            _ => {}
        }
    }
    stretches.drain(..).skip(1).collect()
}

impl Enforcement {
    /// Summarises the time that each period gave, with periods counted from the first burst after a
    /// pause. Returns `None` for fewer than two periods.
    ///
    /// A period is counted from the middle of a pause, so that a burst that comes a little earlier
    /// or later than its predecessor belongs to one period. The first tenth is left out: a
    /// reservation begins somewhere within its first period, and a program is contained only after
    /// it has been started.
    pub fn of(bursts: &[(Instant, Instant)], reservation: Reservation) -> Option<Self> {
        let bursts = bursts.get(bursts.len() / 10 + 1..)?;
        let period = reservation.period();
        let pause = period.saturating_sub(Duration::from_nanos(reservation.budget().as_nanos()));
        let (start, end) = (bursts.get(1)?.0 - pause / 2, bursts.last()?.1);
        let periods = ((end - start).as_nanos() / period.as_nanos()).saturating_sub(1);
        let mut given = vec![Duration::ZERO; usize::try_from(periods).ok()?];
        for &(from, to) in &bursts[1..] {
            // A burst that extends over the end of a period counts in both.
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
