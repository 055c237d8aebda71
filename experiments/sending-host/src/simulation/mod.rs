//! A sending host in virtual time: the policies of [`crate::policy`], turned with the costs
//! of a [`Sender`](punctual_model::channel::Sender).
//!
//! Reading order: [`Setup`] and [`run`], [`sources`] (what is sent without a promise, and what else uses
//! the processor; who sends on channels: [`punctual_sim::egress::sources`]), [`sink`] (what comes out), `host` (the events), `refills` and `hogs` (what best-effort
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

use punctual_model::Instant;
use punctual_sim::egress::Costs;
use punctual_sim::egress::sources::Message;

pub use setup::{Setup, SetupError};
use sink::{Sink, Totals};

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
