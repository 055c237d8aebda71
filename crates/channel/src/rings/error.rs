//! The errors of making a queue.

use punctual_linux::memfd::MemfdError;
use punctual_linux::pass::PassError;
use punctual_ring::frames::AttachError;
use rustix::io::Errno;
use thiserror::Error;

/// The reason why client and server do not share a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RingError {
    /// The memory does not exist, or could hurt the process that maps it.
    #[error(transparent)]
    Memory(#[from] MemfdError),
    /// The memory is no queue.
    #[error("the shared memory is no queue of messages: {0}")]
    Queue(#[from] AttachError),
    /// The bell could not be created.
    #[error("there is no bell to wake each other: {0}")]
    Bell(#[from] PassError),
    /// No descriptor is left.
    #[error("a descriptor cannot be duplicated: {0}; raise the limit on open files (ulimit -n)")]
    Descriptors(Errno),
    /// The queue differs from the granted one.
    #[error(
        "the queue has {slots} slots of {bytes} bytes instead of the {expected_slots} of \
         {expected_bytes} that were granted: map it as granted"
    )]
    OtherGeometry {
        /// Its number of slots.
        slots: u32,
        /// Their size.
        bytes: u32,
        /// The granted number of slots.
        expected_slots: u32,
        /// Their granted size.
        expected_bytes: u32,
    },
}
