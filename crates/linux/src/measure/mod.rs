//! The costs of operations on this host. Each function takes samples for a given length of time, on
//! threads of its own, and returns them unsorted; the caller judges them.
//!
//! Two threads that take turns are bound to one CPU and, if they may, run at one SCHED_FIFO
//! priority, so that no ordinary thread comes between. They keep that CPU busy: measure in bursts
//! of some tens of milliseconds, with pauses in which other threads can run. Every loop ends by the
//! clock, so no thread spins on if its partner is gone.

mod cache;
mod calls;
mod halting;
mod hand_off;
mod seat;
mod switches;
mod wakeup;

use std::io;

use rustix::io::Errno;
use thiserror::Error;

use crate::sched::SchedError;
use crate::thread::AffinityError;

pub use cache::WorkingSets;
pub use calls::{clock_read, page_fault, priority_change, system_call};
pub use halting::{Halting, Timers, halting};
pub use hand_off::hand_off;
pub use seat::Seat;
pub use switches::process_switch;
pub use switches::thread_switch;
pub use wakeup::wakeup;

/// The SCHED_FIFO priority of measuring threads: above ordinary real-time work, below anything that
/// an administrator keeps at the top.
pub const PRIORITY: u8 = 90;

/// The most samples that one call returns; they are allocated before anything is timed.
const MOST_SAMPLES: usize = 1 << 16;

/// The reason something could not be measured.
#[derive(Debug, Error)]
pub enum MeasureError {
    /// A thread may not run under the class that the measurement needs.
    #[error(transparent)]
    Class(#[from] SchedError),
    /// A thread may not run on the CPU that the measurement needs.
    #[error(transparent)]
    Cpu(#[from] AffinityError),
    /// One of two threads could not start, or did not start in time.
    #[error(
        "the thread to take turns with did not get its CPU within seconds: the host is overloaded"
    )]
    NoPartner,
    /// clone(2) failed.
    #[error("no thread could be made: {0}; raise the limit on processes (ulimit -u)")]
    NoThread(io::Error),
    /// fork(2) failed.
    #[error("no process could be made: {0}; raise the limit on processes (ulimit -u)")]
    NoProcess(io::Error),
    /// The CPUs could not be kept from halting, so there is nothing to compare with.
    #[error("the CPUs could not be kept from halting: {0}")]
    Awake(io::Error),
    /// mmap(2) failed.
    #[error("no memory could be mapped: {0}")]
    NoMemory(Errno),
}

#[cfg(test)]
mod tests;
