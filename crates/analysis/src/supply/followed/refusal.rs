//! Why a reservation does not join, and what would.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use punctual_model::{Instant, Reservation};
use thiserror::Error;

use super::super::timetable::TimetableRefusal;
use super::MOST_OWNERS;
use crate::offer::{Axis, EntryKind, Offer, Offers};
use crate::ratio::Ratio;
use crate::verdict::{Refusal, Resource, Shortfall};

/// The test by which reservations are refused that no timetable holds.
pub(crate) const TEST: &str = "timetable";

/// Why no timetable holds a reservation beside the others.
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
    NoModeChange,
    /// There is a table only if others move, beneath whose slots something is proven.
    #[error(
        "the free time does not hold it, and the slots of the others stay where they are, because tasks or channels \
         run beneath them"
    )]
    NoFreeTime,
    /// A time constraint that was accepted would be broken.
    #[error("the free time was promised to a time constraint with the deadline {deadline}")]
    Promised {
        /// Its deadline.
        deadline: Instant,
    },
}

impl Failed {
    fn resource(&self) -> Resource {
        match self {
            Self::NoTable(TimetableRefusal::TooManySlots { .. }) | Self::TooMany => Resource::Slots,
            _ => Resource::Cpu,
        }
    }
}

/// Refuses `asked` because it `failed`, and offers the same period with the largest budget that was found to fit.
pub(crate) fn refusal(
    asked: Reservation,
    failed: &Failed,
    offer: Option<Reservation>,
) -> Box<Refusal> {
    let excess = |offer: Reservation| asked.budget().saturating_sub(offer.budget()).at_full_speed();
    let why = format!("{asked} does not fit on this CPU: {failed}");
    Box::new(Refusal {
        shortfall: offer.map(excess).map(Shortfall::Time),
        offers: offers(asked, offer),
        ..Refusal::new(TEST, failed.resource(), why)
    })
}

/// Offers another budget in place of what was `asked`, or says that none was found.
pub(crate) fn offers(asked: Reservation, offer: Option<Reservation>) -> Offers {
    let budget = offer.map(|offer| Offer {
        entry: String::new(),
        kind: EntryKind::Reservation,
        axis: Axis::Budget,
        from: asked.budget().as_nanos(),
        to: offer.budget().as_nanos(),
    });
    Offers::found(budget.into_iter().collect())
}
