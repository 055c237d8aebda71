//! The reasons why a grant is not in force.

use punctual_linux::sched::SchedError;
use punctual_linux::thread::Tid;
use punctual_model::Duration;
use rustix::io::Errno;
use thiserror::Error;

/// The reason why a grant is not in force.
#[derive(Debug, Error)]
pub enum GiveError {
    /// The kernel refused the class.
    #[error(transparent)]
    Class(#[from] SchedError),
    /// The thread is not the peer's, or has ended.
    #[error(
        "thread {thread} is no thread of process {pid}; give the kernel's id (gettid(2)) of one of your own"
    )]
    NotYours {
        /// The id that was given.
        thread: Tid,
        /// The peer.
        pid: i32,
    },
    /// The process now runs as another user, or partly so.
    #[error(
        "process {pid} does not run as user {uid} alone (real, effective, saved and file system user): \
         ask as the user that is to hold the grant"
    )]
    OtherUser {
        /// The peer.
        pid: i32,
        /// The user that connected.
        uid: u32,
    },
    /// A limit cannot be set.
    #[error("{limit} of process {pid} cannot be set: {errno}")]
    Limit {
        /// The name of the limit.
        limit: &'static str,
        /// The process.
        pid: i32,
        /// The error.
        errno: Errno,
    },
    /// The process would not be stopped if it ran for ever.
    #[error(
        "process {pid} has a hard RLIMIT_RTTIME of {}, and SCHED_FIFO is given only with one of at \
         most {most}: set it (setrlimit(2)) and ask again", found(*.has)
    )]
    NoRunLimit {
        /// The process.
        pid: i32,
        /// Its limit.
        has: Option<Duration>,
        /// The highest limit allowed.
        most: Duration,
    },
    /// The dispatcher does not hold the program.
    #[error("the program cannot be held: {0}")]
    NotHeld(String),
    /// A program is named by its process.
    #[error("{thread} is no process's id; a program is named by that of its process")]
    NoProcess {
        /// The id that was given.
        thread: Tid,
    },
    /// The thread cannot be pinned.
    #[error("thread {thread} cannot run on CPU {cpu}, where its upcalls were admitted: {errno}")]
    Pinned {
        /// The thread.
        thread: Tid,
        /// The CPU.
        cpu: usize,
        /// The error.
        errno: Errno,
    },
}

fn found(limit: Option<Duration>) -> String {
    limit.map_or_else(|| "none".into(), |limit| limit.to_string())
}
