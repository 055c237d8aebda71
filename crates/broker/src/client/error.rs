//! Why there is no answer, or no grant.

use std::io;
use std::time::Duration as Time;

use punctual_channel::client::RejoinError;
use punctual_channel::rings::RingError;
use thiserror::Error;

use crate::wire::{MAX_MESSAGE, ReceiveError, Refused};

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum ClientError {
    /// No broker.
    #[error(
        "{path}: no broker answers: {source}; start one (systemctl start punctual-broker, or punctual serve as root)"
    )]
    NoBroker {
        /// Where it was looked for.
        path: String,
        /// What connect(2) said.
        source: io::Error,
    },
    /// The broker is gone: reconnect and resume.
    #[error("the broker closed the connection; connect again and resume the grants")]
    Closed,
    /// The broker lives and does not answer.
    #[error("the broker did not answer for {} s", waited.as_secs())]
    NoAnswer {
        /// How long.
        waited: Time,
    },
    /// What came cannot be understood.
    #[error("the broker said what this client does not understand: {0}")]
    NotUnderstood(String),
    /// The broker could not carry the request out; its own sentence.
    #[error("{0}")]
    Broker(String),
    /// The request does not fit in a message.
    #[error("the request is longer than {MAX_MESSAGE} bytes")]
    TooLong,
    /// Queues of channels that are closed take the room.
    #[error(
        "this user has {bytes} bytes of queues, and one more is beyond its quota (queue_memory): let go of \
         those of channels that are closed, or ask for a larger quota"
    )]
    Kept {
        /// Of all queues.
        bytes: u64,
    },
    /// The broker's queue cannot be mapped, or what was left cannot go on in it.
    #[error(transparent)]
    Queue(#[from] RejoinError),
    /// Sending or receiving failed.
    #[error("the connection failed: {0}")]
    Socket(#[from] io::Error),
}

impl From<RingError> for ClientError {
    fn from(error: RingError) -> Self {
        Self::Queue(error.into())
    }
}

impl From<ReceiveError> for ClientError {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::TooLong { .. } | ReceiveError::TooMuch { .. } => {
                Self::NotUnderstood(error.to_string())
            }
            ReceiveError::Failed(errno) => Self::Socket(errno.into()),
        }
    }
}

/// Why nothing was granted.
#[derive(Debug, Error)]
pub enum RequestError {
    /// With the numbers, and what would be admitted.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// No answer, or no valid request.
    #[error(transparent)]
    Client(#[from] ClientError),
}
