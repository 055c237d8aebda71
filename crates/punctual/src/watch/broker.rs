//! Asks the broker for its state.

use std::path::PathBuf;
use std::time::Duration as Time;

use punctual_client::wire::{ChannelsStatus, GrantStatus, Status};
use punctual_client::{Broker, ClientError};
use punctual_model::{Duration, Service};
use punctual_trace::Promise;
use serde::Serialize;

/// The longest wait for an answer over a [`BrokerLink`].
const PATIENCE: Time = Time::from_secs(1);

/// The state of a broker: its grants and its channels. Users see their own, and root sees all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BrokerState {
    /// The grants, their use, and the latest refusals.
    #[serde(flatten)]
    pub status: Status,
    /// The channels with their measurements.
    pub channels: ChannelsStatus,
}

impl BrokerState {
    /// Asks for the state.
    ///
    /// # Errors
    /// If the broker is gone or does not answer in time.
    pub fn of(broker: &mut Broker) -> Result<Self, ClientError> {
        Ok(Self { status: broker.status()?, channels: broker.channels()? })
    }
}

/// A connection to a broker that is kept, and made anew after an error.
#[derive(Debug)]
pub struct BrokerLink {
    socket: PathBuf,
    broker: Option<Broker>,
}

impl BrokerLink {
    /// Prepares to ask the broker that listens at `socket`, without connecting yet.
    pub fn new(socket: PathBuf) -> Self {
        Self { socket, broker: None }
    }

    /// Asks the broker for its state, for at most a second.
    ///
    /// # Errors
    /// If no broker listens there, or it does not answer in time.
    pub fn ask(&mut self) -> Result<BrokerState, ClientError> {
        // Only an answer keeps the connection.
        let mut broker = match self.broker.take() {
            Some(broker) => broker,
            None => Broker::connect_within(&self.socket, PATIENCE)?,
        };
        // Events that the broker sends by itself concern no grant of ours.
        broker.events(|_, _| ())?;
        let state = BrokerState::of(&mut broker)?;
        self.broker = Some(broker);
        Ok(state)
    }
}

/// Returns the promise of a grant: the deadline of each job is the period, and its wcet the budget.
pub fn promise_of(grant: &GrantStatus) -> Promise {
    let period = grant.period_ns.map(Duration::from_nanos);
    let wcet = grant.budget_ns.map(Service::from_nanos);
    Promise { period: None, relative_deadline: period, wcet }
}

/// Returns the grant's thread. The kernel's ids are positive; an invalid one becomes an id of no
/// thread.
pub fn thread_of(grant: &GrantStatus) -> u32 {
    u32::try_from(grant.thread).unwrap_or(u32::MAX)
}
