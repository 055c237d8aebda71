//! The errors of receiving channels.

use punctual_linux::net::{OptionError, ReceiveError};
use punctual_model::channel::TrafficError;
use punctual_ring::frames::Corrupt;
use rustix::io::Errno;
use thiserror::Error;

/// The reason why a channel cannot be opened for receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// Its traffic cannot be policed.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// The socket cannot be set up.
    #[error("its socket cannot be set up: {0}")]
    Option(#[from] OptionError),
    /// The ring's slots are too small for the messages.
    #[error(
        "its ring has slots of {bytes} bytes and its messages may have {wanted}: make a ring of \
         slots as large as max_message"
    )]
    SlotsTooSmall {
        /// The size of a slot.
        bytes: u32,
        /// The longest message.
        wanted: u32,
    },
    /// There is a channel with this number already.
    #[error("there is a channel {id} already: close it first")]
    Taken {
        /// The number.
        id: u64,
    },
    /// No more sockets can be watched.
    #[error(
        "the socket cannot be waited for: epoll_ctl(2) failed: {0}; fs.epoll.max_user_watches limits \
         how many can be"
    )]
    Watch(Errno),
}

/// The reason why a channel ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Ended {
    /// Its ring is inconsistent.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// Its socket does not receive any more.
    #[error(transparent)]
    Socket(#[from] ReceiveError),
}
