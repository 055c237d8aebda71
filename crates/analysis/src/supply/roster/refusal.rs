//! Why a reservation does not join, and what would.

use punctual_model::{Instant, Reservation};
use thiserror::Error;

use super::super::timetable::TimetableRefusal;
use super::MOST_OWNERS;
use crate::ratio::Ratio;

/// The test that a reservation failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Failed {
    /// There is no table.
    #[error("{0}")]
    NoTable(TimetableRefusal),
    /// There is a table, which takes more of the CPU than it may.
    #[error(
        "the timetable would take {needed} of the CPU with its switches, and may take {most}, \
         because the rest is kept for ordinary work (kernel.sched_rt_runtime_us)"
    )]
    AboveCap {
        /// What its slots take, rounded up.
        needed: Ratio,
        /// The limit.
        most: Ratio,
    },
    /// A bound of the dispatcher.
    #[error("there would be more than {} reservations on it", MOST_OWNERS)]
    TooMany,
    /// There is a table, and no way to it.
    #[error(
        "there is a timetable, but no instant was found at which to change to it without taking \
         time from a reservation that stands"
    )]
    NoSeam,
    /// A time constraint that was accepted would be broken.
    #[error("the free time was promised to a time constraint with the deadline {deadline}")]
    Promised {
        /// Its deadline.
        deadline: Instant,
    },
}

/// A no, with what would fit.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{asked} does not fit on this CPU: {failed}; {}", Offer(*offer))]
pub struct RosterRefusal {
    /// What was asked.
    pub asked: Reservation,
    /// Why not.
    pub failed: Failed,
    /// The same period with the largest budget found that fits.
    pub offer: Option<Reservation>,
}

struct Offer(Option<Reservation>);

impl core::fmt::Display for Offer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            Some(offer) => write!(f, "{offer} would fit"),
            None => f.write_str("no budget with this period would"),
        }
    }
}
