//! How much of this thread best effort gets, and when its datagrams are discarded before they cost.

use std::num::NonZeroU32;

use punctual_model::{Duration, Instant};
use punctual_policy::police::{Breach, Gcra, Policer as _, Verdict};

use super::police::spaced;

/// What best effort may take of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BestEffort {
    /// Datagrams a second, of all its channels together.
    pub datagrams_a_second: NonZeroU32,
    /// How many of them at once.
    pub burst: NonZeroU32,
}

impl BestEffort {
    /// The time between two at that rate.
    pub fn spacing(self) -> Duration {
        Duration::from_nanos(1_000_000_000 / u64::from(self.datagrams_a_second.get()))
    }
}

/// Hands out reads of best-effort datagrams.
#[derive(Clone, Debug)]
pub(super) struct Share {
    policer: Gcra,
    /// Handed out and not used; negative where a channel could only be read in one go.
    spare: i64,
}

impl Share {
    pub(super) fn new(best_effort: BestEffort) -> Self {
        let spacing = best_effort.spacing();
        let burst = u64::from(best_effort.burst.get());
        let tolerance = spacing.checked_mul(burst - 1).unwrap_or(Duration::MAX);
        Self { policer: spaced(spacing, tolerance), spare: 0 }
    }

    /// Leave to read up to `most` datagrams; if for none, when to ask again.
    pub(super) fn ask(&mut self, now: Instant, most: u32) -> Result<u32, Instant> {
        while self.spare < i64::from(most) {
            match self.policer.police(now, 1) {
                Verdict::Conforming => self.spare += 1,
                Verdict::NonConforming(Breach::TooEarly { conforms_at }) if self.spare <= 0 => {
                    return Err(conforms_at);
                }
                Verdict::NonConforming(_) => break,
            }
        }
        Ok(u32::try_from(self.spare).unwrap_or(0).min(most))
    }

    /// So many of them were read.
    pub(super) fn used(&mut self, datagrams: u32) {
        self.spare -= i64::from(datagrams);
    }
}

/// What to do with the datagrams of a best-effort channel before its socket, given how many came in a
/// while and how many can be served in it. `kept` is one of how many was kept meanwhile.
///
/// Discarding begins when twice as many come as can be served, for a random choice costs goodput; and
/// ends when no more come than can be served.
pub(super) fn keep_one_of(came: u64, served: u64, kept: Option<NonZeroU32>) -> Option<NonZeroU32> {
    let served = served.max(1);
    if came <= served || (kept.is_none() && came < served.saturating_mul(2)) {
        return None;
    }
    NonZeroU32::new(u32::try_from(came.div_ceil(served)).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(datagrams_a_second: u32, burst: u32) -> BestEffort {
        let some = |n| NonZeroU32::new(n).expect("not zero");
        BestEffort { datagrams_a_second: some(datagrams_a_second), burst: some(burst) }
    }

    #[test]
    fn no_more_is_read_than_the_share() {
        let mut share = Share::new(of(10_000, 5));
        let (mut read, mut waited) = (0, 0);
        for us in 0..100_000_u64 {
            match share.ask(Instant::from_nanos(us * 1_000), 8) {
                // Half of what was allowed is there: the rest is not lost.
                Ok(most) => {
                    let used = most.div_ceil(2);
                    share.used(used);
                    read += used;
                }
                Err(again) => {
                    assert!(again > Instant::from_nanos(us * 1_000));
                    waited += 1;
                }
            }
        }
        assert!((1_000..=1_005).contains(&read), "{read}");
        assert!(waited > 90_000, "{waited}");
    }

    #[test]
    fn what_was_read_too_much_is_waited_for() {
        let mut share = Share::new(of(1_000, 1));
        assert_eq!(share.ask(Instant::ZERO, 16), Ok(1));
        share.used(16);
        let ms = |n: u64| Instant::from_nanos(n * 1_000_000);
        let first = (1..100).find(|n| share.ask(ms(*n), 16).is_ok());
        assert_eq!(first, Some(16));
    }

    #[test]
    fn discarding_begins_at_twice_the_share_and_ends_at_once() {
        let one_of = |n| NonZeroU32::new(n);
        assert_eq!(keep_one_of(199, 100, None), None);
        assert_eq!(keep_one_of(200, 100, None), one_of(2));
        assert_eq!(keep_one_of(150, 100, one_of(4)), one_of(2));
        assert_eq!(keep_one_of(100, 100, one_of(4)), None);
        assert_eq!(keep_one_of(1_001, 100, one_of(2)), one_of(11));
        assert_eq!(keep_one_of(3, 0, None), one_of(3));
        assert_eq!(keep_one_of(0, 0, None), None);
        assert_eq!(keep_one_of(u64::MAX, 1, None), one_of(u32::MAX));
    }
}
