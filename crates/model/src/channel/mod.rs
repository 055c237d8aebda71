//! Channels: traffic that is declared before it is sent, and the cost of sending it.
//!
//! Reading order: `traffic` and `atm` (the promise of a sender: [`LinearBounded`], [`AtmContract`],
//! and [`Traffic`] over both), [`Channel`] (traffic with a delay bound), `costs` (the link, the
//! processor's costs, packet size and preemption grain), [`Sender`] (the whole sending host),
//! `route` ([`Route`]: direction, address and framing), `policing` ([`Policing`]: the test for
//! early messages), `receiving` ([`ReadLimit`]: the datagrams that are read and charged).
//!
//! A stream is *conforming* while it keeps to its contract. An early message is held until its
//! logical arrival, so the bounds of the analysis count from there.

mod costs;
mod policing;
mod rate;
mod receiving;
mod route;
mod sender;
mod traffic;

pub use costs::{CostError, Link, Packetisation, SendCosts};
pub use policing::{Policing, Sensitivity};
pub use rate::{BitRate, RateError};
pub use receiving::ReadLimit;
pub use route::{Direction, Framing, Host, HostPort, HostPortError, Route, TooEarly};
pub use sender::{BestEffort, LinkScheduling, Sender, SenderSpec};
pub use traffic::{AtmContract, LinearBounded, ServiceClass, Traffic, TrafficError, TrafficSpec};

use alloc::string::String;

use thiserror::Error;

use crate::time::Duration;

/// A real-time channel: traffic, and the longest time from a message's logical arrival to the end
/// of its transmission (real-time channels, §2.1: delivered by `ℓ(m) + d`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    name: String,
    traffic: Traffic,
    arrivals: LinearBounded,
    delay_bound: Duration,
}

/// The rule that a channel breaks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ChannelError {
    /// The delay bound is zero, and every transmission takes time.
    #[error("the delay bound is zero; it must be at least 1ns")]
    ZeroDelayBound,
    /// The traffic is invalid or best effort.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
}

impl Channel {
    /// Validates and makes a channel. Best-effort traffic is refused: it has no delay bound.
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

    /// Returns the channel's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the declared traffic.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Returns the traffic in the form that admission uses.
    pub fn arrivals(&self) -> LinearBounded {
        self.arrivals
    }

    /// Returns the longest time from logical arrival to the end of the transmission.
    pub fn delay_bound(&self) -> Duration {
        self.delay_bound
    }
}
