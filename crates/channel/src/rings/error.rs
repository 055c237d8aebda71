//! Why there is no queue.

use punctual_linux::memfd::MemfdError;
use punctual_linux::pass::PassError;
use punctual_ring::frames::AttachError;
use rustix::io::Errno;
use thiserror::Error;

/// Why client and server do not share a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RingError {
    /// There is no such memory, or it could hurt whoever maps it.
    #[error(transparent)]
    Memory(#[from] MemfdError),
    /// It is no queue.
    #[error("the shared memory is no queue of messages: {0}")]
    Queue(#[from] AttachError),
    /// There is no bell.
    #[error("there is no bell to wake each other: {0}")]
    Bell(#[from] PassError),
    /// No descriptor is left.
    #[error("a descriptor cannot be duplicated: {0}; raise the limit on open files (ulimit -n)")]
    Descriptors(Errno),
    /// Of other messages than were granted.
    #[error(
        "the queue has {slots} slots of {bytes} bytes instead of the {expected_slots} of \
         {expected_bytes} that were granted: map it as granted"
    )]
    OtherGeometry {
        /// What it has.
        slots: u32,
        /// What they hold.
        bytes: u32,
        /// What was granted.
        expected_slots: u32,
        /// What those hold.
        expected_bytes: u32,
    },
}
