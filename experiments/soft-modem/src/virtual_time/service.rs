//! The times at which the driver has the processor.
//!
//! | service | model of |
//! |---|---|
//! | [`punctual_sim::processor::Periods`] | X at a fixed place in every Y: a timetable's slots, "X in every window" |
//! | [`Bandwidth`] | a hard constant bandwidth server, as early or as late as its promise allows |
//! | [`WithTurns`] | another of these, and an ordinary thread's turns outside: a soft reservation |

use punctual_model::{Duration, Instant, Reservation};
use punctual_sim::cbs::{Cbs, Charge};
use punctual_sim::processor::{Processor, Stretch};

/// The placement of a hard constant bandwidth server's service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// As soon as there is budget and work: the CPU is otherwise idle.
    Early,
    /// So that each budget ends with its deadline: all other work goes first.
    Late,
}

/// One hard constant bandwidth server alone.
#[derive(Clone, Debug)]
pub struct Bandwidth {
    cbs: Cbs,
    when: When,
    awake: bool,
    throttled: Option<Instant>,
    /// The last instant queried, and whether its holder has had the processor since.
    last: Instant,
    serving: bool,
}

impl Bandwidth {
    /// Creates a server that has never run.
    pub fn new(reservation: Reservation, when: When) -> Self {
        Self {
            cbs: Cbs::new(reservation),
            when,
            awake: false,
            throttled: None,
            last: Instant::ZERO,
            serving: false,
        }
    }
}

impl Processor for Bandwidth {
    const WHOLE: bool = false;

    fn at(&mut self, now: Instant, wanted: bool) -> Stretch {
        if std::mem::take(&mut self.serving) {
            let ran = now.saturating_since(self.last).as_full_service();
            if let Charge::Throttled { until } = self.cbs.charge(ran) {
                self.throttled = Some(until);
            }
        }
        self.last = now;
        let is_back = self.throttled.is_some_and(|until| until <= now);
        if is_back {
            self.throttled = None;
        }
        match (self.awake, wanted) {
            (true, true) if is_back => self.cbs.replenish(),
            // While it is throttled, waking changes nothing, and its budget does not return without
            // a request.
            (false, true) if self.throttled.is_none() => self.cbs.wake(now),
            _ => {}
        }
        self.awake = wanted;
        if !wanted {
            return Stretch { served: false, until: Instant::MAX };
        }
        if let Some(until) = self.throttled {
            return Stretch { served: false, until };
        }
        let budget = self.cbs.left().at_full_speed();
        let latest = self.cbs.deadline() - budget;
        if self.when == When::Late && now < latest {
            return Stretch { served: false, until: latest };
        }
        self.serving = true;
        Stretch { served: true, until: now.saturating_add(budget) }
    }
}

impl Processor for Turns {
    const WHOLE: bool = false;

    fn at(&mut self, now: Instant, _: bool) -> Stretch {
        self.stretch(now)
    }
}

/// A soft reservation: outside it, its holder is an ordinary thread that takes turns with others.
///
/// In each round every thread has one slice by the clock, and the holder's is the last. The model
/// is right about the share and about the gap between two turns, but ignores how long a thread
/// slept.
#[derive(Clone, Debug)]
pub struct WithTurns<P> {
    reserved: P,
    turns: Turns,
}

/// The sharing of the time outside reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    /// Threads beside the holder that never sleep.
    pub competitors: u32,
    /// The slice of each thread.
    pub slice: Duration,
    /// The beginning of a round.
    pub origin: Instant,
}

impl Turns {
    /// One spinning competitor under Windows 2000 with long quanta: twelve ticks of 10 ms. The
    /// study has one such competitor and does not mention quanta; with this length an ordinary
    /// thread fares as in its Figure 7.
    pub const OF_THE_STUDY: Self =
        Self { competitors: 1, slice: Duration::from_millis(120), origin: Instant::ZERO };

    /// Returns whether the holder has the processor, and until when.
    pub fn stretch(&self, now: Instant) -> Stretch {
        let round = self.slice * (u64::from(self.competitors) + 1);
        let offset = now.saturating_since(self.origin) % round;
        let others = round - self.slice;
        let left = if offset < others { others - offset } else { round - offset };
        Stretch { served: offset >= others, until: now.saturating_add(left) }
    }
}

impl<P> WithTurns<P> {
    /// Combines `reserved` with turns outside.
    pub fn new(reserved: P, turns: Turns) -> Self {
        Self { reserved, turns }
    }
}

impl<P: Processor> Processor for WithTurns<P> {
    const WHOLE: bool = false;

    fn at(&mut self, now: Instant, wanted: bool) -> Stretch {
        let reserved = self.reserved.at(now, wanted);
        if reserved.served {
            return reserved;
        }
        let turn = self.turns.stretch(now);
        Stretch { served: turn.served, until: turn.until.min(reserved.until) }
    }
}

#[cfg(test)]
mod tests;
