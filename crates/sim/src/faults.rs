//! Injects faults: wrappers that make any arrivals break their contract, seeded and counted.
//!
//! Each breaks one promise and leaves the others intact. They nest: an overrun of late timers of
//! drawn arrivals. Time that a hypervisor takes is a wrapper around the processor:
//! [`crate::processor::Stolen`].

use alloc::vec;
use alloc::vec::Vec;

use punctual_model::{Duration, Instant, Service};
use rand::{Rng, RngExt};

use crate::arrivals::{Arrival, Arrivals};

/// The frequency of a fault: one in this many jobs on average, drawn for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneIn(pub u32);

impl OneIn {
    /// Draws whether a fault strikes. It never does for zero.
    fn strikes(self, rng: &mut impl Rng) -> bool {
        self.0 > 0 && rng.random_range(0..self.0) == 0
    }
}

/// Some jobs run longer than they should.
#[derive(Clone, Debug)]
pub struct Overrun<A, R> {
    arrivals: A,
    often: OneIn,
    percent: u32,
    rng: R,
    struck: u64,
}

impl<A: Arrivals, R: Rng> Overrun<A, R> {
    /// Lets those jobs run for `percent` of their execution time: 150 is half as long again.
    pub fn new(arrivals: A, often: OneIn, percent: u32, rng: R) -> Self {
        Self { arrivals, often, percent, rng, struck: 0 }
    }

    /// Returns how many of the jobs overran.
    pub fn struck(&self) -> u64 {
        self.struck
    }
}

impl<A: Arrivals, R: Rng> Arrivals for Overrun<A, R> {
    fn next(&mut self, task: u32) -> Arrival {
        let arrival = self.arrivals.next(task);
        if arrival.known == Instant::MAX || !self.often.strikes(&mut self.rng) {
            return arrival;
        }
        self.struck += 1;
        let longer = u128::from(arrival.exec_time.as_nanos()) * u128::from(self.percent) / 100;
        let longer = Service::from_nanos(u64::try_from(longer).unwrap_or(u64::MAX).max(1));
        Arrival { exec_time: longer, ..arrival }
    }
}

/// Some releases are followed by an extra one before the next is allowed.
#[derive(Clone, Debug)]
pub struct ExtraReleases<A, R> {
    arrivals: A,
    often: OneIn,
    rng: R,
    struck: u64,
    /// For each task, the last job returned and the one held back while an extra one comes.
    last: Vec<Option<Arrival>>,
    held: Vec<Option<Arrival>>,
}

impl<A: Arrivals, R: Rng> ExtraReleases<A, R> {
    /// Adds extra jobs. Each is like the job after it, but is released and becomes known at drawn
    /// instants since the job before.
    pub fn new(tasks: usize, arrivals: A, often: OneIn, rng: R) -> Self {
        let (last, held) = (vec![None; tasks], vec![None; tasks]);
        Self { arrivals, often, rng, struck: 0, last, held }
    }

    /// Returns the number of extra jobs.
    pub fn struck(&self) -> u64 {
        self.struck
    }

    fn between(&mut self, from: Instant, to: Instant) -> Instant {
        Instant::from_nanos(self.rng.random_range(from.as_nanos()..=to.as_nanos()))
    }
}

impl<A: Arrivals, R: Rng> Arrivals for ExtraReleases<A, R> {
    fn next(&mut self, task: u32) -> Arrival {
        let at = task as usize;
        let mut arrival = match self.held[at].take() {
            Some(held) => held,
            None => {
                let next = self.arrivals.next(task);
                let before = self.last[at].filter(|_| next.known != Instant::MAX);
                match before.filter(|_| self.often.strikes(&mut self.rng)) {
                    Some(before) => {
                        self.struck += 1;
                        self.held[at] = Some(next);
                        let release = self.between(before.release, next.release);
                        Arrival { release, known: release, ..next }
                    }
                    None => next,
                }
            }
        };
        if let Some(before) = self.last[at] {
            arrival.known = arrival.known.max(before.known);
        }
        self.last[at] = Some(arrival);
        arrival
    }
}

/// Some releases become known later than the jitter allows.
#[derive(Clone, Debug)]
pub struct LateTimers<A, R> {
    arrivals: A,
    often: OneIn,
    most: Duration,
    rng: R,
    struck: u64,
    last_known: Vec<Instant>,
}

impl<A: Arrivals, R: Rng> LateTimers<A, R> {
    /// Delays timers by 1 ns to `most`, drawn, on top of the jitter that the release has anyway.
    /// Later timers of the same task wait for a late one.
    pub fn new(tasks: usize, arrivals: A, often: OneIn, most: Duration, rng: R) -> Self {
        Self { arrivals, often, most, rng, struck: 0, last_known: vec![Instant::ZERO; tasks] }
    }

    /// Returns how many timers were late.
    pub fn struck(&self) -> u64 {
        self.struck
    }
}

impl<A: Arrivals, R: Rng> Arrivals for LateTimers<A, R> {
    fn next(&mut self, task: u32) -> Arrival {
        let mut arrival = self.arrivals.next(task);
        if arrival.known == Instant::MAX {
            return arrival;
        }
        if !self.most.is_zero() && self.often.strikes(&mut self.rng) {
            self.struck += 1;
            let late = self.rng.random_range(1..=self.most.as_nanos());
            arrival.known += Duration::from_nanos(late);
        }
        let last = &mut self.last_known[task as usize];
        arrival.known = arrival.known.max(*last);
        *last = arrival.known;
        arrival
    }
}
