//! The kernel class under which the upcalls of a process run.

use punctual_linux::sched::{self, Class, SchedError};
use punctual_linux::thread::{self, Tid};
use punctual_model::{Duration, Reservation};

use crate::level_order::{LevelOrder, Rates};
use crate::reservation::KernelOffer;
use crate::upcalls::StartError;

/// The kernel class that backs the promise made to upcalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// An ordinary thread without any promise. Exists for comparison.
    Ordinary,
    /// Real-time upcalls: SCHED_FIFO, waiting at the priority of their rate and running at the
    /// running level (see [`crate::level_order`]).
    Upcalls,
    /// A CPU reservation: SCHED_DEADLINE.
    Reserved(Reservation),
    /// One fixed real-time class, granted to the thread by a privileged program: the broker in
    /// level mode. [`crate::Upcalls::with_grant`] says how to ask for it.
    ///
    /// The thread neither rises nor sinks. So preemption between the upcalls of the process is
    /// delayed as ever, and preemption between it and other threads is immediate, by the kernel's
    /// priorities.
    Granted,
}

/// Obtains a real-time class for the calling thread.
pub(crate) type Grant = Box<dyn FnMut(Tid) -> Result<(), NotGranted> + Send>;

/// The reason why the class was not obtained.
pub(crate) type NotGranted = Box<dyn std::error::Error + Send + Sync>;

impl Placement {
    /// Puts the calling thread in this placement. Returns the level order that it must keep, if
    /// any.
    pub(crate) fn enter(
        self,
        rates: Rates,
        grant: Option<&mut Grant>,
    ) -> Result<Option<LevelOrder>, StartError> {
        let this = thread::current();
        match self {
            Self::Ordinary => {
                // With the slack of ordinary sleeps removed, only the class is compared.
                thread::set_timer_slack(Duration::from_nanos(1));
                Ok(None)
            }
            Self::Upcalls => LevelOrder::enter(rates).map(Some),
            Self::Reserved(reservation) => {
                let class = Class::Deadline { reservation, reset_on_fork: true };
                sched::set(this, class).map_err(|error| match error {
                    SchedError::NoBandwidth { .. } => {
                        let offer = KernelOffer::instead_of(reservation);
                        StartError::NoBandwidth { error, offer }
                    }
                    other => StartError::Class(other),
                })?;
                Ok(None)
            }
            Self::Granted => obtain(grant).map(|()| None).map_err(StartError::NotGranted),
        }
    }
}

/// Has the calling thread granted a real-time class, and checks that it has one.
pub(crate) fn obtain(grant: Option<&mut Grant>) -> Result<(), NotGranted> {
    let Some(grant) = grant else {
        return Err(
            "no function was given that obtains it; give one with Upcalls::with_grant".into()
        );
    };
    let this = thread::current();
    grant(this)?;
    match sched::get(this).map_err(|gone: SchedError| Box::new(gone))?.policy_name() {
        "SCHED_FIFO" | "SCHED_RR" | "SCHED_DEADLINE" => {
            // Before Linux 6.12 a real-time thread's futex(2) is late by its slack as well.
            thread::set_timer_slack(Duration::from_nanos(1));
            Ok(())
        }
        other => Err(format!(
            "thread {this} is under {other}, although it was to be granted a real-time class"
        )
        .into()),
    }
}
