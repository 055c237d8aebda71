//! The trait between work and its driver, in virtual time and on a live kernel.

use crate::time::Instant;

/// The code of an upcall: it processes a batch of PDUs each period, a few at a time.
///
/// A driver (the simulator, or the runtime) calls `iterate` and then `commit`, in pairs, for at
/// most `batch` PDUs a job. The yield point lies between a `commit` and the next `iterate`: other
/// handlers run there and nowhere else, so handlers need no locks (real-time upcalls, §4 and §5.1:
/// the work of one iteration is never interleaved with another handler's).
///
/// A handler reads no clock: it receives both instants, so the same handler runs in virtual time
/// and live.
pub trait Handler {
    /// Processes up to `pdus` PDUs with the input available at `now`, and returns how many it
    /// processed. Zero ends the job: there is no more work in this period.
    #[must_use = "zero ends the job"]
    fn iterate(&mut self, now: Instant, pdus: u32) -> u32;

    /// Makes the output of the last `iterate` take effect. Its work was finished at `now`.
    fn commit(&mut self, now: Instant) {
        let _ = now;
    }
}

/// Lets a driver use a handler that it does not own.
impl<H: Handler + ?Sized> Handler for &mut H {
    fn iterate(&mut self, now: Instant, pdus: u32) -> u32 {
        (**self).iterate(now, pdus)
    }

    fn commit(&mut self, now: Instant) {
        (**self).commit(now);
    }
}

/// Lets a driver use handlers of different types together, as `Box<dyn Handler>`.
impl<H: Handler + ?Sized> Handler for alloc::boxed::Box<H> {
    fn iterate(&mut self, now: Instant, pdus: u32) -> u32 {
        (**self).iterate(now, pdus)
    }

    fn commit(&mut self, now: Instant) {
        (**self).commit(now);
    }
}
