//! What a step of a sender takes.

use alloc::boxed::Box;

use punctual_model::Service;
use rand::{Rng, RngExt};

/// What a step really takes.
pub trait Costs {
    /// The time of a step that takes at most `worst`.
    fn of(&mut self, worst: Service) -> Service;
}

impl<C: Costs + ?Sized> Costs for Box<C> {
    fn of(&mut self, worst: Service) -> Service {
        (**self).of(worst)
    }
}

/// Every step takes its worst.
#[derive(Clone, Copy, Debug)]
pub struct Exact;

impl Costs for Exact {
    fn of(&mut self, worst: Service) -> Service {
        worst
    }
}

/// Steps take between `least_percent` of their worst and their worst, evenly drawn.
#[derive(Clone, Debug)]
pub struct Drawn<R> {
    /// At most 100.
    pub least_percent: u64,
    /// Draws.
    pub rng: R,
}

impl<R: Rng> Costs for Drawn<R> {
    fn of(&mut self, worst: Service) -> Service {
        let percent = self.rng.random_range(self.least_percent.min(100)..=100);
        Service::from_nanos(worst.as_nanos() / 100 * percent)
    }
}
