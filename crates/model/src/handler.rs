//! The one trait by which work meets whoever drives it, in virtual time or on a live kernel.

use crate::time::Instant;

/// The code of an upcall: it processes a batch of PDUs each period, a few at a time.
///
/// A driver (the simulator, or the runtime) calls `iterate` and then `commit`, in pairs, at most
/// `batch` PDUs a job. Between a `commit` and the next `iterate` lies a yield point: another
/// handler may run there, and nowhere else. That is what frees handlers from locking (real-time
/// upcalls, §4 and §5.1: the work of one iteration is never interleaved with another handler's).
///
/// A handler reads no clock: both instants are given to it, so that the same handler runs in
/// virtual time and live.
pub trait Handler {
    /// Processes up to `pdus` PDUs with the input there is at `now`; returns how many it
    /// processed. Zero ends the job: there is nothing left for it to do in this period.
    #[must_use = "zero ends the job"]
    fn iterate(&mut self, now: Instant, pdus: u32) -> u32;

    /// The work of the last `iterate` was finished at `now`: what it produced takes effect.
    fn commit(&mut self, now: Instant) {
        let _ = now;
    }
}

/// A borrowed handler is one: a driver need not own it.
impl<H: Handler + ?Sized> Handler for &mut H {
    fn iterate(&mut self, now: Instant, pdus: u32) -> u32 {
        (**self).iterate(now, pdus)
    }

    fn commit(&mut self, now: Instant) {
        (**self).commit(now);
    }
}

/// Handlers of different types, as `Box<dyn Handler>`, are driven together.
impl<H: Handler + ?Sized> Handler for alloc::boxed::Box<H> {
    fn iterate(&mut self, now: Instant, pdus: u32) -> u32 {
        (**self).iterate(now, pdus)
    }

    fn commit(&mut self, now: Instant) {
        (**self).commit(now);
    }
}
