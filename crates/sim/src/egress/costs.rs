//! Models the time that a sender's steps take.

use alloc::boxed::Box;

use punctual_model::Service;
use rand::{Rng, RngExt};

/// The actual duration of steps.
pub trait Costs {
    /// Returns the time of a step that takes at most `worst`.
    fn of(&mut self, worst: Service) -> Service;
}

impl<C: Costs + ?Sized> Costs for Box<C> {
    fn of(&mut self, worst: Service) -> Service {
        (**self).of(worst)
    }
}

/// Every step takes its worst-case time.
#[derive(Clone, Copy, Debug)]
pub struct Exact;

impl Costs for Exact {
    fn of(&mut self, worst: Service) -> Service {
        worst
    }
}

/// Each step takes a uniformly drawn time between `least_percent` of its worst case and its worst
/// case.
#[derive(Clone, Debug)]
pub struct Drawn<R> {
    /// The least time in percent of the worst case, at most 100.
    pub least_percent: u64,
    /// The source of the draws.
    pub rng: R,
}

impl<R: Rng> Costs for Drawn<R> {
    fn of(&mut self, worst: Service) -> Service {
        let percent = self.rng.random_range(self.least_percent.min(100)..=100);
        Service::from_nanos(worst.as_nanos() / 100 * percent)
    }
}
