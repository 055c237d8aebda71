//! Models the processor under the tasks: a whole one, or what a reservation, a timetable, other
//! reservations or a hypervisor leave of one.
//!
//! | processor | when the tasks have it |
//! |---|---|
//! | [`Whole`] | always |
//! | [`Periods`] | X somewhere in every period Y: early, late, or early once and then late |
//! | [`Servers`] | inside one of several reservations, or below all of them |
//! | [`Stolen`] | as another of these, except for what a hypervisor takes |
//! | [`Tabled`] | as another of these, in the slots of one owner of a timetable or between all slots |
//! | [`Served`] | as another of these, while no holder of a deferrable server uses its budget |
//! | [`Received`] | as another of these, while a thread has no message to receive |
//! | [`crate::tasks::Below`] | as another of these, while other tasks have no job |
//! | [`Taken`] | except in given stretches |
//!
//! A stretch without the processor is no event of a job: the job sees its processor stand still.
//! Nothing starts or resumes in it, and a quantum continues after it. If the processor is away
//! because of [`Tabled`], [`Served`] or [`crate::tasks::Below`], the job gives way and resumes, and is charged
//! a switch for that.

mod periods;
mod received;
mod served;
mod servers;
mod tabled;
mod taken;

use punctual_model::Instant;

pub use periods::{Periods, Place};
pub use received::{Incoming, Received, Taking};
pub use served::Served;
pub use servers::{Demand, ServerError, Servers};
pub use tabled::{Part, Tabled};
pub use taken::{Stolen, Taken, Theft};

/// The availability of the processor to the tasks, and how long it certainly lasts.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// True if they have it.
    pub served: bool,
    /// The instant at which to ask again, later than the instant of the call.
    pub until: Instant,
}

/// A processor in virtual time.
pub trait Processor {
    /// True if the processor is always available; known at compile time, so that the plain case
    /// costs nothing.
    const WHOLE: bool;

    /// Advances to `now`, which is not before the previous call. The previous `wanted` says whether
    /// any job could run since then; this `wanted` holds from `now` on.
    fn at(&mut self, now: Instant, wanted: bool) -> Stretch;

    /// Returns whether the processor is away because something above runs. A job is then recorded
    /// as giving way, and is charged the switch back. By default the processor just stands still.
    fn preempts(&self) -> bool {
        false
    }
}

impl<P: Processor> Processor for &mut P {
    const WHOLE: bool = P::WHOLE;

    fn at(&mut self, now: Instant, wanted: bool) -> Stretch {
        (**self).at(now, wanted)
    }

    fn preempts(&self) -> bool {
        (**self).preempts()
    }
}

/// A whole processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whole;

impl Processor for Whole {
    const WHOLE: bool = true;

    fn at(&mut self, _: Instant, _: bool) -> Stretch {
        Stretch { served: true, until: Instant::MAX }
    }
}
