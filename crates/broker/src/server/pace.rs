//! How often each user may ask, so that none keeps the broker from the others.

use std::collections::BTreeMap;

use punctual_model::{Duration, Instant};

/// Requests and changes of a user in a second, and at once.
const A_SECOND: u64 = 20;

/// Between two of them, in the long run.
const APART: Duration = Duration::from_nanos(1_000_000_000 / A_SECOND);

/// A bucket of tokens for each user, kept as the moment at which it will be full again.
#[derive(Debug, Default)]
pub(super) struct Pace {
    full: BTreeMap<u32, Instant>,
}

impl Pace {
    /// Counts a request, or says how long the user has to wait.
    pub(super) fn ask(&mut self, uid: u32, now: Instant) -> Result<(), Duration> {
        let full = self.full.entry(uid).or_insert(now);
        let next = (*full).max(now) + APART;
        let earliest = Duration::from_nanos(APART.as_nanos() * A_SECOND);
        match next.saturating_since(now) {
            wait if wait > earliest => {
                Err(Duration::from_nanos(wait.as_nanos() - earliest.as_nanos()))
            }
            _ => {
                *full = next;
                Ok(())
            }
        }
    }

    /// As if a request had not been made.
    pub(super) fn take_back(&mut self, uid: u32) {
        if let Some(full) = self.full.get_mut(&uid) {
            *full = Instant::from_nanos(full.as_nanos().saturating_sub(APART.as_nanos()));
        }
    }

    /// Forgets whose bucket is full.
    pub(super) fn forget(&mut self, now: Instant) {
        self.full.retain(|_, full| *full > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_asks_twenty_times_at_once_and_then_as_often_a_second() {
        let mut pace = Pace::default();
        let mut now = Instant::from_nanos(7);
        for _ in 0..A_SECOND {
            pace.ask(1, now).expect("at once");
        }
        assert_eq!(pace.ask(1, now), Err(APART));
        pace.ask(2, now).expect("another user");
        let mut asked = 0;
        for _ in 0..1_000 {
            now += Duration::from_millis(10);
            asked += u64::from(pace.ask(1, now).is_ok());
        }
        assert_eq!(asked, 10 * A_SECOND);
        // What was taken back did not count.
        for _ in 0..100 {
            now += Duration::from_millis(1);
            pace.ask(3, now).expect("none counts");
            pace.take_back(3);
        }
        now += Duration::from_secs(1);
        pace.forget(now);
        assert!(pace.full.is_empty());
    }
}
