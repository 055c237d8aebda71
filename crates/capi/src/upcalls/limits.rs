//! Limits arguments, so that sums of them never overflow 64 bits of nanoseconds.

use punctual_linux::clock;
use punctual_model::{Duration, Instant};

use crate::error::Failure;

/// The longest time. A longer one is a mistake in units, or a -1.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// Checks a length of time or of work.
pub(crate) fn within(ns: u64, name: &str) -> Result<u64, Failure> {
    if ns > LONGEST.as_nanos() {
        return Err(Failure::invalid(format!("{name} is {ns} ns, which is more than a year")));
    }
    Ok(ns)
}

/// Returns an instant to begin at, which is now if it has passed or is zero.
pub(crate) fn from_now_on(ns: u64, name: &str) -> Result<Instant, Failure> {
    let now = clock::now();
    let at = Instant::from_nanos(ns).max(now);
    within((at - now).as_nanos(), &format!("{name}, from now,"))?;
    Ok(at)
}

/// Returns the end of a time-out. All ones never ends.
pub(crate) fn after(timeout_ns: u64) -> Instant {
    clock::now().saturating_add(Duration::from_nanos(timeout_ns))
}
