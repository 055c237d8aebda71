//! Reservations: the service they guarantee, the work that fits inside them, and timetables that
//! keep them.
//!
//! - [`bound`]: the least service in any window (supply bound functions) and its inverse.
//! - [`inside`]: task sets in a reservation, by [`fixed_priority`] or [`earliest_deadline`], and
//!   the least budget for them.
//! - [`region`]: from a periodic demand to the sufficient (X, Y): the soft modem study's Figure 17.
//! - [`timetable`]: X in every window of length Y, for any mix of periods, by a static cyclic
//!   timetable; `harmonic` chooses its periods and `placement` its slots.
//! - [`followed`]: a timetable while it is followed; [`extend`] adds a reservation to it,
//!   [`mode_change`] finds the instant of a change to another; [`together`] builds tables that
//!   begin together, on several CPUs. [`crate::System`] admits with all of them.
//! - [`deferrable`]: a reservation whose holder runs whenever it wakes, within a budget.
//! - [`constraint`]: one-shot time constraints in the time that a timetable leaves free.
//!
//! The proofs are in docs/reservations.md.

pub mod bound;
pub mod constraint;
pub mod deferrable;
pub mod earliest_deadline;
pub mod extend;
pub mod fixed_priority;
pub mod followed;
mod harmonic;
pub mod inside;
pub mod mode_change;
mod placement;
pub mod region;
pub mod timetable;
pub mod together;

pub use bound::{Guarantee, Inside, Supply};
pub use constraint::{Commitments, NoRoom, TimeConstraint};
pub use deferrable::MOST_SERVERS;
pub use followed::{Failed, Handover, MOST_OWNERS, Rules};
pub use inside::{LeastBudget, fits_inside, least_budget};
pub use mode_change::{Anchored, Continuing};
pub use region::{Insufficient, PeriodicDemand};
pub use timetable::{Built, Limits, Share, TimetableRefusal, TooCoarse, build, counter_offer};
