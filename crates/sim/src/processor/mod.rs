//! The processor under the tasks: the whole of one, or what a reservation, a timetable, other
//! reservations or a hypervisor leave of it.
//!
//! | processor | when the tasks have it |
//! |---|---|
//! | [`Whole`] | always |
//! | [`Periods`] | X somewhere in every period Y: early, late, or early once and then late |
//! | [`Servers`] | inside one of several reservations, or below all of them |
//! | [`Stolen`] | as another of these, but for what a hypervisor takes |
//! | [`Tabled`] | as another of these, in the slots of one owner of a timetable or between all slots |
//! | [`Received`] | as another of these, while a thread has no message to take in |
//! | [`crate::tasks::Below`] | as another of these, while other tasks have no job |
//! | [`Taken`] | but for stretches that were found beforehand |
//!
//! A stretch without the processor is no event of a job: to the job its processor stands still.
//! Nothing starts or resumes in it; a quantum goes on after it. Where it is away because of [`Tabled`] or
//! [`crate::tasks::Below`], the job gives way and resumes, and pays a switch for that.

mod periods;
mod received;
mod servers;
mod stolen;
mod tabled;
mod taken;

use punctual_model::Instant;

pub use periods::{Periods, Place};
pub use received::{Incoming, Received, Taking};
pub use servers::{Demand, ServerError, Servers};
pub use stolen::{Stolen, Theft};
pub use tabled::{Part, Tabled};
pub use taken::Taken;

/// Whether the tasks have the processor, and for how long that surely stays so.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Whether they have it.
    pub served: bool,
    /// When to ask again: later than the instant asked about.
    pub until: Instant,
}

/// A processor in virtual time.
pub trait Processor {
    /// Whether it is always there: known at compile time, so that the plain case costs nothing.
    const WHOLE: bool;

    /// Time has come to `now`, at or after the instant asked about last; whether any job was there
    /// to run since then is what was said last. From `now` on, `wanted` says it.
    fn at(&mut self, now: Instant, wanted: bool) -> Stretch;

    /// Whether it is away because something above runs, which a job is then told as giving way, and pays the
    /// switch back from. By default it just stands still.
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

/// All of a processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whole;

impl Processor for Whole {
    const WHOLE: bool = true;

    fn at(&mut self, _: Instant, _: bool) -> Stretch {
        Stretch { served: true, until: Instant::MAX }
    }
}
