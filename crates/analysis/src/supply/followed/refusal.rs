//! The reasons why a reservation does not join a timetable, and what would fit.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use punctual_model::{Instant, Reservation};
use thiserror::Error;

use super::super::timetable::TimetableRefusal;
use super::MOST_OWNERS;
use crate::entry::EntryKind;
use crate::offer::{Axis, Offer, Offers};
use crate::ratio::Ratio;
use crate::verdict::{Refusal, Resource, Shortfall};

/// The test that refuses a reservation for which there is no timetable.
pub(crate) const TEST: &str = "timetable";

/// The reason why no timetable holds a reservation beside the others.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Failed {
    /// There is no table.
    #[error("{0}")]
    NoTable(TimetableRefusal),
    /// There is a table, but it takes more of the CPU than it may.
    #[error(
        "the timetable would take {needed} of the CPU with its switches, and may take {most}, \
         because the rest is kept for ordinary work (kernel.sched_rt_runtime_us)"
    )]
    AboveCap {
        /// The share of its slots, rounded up.
        needed: Ratio,
        /// The limit.
        most: Ratio,
    },
    /// The dispatcher's limit is reached.
    #[error("there would be more than {} reservations on it", MOST_OWNERS)]
    TooMany,
    /// There is a table, but no instant at which to change to it.
    #[error(
        "there is a timetable, but no instant was found at which to change to it without taking \
         time from a reservation that stands"
    )]
    NoModeChange,
    /// There is a table only if other slots move, beneath which tasks or channels are proven.
    #[error(
        "the free time does not hold it, and the slots of the others stay where they are, because tasks or channels \
         run beneath them"
    )]
    NoFreeTime,
    /// An accepted time constraint would be broken.
    #[error("the free time was promised to a time constraint with the deadline {deadline}")]
    Promised {
        /// The constraint's deadline.
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

/// Refuses `asked` because of `failed`, and offers the same period with the largest budget that was
/// found to fit.
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

/// Returns an offer of another budget in place of `asked`, or the result that none was found.
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
