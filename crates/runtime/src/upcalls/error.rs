//! The errors of creating, starting and changing upcalls.

use punctual_analysis::Refusal;
use punctual_linux::sched::SchedError;
use punctual_linux::shm::ShmError;
use punctual_linux::timer::TimerError;
use punctual_model::Duration;
use thiserror::Error;

use crate::reservation::KernelOffer;

/// The reason why an upcall was not created or changed.
#[derive(Debug, Error)]
pub enum CreateError {
    /// The upcall and those created before it do not all fit, on the CPU or inside their
    /// reservation.
    #[error(transparent)]
    Refused(Box<Refusal>),
    /// Best effort runs below all real-time work, and the guard of containment lifts it.
    #[error(
        "upcall {task} is best effort: that needs containment (its guard lifts the thread), no \
         reservation (it would spend the budget) and no granted class (the thread could not be \
         lifted), and its contract cannot be changed; close it and create another"
    )]
    BestEffort {
        /// The number of the upcall.
        task: u32,
    },
    /// The upcall was closed or never created.
    #[error("there is no upcall {task}: it was closed or never created")]
    NoSuchUpcall {
        /// The number given.
        task: u32,
    },
    /// All slots are taken: running upcalls do not allocate.
    #[error(
        "there is room for {room} upcalls and all of it is taken; close one, or ask for more with \
         Upcalls::with_room before they run"
    )]
    NoRoom {
        /// The number of slots.
        room: usize,
    },
    /// The upcalls have ended, because a handler panicked or the kernel took their class away.
    #[error("the upcalls do not run any more; stop them to learn why")]
    Ended,
}

/// The reason why an order to an upcall failed.
#[derive(Debug, Error)]
pub enum OrderError {
    /// The upcall was closed or never created.
    #[error("there is no upcall {task}: it was closed or never created")]
    NoSuchUpcall {
        /// The number given.
        task: u32,
    },
    /// Its handler has not returned from an iteration. The upcall was closed all the same.
    #[error(
        "the handler of upcall {task} has not come back; the upcall is closed, and stopping all of \
         them gives the handler back if it has come by then"
    )]
    StillOut {
        /// The number given.
        task: u32,
    },
    /// The upcalls have ended, because a handler panicked or the kernel took their class away.
    #[error("the upcalls do not run any more; stop them to learn why")]
    Ended,
}

/// The reason why the upcalls do not run.
#[derive(Debug, Error)]
pub enum StartError {
    /// The kernel refused the scheduling class.
    #[error(transparent)]
    Class(#[from] SchedError),
    /// The kernel lacks the bandwidth for the reservation in which the upcalls were to run.
    #[error("{error}; {offer}")]
    NoBandwidth {
        /// The kernel's answer.
        error: SchedError,
        /// The reservation that the kernel would have accepted at that moment.
        /// [`super::Upcalls::create`] decides whether the upcalls would be in time in it.
        offer: KernelOffer,
    },
    /// The thread was granted no class, at the start or after a containment
    /// ([`super::Upcalls::with_grant`]).
    #[error("the upcalls' thread was granted no real-time class: {0}")]
    NotGranted(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The table of releases that the processes of this user share cannot be used.
    #[error("upcalls cannot be ordered across processes: {0}")]
    Table(#[from] ShmError),
    /// The thread could not be created.
    #[error("no thread for the upcalls: {0}")]
    Thread(#[from] std::io::Error),
    /// The timer of containment could not be created.
    #[error("handlers that do not come back could not be contained: {0}")]
    Timer(#[from] TimerError),
    /// Containment failed while the upcalls ran, and they ended rather than go on without it.
    #[error(
        "handlers that do not return can no longer be contained, because a thread could not be started: {0}"
    )]
    Unwatched(std::io::Error),
    /// A callback's period is too short for it to sleep.
    #[error("a callback every {period} would never sleep; ask for {least} or more")]
    Period {
        /// The requested period.
        period: Duration,
        /// The shortest period that is accepted.
        least: Duration,
    },
    /// The upcalls run in the process from which this one was forked.
    #[error(
        "the upcalls are those of process {owner}, from which this one was forked; stop them there"
    )]
    Forked {
        /// The id of that process.
        owner: u32,
    },
}
