//! Why the broker does not run.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;
use thiserror::Error;

use crate::kernel::privileges::PrivilegeError;
use crate::ledger::LedgerError;
use punctual_model::FileError;

/// Why the broker does not run.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] FileError),
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The ledger cannot be used.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// Too little privilege.
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
    /// Nobody's use could be watched.
    #[error(
        "the processor time of threads cannot be read from /proc/PID/task/TID/schedstat: {why}; the \
         broker needs a kernel with CONFIG_SCHED_INFO"
    )]
    NoUse {
        /// What it says instead.
        why: String,
    },
    /// Nothing can connect.
    #[error("{}: cannot listen: {source}; is another broker running?", path.display())]
    Listen {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The wait for events failed.
    #[error("waiting for clients failed: {0}")]
    Wait(#[from] io::Error),
}

impl From<Errno> for ServeError {
    fn from(errno: Errno) -> Self {
        Self::Wait(errno.into())
    }
}
