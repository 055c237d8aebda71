//! Channels: traffic that is declared before it is sent, and what sending it costs.
//!
//! Reading order: `traffic` and `atm` (what a sender promises: [`LinearBounded`], [`AtmContract`], and
//! [`Traffic`] over both), [`Channel`] (traffic with a delay bound), `costs` (the link, the
//! processor's costs, packet size and preemption grain), [`Sender`] (all of a sending host),
//! `route` ([`Route`]: where messages go, and how they become datagrams), `policing` ([`Policing`]: what
//! holds a sender to its word).
//!
//! A stream is *conforming* while it keeps to its contract. What is early is held until its
//! logical arrival, so the bounds of the analysis count from there.

mod atm;
mod costs;
mod policing;
mod rate;
mod route;
mod sender;
mod traffic;

pub use atm::{AtmContract, ServiceClass, TrafficSpec};
pub use costs::{CostError, Link, Packetisation, SendCosts};
pub use policing::{Policing, Sensitivity};
pub use rate::{BitRate, RateError};
pub use route::{Direction, Framing, Host, HostPort, HostPortError, Route, TooEarly};
pub use sender::{BestEffort, LinkScheduling, Sender, SenderSpec};
pub use traffic::{LinearBounded, Traffic, TrafficError};

use alloc::string::String;

use thiserror::Error;

use crate::time::Duration;

/// A real-time channel: traffic, and how long after its logical arrival a message may be on its
/// way (real-time channels, §2.1: delivered by `ℓ(m) + d`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    name: String,
    traffic: Traffic,
    arrivals: LinearBounded,
    delay_bound: Duration,
}

/// Which rule a channel breaks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ChannelError {
    /// Nothing can be sent in no time.
    #[error("the delay bound is zero; it must be at least 1ns")]
    ZeroDelayBound,
    /// The traffic cannot be promised anything.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
}

impl Channel {
    /// Checks and makes a channel. Best-effort traffic is refused: it has no delay bound.
    pub fn new(
        name: impl Into<String>,
        traffic: &Traffic,
        delay_bound: Duration,
    ) -> Result<Self, ChannelError> {
        if delay_bound.is_zero() {
            return Err(ChannelError::ZeroDelayBound);
        }
        let arrivals = traffic.to_linear_bounded()?;
        Ok(Self { name: name.into(), traffic: *traffic, arrivals, delay_bound })
    }

    /// What people call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it may send, in the form in which it was declared.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// What it may send, in the form that admission uses.
    pub fn arrivals(&self) -> LinearBounded {
        self.arrivals
    }

    /// From logical arrival to the end of the transmission.
    pub fn delay_bound(&self) -> Duration {
        self.delay_bound
    }
}
