//! The errors of a client.

use std::io;
use std::time::Duration as Time;

use punctual_channel::client::RejoinError;
use punctual_channel::rings::RingError;
use thiserror::Error;

use crate::wire::{MAX_MESSAGE, ReceiveError, Refused};

/// The reason why there is no answer.
#[derive(Debug, Error)]
pub enum ClientError {
    /// No broker answers.
    #[error(
        "{path}: no broker answers: {source}; start one (systemctl start punctual-broker, or punctual serve as root)"
    )]
    NoBroker {
        /// The path of the socket.
        path: String,
        /// The error of connect(2).
        source: io::Error,
    },
    /// The broker is gone: reconnect and resume.
    #[error("the broker closed the connection; connect again and resume the grants")]
    Closed,
    /// The broker is alive and does not answer.
    #[error("the broker did not answer for {} s", waited.as_secs())]
    NoAnswer {
        /// The time waited.
        waited: Time,
    },
    /// The message cannot be understood.
    #[error("the broker said what this client does not understand: {0}")]
    NotUnderstood(String),
    /// The broker could not carry the request out; its own sentence.
    #[error("{0}")]
    Broker(String),
    /// The request does not fit in a message.
    #[error("the request is longer than {MAX_MESSAGE} bytes")]
    TooLong,
    /// Queues of channels that are closed use up the quota.
    #[error(
        "this user has {bytes} bytes of queues, and one more is beyond its quota (queue_memory): let go of \
         those of channels that are closed, or ask for a larger quota"
    )]
    Kept {
        /// The bytes of all queues.
        bytes: u64,
    },
    /// The broker's queue cannot be mapped, or the messages left cannot be carried over to it.
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

/// The reason why nothing was granted.
#[derive(Debug, Error)]
pub enum RequestError {
    /// The refusal with its numbers, and with what would be admitted.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// There is no answer, or the request is not valid.
    #[error(transparent)]
    Client(#[from] ClientError),
}
