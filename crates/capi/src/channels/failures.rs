//! Turns errors of channels and the broker into error numbers and sentences.

use ::punctual_channel::client::{DrainError, ReceiveError, SendError};
use punctual_client::{ChannelError, ClientError};
use punctual_ring::frames::Corrupt;

use crate::error::Failure;
use crate::error::punctual_error::*;

impl From<SendError> for Failure {
    fn from(why: SendError) -> Self {
        let error = match why {
            SendError::TooLong { .. } => PUNCTUAL_EINVAL,
            SendError::Full { .. } => PUNCTUAL_EAGAIN,
            SendError::TimedOut { .. } => PUNCTUAL_ETIMEDOUT,
            SendError::ServerGone => PUNCTUAL_EGONE,
            SendError::Corrupt(_) => PUNCTUAL_EENDED,
            SendError::Bell(_) => PUNCTUAL_EHOST,
        };
        Self::new(error, why.to_string())
    }
}

impl From<ReceiveError> for Failure {
    fn from(why: ReceiveError) -> Self {
        let error = match why {
            ReceiveError::TooSmall { .. } => PUNCTUAL_EINVAL,
            ReceiveError::Empty => PUNCTUAL_EAGAIN,
            ReceiveError::TimedOut => PUNCTUAL_ETIMEDOUT,
            ReceiveError::ServerGone => PUNCTUAL_EGONE,
            ReceiveError::Corrupt(_) => PUNCTUAL_EENDED,
            ReceiveError::Bell(_) => PUNCTUAL_EHOST,
        };
        Self::new(error, why.to_string())
    }
}

impl From<DrainError> for Failure {
    fn from(why: DrainError) -> Self {
        let error = match why {
            DrainError::TimedOut { .. } => PUNCTUAL_ETIMEDOUT,
            DrainError::ServerGone { .. } => PUNCTUAL_EGONE,
            DrainError::Corrupt(_) => PUNCTUAL_EENDED,
            DrainError::Bell(_) => PUNCTUAL_EHOST,
        };
        Self::new(error, why.to_string())
    }
}

impl From<ChannelError> for Failure {
    fn from(why: ChannelError) -> Self {
        let error = match &why {
            ChannelError::Refused(_) => PUNCTUAL_EREFUSED,
            // The broker answers, but does not know the channel or cannot carry it.
            ChannelError::Client(ClientError::Broker(_)) => PUNCTUAL_EENDED,
            ChannelError::Client(_) => PUNCTUAL_EHOST,
        };
        Self::new(error, why.to_string())
    }
}

impl From<Corrupt> for Failure {
    fn from(why: Corrupt) -> Self {
        Self::new(PUNCTUAL_EENDED, why.to_string())
    }
}
