//! Simulates a sending host in virtual time: drives the policies of [`crate::policy`] with the
//! costs of a [`Sender`](punctual_model::channel::Sender).
//!
//! Reading order: [`Setup`] and [`run`], [`sources`] (traffic without a promise, and other work on
//! the processor; the sources of channels are in [`punctual_sim::egress::traffic`]), [`sink`] (the
//! output), `host` (the events), `refills` (the next steps of best-effort senders).
//!
//! # The model
//! That of `docs/channel-bounds.md`, A1 to A7, and of real-time channels, §3: a handler makes
//! packets at `C_prot^first` and `C_prot`, a change to another handler or to the link thread costs
//! `C_switch + C_cache`, each start of a packet `C_link`, and the link is busy for `L_xmit`. Where
//! the model leaves open what goes first at one instant, the less convenient goes first: a handler
//! that yields has not seen what arrives or leaves at that very instant.

mod host;
mod refills;
mod setup;
pub mod sink;
pub mod sources;

use alloc::vec::Vec;

use punctual_model::Instant;
use punctual_sim::egress::Costs;
use punctual_sim::egress::traffic::Message;

use sink::{Sink, Totals};

pub use setup::{Setup, SetupError};

/// Runs until `until`, or until the sources of all channels, of which there is at least one, have
/// ended and their messages have left.
///
/// `sources` has one for each channel, in the same order. The cost grows with packets and messages:
/// O(log channels) each.
///
/// # Panics
/// Panics if [`Setup::check`] fails.
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
