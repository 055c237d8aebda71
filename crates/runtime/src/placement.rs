//! Under which kernel class the upcalls of a process run.

use punctual_linux::sched::{self, Class};
use punctual_linux::thread;
use punctual_model::{Duration, Reservation};

use crate::ceiling::{Ceiling, Rates};
use crate::upcalls::StartError;

/// What stands behind the promise made to upcalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// An ordinary thread: no promise at all. There to be compared with.
    Ordinary,
    /// Real-time upcalls: SCHED_FIFO, waiting at the priority of their rate and running at the
    /// ceiling (see [`crate::ceiling`]).
    Upcalls,
    /// A CPU reservation: SCHED_DEADLINE.
    Reserved(Reservation),
}

impl Placement {
    /// Puts the calling thread there; the ceiling protocol it must keep, if any.
    pub(crate) fn enter(self, rates: Rates) -> Result<Option<Ceiling>, StartError> {
        let this = thread::current();
        match self {
            Self::Ordinary => {
                // So that only the class is compared, not the slack of ordinary sleeps.
                thread::set_timer_slack(Duration::from_nanos(1));
                Ok(None)
            }
            Self::Upcalls => Ceiling::enter(rates).map(Some),
            Self::Reserved(reservation) => {
                sched::set(this, Class::Deadline { reservation, reset_on_fork: true })?;
                Ok(None)
            }
        }
    }
}
