//! The reasons something could not be passed, and what would help.

use rustix::io::Errno;
use thiserror::Error;

/// The reason descriptors could not be passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PassError {
    /// There are more descriptors than one message may have, or none.
    #[error("{count} descriptors cannot be passed in a message: pass 1 to {most}")]
    Count {
        /// The number given.
        count: usize,
        /// The largest number allowed.
        most: usize,
    },
    /// A message without bytes cannot carry descriptors over a stream.
    #[error("descriptors are passed with a message, which needs at least one byte")]
    NoBytes,
    /// The other side sent a longer message, or more descriptors; or RLIMIT_NOFILE left no room for
    /// them. The received descriptors are closed.
    #[error(
        "a message was longer than {bytes} bytes, had more than {descriptors} descriptors, or more \
         than this process may open (ulimit -n): close this connection, or raise that limit"
    )]
    Truncated {
        /// The bytes that there was room for.
        bytes: usize,
        /// The descriptors that there was room for.
        descriptors: usize,
    },
    /// Only part of the message fitted.
    #[error("only {sent} of {bytes} bytes were taken: close this connection, it is out of step")]
    Partly {
        /// The bytes that were taken.
        sent: usize,
        /// The bytes of the message.
        bytes: usize,
    },
    /// The socket has nothing to receive, or no room, and does not wait.
    #[error("the socket would have to wait: poll it first")]
    WouldWait,
    /// The other side has closed the connection.
    #[error("the other side has closed the connection: connect anew")]
    Gone,
    /// Any other error.
    #[error("passing descriptors failed: {0}")]
    Failed(Errno),
}

impl From<Errno> for PassError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::AGAIN => Self::WouldWait,
            Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN => Self::Gone,
            errno => Self::Failed(errno),
        }
    }
}
