//! The errors of reservations.

use punctual_analysis::Refusal;
use punctual_analysis::supply::NoRoom;
use punctual_linux::cgroup::CgroupError;
use punctual_linux::sched::SchedError;
use punctual_linux::thread::{AffinityError, Tid};
use thiserror::Error;

use super::choose::Unsuitable;
use super::kernel_offer::KernelOffer;

/// The reason why no timetable can be followed on a CPU.
#[derive(Debug, Error)]
pub enum StartError {
    /// Another process follows a timetable on it.
    #[error(
        "another process follows a timetable on CPU {cpu}; ask that one (the broker, if it is one; else \
         `ss -xlp` names the holder of @punctual-dispatcher-cpu-{cpu}), or choose another CPU"
    )]
    Taken {
        /// The CPU.
        cpu: usize,
    },
    /// This process may not use it.
    #[error("no timetable on CPU {cpu}: {error}")]
    Cpu {
        /// The CPU.
        cpu: usize,
        /// The reason.
        error: AffinityError,
    },
    /// The dispatcher got no real-time priority.
    #[error(transparent)]
    Class(#[from] SchedError),
    /// The dispatcher ended.
    #[error("the dispatcher of CPU {cpu} ended before it began")]
    Ended {
        /// The CPU.
        cpu: usize,
    },
    /// A thread, the guard, or the socket could not be created.
    #[error("no dispatcher: {0}")]
    Thread(#[from] std::io::Error),
}

/// The reason why a reservation is not given, or not changed.
#[derive(Debug, Error)]
pub enum Refused {
    /// It does not fit beside what is reserved. If several CPUs were tried, this is the one that
    /// came nearest.
    #[error("CPU {cpu}: {refusal}")]
    DoesNotFit {
        /// The CPU.
        cpu: usize,
        /// The failing test, the shortfall, and what would fit.
        refusal: Box<Refusal>,
    },
    /// A time constraint does not fit.
    #[error("refused on CPU {cpu}: {refusal}")]
    NoRoom {
        /// The CPU.
        cpu: usize,
        /// The constraints that would fit.
        refusal: NoRoom,
    },
    /// No back end can do this here.
    #[error(transparent)]
    Unsuitable(#[from] Unsuitable),
    /// The kernel has no bandwidth left for its own reservation.
    #[error("{error}; {offer}")]
    NoBandwidth {
        /// The kernel's answer.
        error: SchedError,
        /// The reservation that the kernel would have accepted.
        offer: KernelOffer,
    },
    /// The kernel refused a class, or its own reservation for another reason.
    #[error(transparent)]
    Class(#[from] SchedError),
    /// The owner cannot be held in a group.
    #[error(transparent)]
    Group(#[from] CgroupError),
    /// No timetable can be followed.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The owner is under the kernel's own reservation.
    #[error(
        "thread {thread} is under SCHED_DEADLINE; it must leave that class itself before a timetable \
         can hold it"
    )]
    AlreadyReserved {
        /// The thread.
        thread: Tid,
    },
    /// The owner has ended, or never existed.
    #[error("the owner of the reservation has ended")]
    Gone,
    /// A bound of the dispatcher was reached.
    #[error(
        "there are {most} reservations or time constraints on this CPU already, and no more fit"
    )]
    TooMany {
        /// The bound.
        most: usize,
    },
    /// An error of a file, a child or the guard.
    #[error("the owner cannot be held: {0}")]
    Io(#[from] std::io::Error),
}
