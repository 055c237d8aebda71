//! The parameters of a simulation.

use punctual_model::channel::{Channel, Sender};
use punctual_policy::queues::ServiceOrder;
use thiserror::Error;

use super::sources::{Backlog, Hog};

/// The parameters of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The host. Its [`best_effort`](Sender::best_effort) is a promise that admission uses; the
    /// actual traffic is in `backlogs`.
    pub sender: &'a Sender,
    /// The channels, the most urgent first.
    pub channels: &'a [Channel],
    /// By rank or by deadline.
    pub order: ServiceOrder,
    /// The most messages of one channel that have come and not left; further ones are refused.
    pub room: u32,
    /// The traffic without a promise.
    pub backlogs: &'a [Backlog],
    /// Other work that uses the processor, and goes before all of the above.
    pub hogs: &'a [Hog],
}

/// The reason why a [`Setup`] cannot be simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SetupError {
    /// The number of sources differs from the number of channels.
    #[error("there are {sources} sources for {channels} channels")]
    Sources {
        /// The number of sources.
        sources: usize,
        /// The number of channels.
        channels: usize,
    },
    /// A message has no bytes.
    #[error("messages of backlog {backlog} are empty")]
    EmptyMessages {
        /// Its position.
        backlog: usize,
    },
    /// No message could ever come.
    #[error("backlog {backlog} has room for {room} packets, and a message has {packets}")]
    NoRoom {
        /// Its position.
        backlog: usize,
        /// The packets of a message.
        packets: u32,
        /// The room given.
        room: u32,
    },
    /// The hog would occur without end at one instant.
    #[error("hog {hog} has no period")]
    NoPeriod {
        /// Its position.
        hog: usize,
    },
}

impl Setup<'_> {
    /// Returns whether it can be simulated with this many sources.
    pub fn check(&self, sources: usize) -> Result<(), SetupError> {
        let channels = self.channels.len();
        if sources != channels {
            return Err(SetupError::Sources { sources, channels });
        }
        for (backlog, &Backlog { bytes, room, .. }) in self.backlogs.iter().enumerate() {
            let packets = self.sender.packetisation.packets_of(bytes);
            if packets == 0 {
                return Err(SetupError::EmptyMessages { backlog });
            }
            if packets > room {
                return Err(SetupError::NoRoom { backlog, packets, room });
            }
        }
        match self.hogs.iter().position(|hog| hog.period.is_zero()) {
            Some(hog) => Err(SetupError::NoPeriod { hog }),
            None => Ok(()),
        }
    }
}
