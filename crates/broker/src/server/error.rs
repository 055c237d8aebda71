//! The errors that end the broker.

use std::io;
use std::path::PathBuf;

use punctual_analysis::Refusal;
use rustix::io::Errno;
use thiserror::Error;

use crate::kernel::privileges::PrivilegeError;
use crate::ledger::LedgerError;
use crate::link::LinkError;
use punctual_model::FileError;

/// The reason why the broker does not run.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] FileError),
    /// The configuration cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The ledger cannot be used.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The broker has too little privilege.
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
    /// The use of threads cannot be measured.
    #[error(
        "the processor time of threads cannot be read from /proc/PID/task/TID/schedstat: {why}; the \
         broker needs a kernel with CONFIG_SCHED_INFO"
    )]
    NoUse {
        /// The reading, or the error.
        why: String,
    },
    /// The threads that carry channels cannot be started.
    #[error(
        "channels cannot be carried: {0}; take [channels] out of the configuration to do without"
    )]
    Channels(io::Error),
    /// A thread that carries channels has ended.
    #[error(
        "a thread that carries channels has ended; its last words are in the log: start the broker \
         again, which goes on where this one was, and report it"
    )]
    CarrierLost,
    /// The guard cannot be started, or may not do its work.
    #[error("the guard, which polices what is granted, cannot be started: {0}")]
    NoGuard(io::Error),
    /// The guard has ended, or hangs.
    #[error(
        "the guard, which polices what is granted, is lost: {why}; start the broker again, which goes \
         on where this one was"
    )]
    GuardLost {
        /// The fault.
        why: String,
    },
    /// The dispatcher cannot be started.
    #[error("the dispatcher, which holds programs, cannot be started: {0}")]
    NoDispatcher(io::Error),
    /// The dispatcher has ended, or hangs.
    #[error(
        "the dispatcher, which holds programs, is lost: {why}; start the broker again, which goes on \
         where this one was"
    )]
    DispatcherLost {
        /// The fault.
        why: String,
    },
    /// There is no room for the channels' threads.
    #[error("what [channels] sets aside of the CPUs (cpu) cannot be promised: {0}")]
    NoRoomForChannels(Box<Refusal>),
    /// The broker cannot listen.
    #[error("{}: cannot listen: {source}; is another broker running?", path.display())]
    Listen {
        /// The path of the socket.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The front cannot be started.
    #[error("the part of the broker that speaks with clients cannot be started: {0}")]
    NoFront(io::Error),
    /// The front has ended.
    #[error(
        "the part of the broker that speaks with clients is lost: {0}; start the broker again, which \
         goes on where this one was"
    )]
    FrontLost(#[from] LinkError),
    /// The wait for events failed.
    #[error("waiting for clients failed: {0}")]
    Wait(#[from] io::Error),
}

impl From<Errno> for ServeError {
    fn from(errno: Errno) -> Self {
        Self::Wait(errno.into())
    }
}
