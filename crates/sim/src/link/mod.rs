//! A sending host in virtual time: the policies of `punctual_policy::link`, turned with the costs
//! of a [`Sender`](punctual_model::channel::Sender).
//!
//! Reading order: [`Setup`] and [`run`], [`sources`] (who sends what and when, and what else uses the
//! processor), [`sink`] (what comes out), `host` (the events), `refills` and `hogs` (what best-effort
//! senders and the hogs do next).
//!
//! # The model
//! That of `docs/channel-bounds.md`, A1 to A7, and of real-time channels, §3: a handler makes
//! packets at `C_prot^first` and `C_prot`, a change to another handler or to the link thread costs
//! `C_switch + C_cache`, each start of a packet `C_link`, and the link is busy for `L_xmit`. Where
//! the model leaves open what goes first at one instant, the less convenient goes first: a handler
//! that yields has not seen what arrives or leaves at that very instant.

mod hogs;
mod host;
mod refills;
mod setup;
pub mod sink;
pub mod sources;

use alloc::vec::Vec;

use punctual_model::{Instant, Service};
use rand::{Rng, RngExt};

pub use setup::{Setup, SetupError};
use sink::{Sink, Totals};
use sources::Message;

/// What a step really takes.
pub trait Costs {
    /// The time of a step that takes at most `worst`.
    fn of(&mut self, worst: Service) -> Service;
}

impl<C: Costs + ?Sized> Costs for alloc::boxed::Box<C> {
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

/// Runs until `until`, or until the sources of all channels, of which there is at least one, have
/// ended and their messages have left.
///
/// `sources` has one for each channel, in the same order. The cost grows with packets and messages:
/// O(log channels) each.
///
/// # Panics
/// If [`Setup::check`] says why it cannot be run.
pub fn run<S, C, K>(
    setup: &Setup<'_>,
    sources: Vec<S>,
    costs: C,
    until: Instant,
    sink: &mut K,
) -> Totals
where
    S: Iterator<Item = Message>,
    C: Costs,
    K: Sink,
{
    if let Err(why) = setup.check(sources.len()) {
        panic!("{why}");
    }
    host::Host::new(setup, sources, costs, sink).run(until)
}

#[cfg(test)]
mod tests;
