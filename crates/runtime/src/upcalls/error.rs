//! Why upcalls are refused, do not run, or do not obey.

use punctual_analysis::Refusal;
use punctual_linux::sched::SchedError;
use punctual_linux::shm::ShmError;
use punctual_linux::timer::TimerError;
use punctual_model::Duration;
use thiserror::Error;

use crate::reservation::KernelOffer;

/// Why an upcall was not created or changed.
#[derive(Debug, Error)]
pub enum CreateError {
    /// It and those created before do not all fit, on the CPU or inside their reservation.
    #[error(transparent)]
    Refused(Box<Refusal>),
    /// Best effort runs below all real-time work and is lifted by the thread that contains.
    #[error(
        "upcall {task} is of best effort, which needs upcalls outside reservations (it would spend \
         the budget) and grants (nobody would lift it), and with containment (it is lifted by it), and \
         whose contract cannot be changed; close it and create another"
    )]
    BestEffort {
        /// Its number.
        task: u32,
    },
    /// It was closed or never created.
    #[error("there is no upcall {task}: it was closed or never created")]
    NoSuchUpcall {
        /// The number given.
        task: u32,
    },
    /// What runs does not allocate.
    #[error(
        "there is room for {room} upcalls and all of it is taken; close one, or ask for more with \
         Upcalls::with_room before they run"
    )]
    NoRoom {
        /// How many there is room for.
        room: usize,
    },
    /// The upcalls have ended, because a handler panicked or the kernel took their class away.
    #[error("the upcalls do not run any more; stop them to learn why")]
    Ended,
}

/// Why an upcall does not do as it is told.
#[derive(Debug, Error)]
pub enum OrderError {
    /// It was closed or never created.
    #[error("there is no upcall {task}: it was closed or never created")]
    NoSuchUpcall {
        /// The number given.
        task: u32,
    },
    /// Its handler has not come back from an iteration. It was closed all the same.
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

/// Why the upcalls do not run.
#[derive(Debug, Error)]
pub enum StartError {
    /// The kernel refused the scheduling class.
    #[error(transparent)]
    Class(#[from] SchedError),
    /// The kernel has not the bandwidth for the reservation in which the upcalls were to run.
    #[error("{error}; {offer}")]
    NoBandwidth {
        /// What it said.
        error: SchedError,
        /// What it would have taken at that moment. Whether the upcalls would be in time in it is for
        /// [`super::Upcalls::create`] to say.
        offer: KernelOffer,
    },
    /// Whoever was to grant the thread its class did not, at the start or after a containment
    /// ([`super::Upcalls::with_grant`]).
    #[error("the upcalls' thread was granted no real-time class: {0}")]
    NotGranted(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The table of releases that the processes of this user share cannot be used.
    #[error("upcalls cannot be ordered across processes: {0}")]
    Table(#[from] ShmError),
    /// The thread could not be made.
    #[error("no thread for the upcalls: {0}")]
    Thread(#[from] std::io::Error),
    /// The timer of containment could not be made.
    #[error("handlers that do not come back could not be contained: {0}")]
    Timer(#[from] TimerError),
    /// Containment failed while they ran, and they ended rather than go on without.
    #[error(
        "handlers that do not come back could be contained no longer, for want of a thread: {0}"
    )]
    Unwatched(std::io::Error),
    /// A callback would wake more often than it can.
    #[error("a callback every {period} would never sleep; ask for {least} or more")]
    Period {
        /// What was asked for.
        period: Duration,
        /// The shortest there is.
        least: Duration,
    },
    /// They run in the process that this one was forked from.
    #[error(
        "the upcalls are those of process {owner}, from which this one was forked; stop them there"
    )]
    Forked {
        /// Its id.
        owner: u32,
    },
}
