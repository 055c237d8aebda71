//! Why something could not be passed, and what would help.

use rustix::io::Errno;
use thiserror::Error;

/// Why descriptors could not be passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PassError {
    /// More than the kernel takes in a message, or none.
    #[error("{count} descriptors cannot be passed in a message: pass 1 to {most}")]
    Count {
        /// How many there were.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// A message without bytes cannot carry descriptors over a stream.
    #[error("descriptors are passed with a message, which needs at least one byte")]
    NoBytes,
    /// The other side sent a longer message, or more descriptors; or there was no room for them
    /// below RLIMIT_NOFILE. What was received of them is closed.
    #[error(
        "a message was longer than {bytes} bytes, had more than {descriptors} descriptors, or more \
         than this process may open (ulimit -n): close this connection, or raise that limit"
    )]
    Truncated {
        /// The bytes there was room for.
        bytes: usize,
        /// The descriptors there was room for.
        descriptors: usize,
    },
    /// Only part of the message fitted.
    #[error("only {sent} of {bytes} bytes were taken: close this connection, it is out of step")]
    Partly {
        /// The bytes taken.
        sent: usize,
        /// The bytes there were.
        bytes: usize,
    },
    /// Nothing there, or no room, and the socket does not wait.
    #[error("the socket would have to wait: poll it first")]
    WouldWait,
    /// The other side has closed it.
    #[error("the other side has closed the connection: connect anew")]
    Gone,
    /// Anything else.
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
