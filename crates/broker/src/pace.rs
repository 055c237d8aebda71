//! A limit on how often each person may do something, so that no person keeps the broker from the
//! others.

use std::collections::BTreeMap;

use punctual_model::{Duration, Instant};

/// A token bucket for each person, kept as the time at which it will be full again.
#[derive(Debug)]
pub(crate) struct Pace {
    /// The time in which one token is added.
    apart: Duration,
    /// The time in which an empty bucket fills.
    depth: Duration,
    full: BTreeMap<u32, Instant>,
}

impl Pace {
    /// Allows `at_once` actions at once, and later one every `apart`.
    pub(crate) fn new(apart: Duration, at_once: u32) -> Self {
        let depth = apart.checked_mul(at_once.into()).unwrap_or(Duration::MAX);
        Self { apart, depth, full: BTreeMap::new() }
    }

    /// Takes a token, or returns how long the person has to wait for the next one.
    pub(crate) fn ask(&mut self, person: u32, now: Instant) -> Result<(), Duration> {
        let full = self.full.entry(person).or_insert(now);
        let next = (*full).max(now) + self.apart;
        match next.saturating_since(now) {
            wait if wait > self.depth => Err(wait.saturating_sub(self.depth)),
            _ => {
                *full = next;
                Ok(())
            }
        }
    }

    /// Gives a token back.
    pub(crate) fn take_back(&mut self, person: u32) {
        if let Some(full) = self.full.get_mut(&person) {
            *full = Instant::from_nanos(full.as_nanos().saturating_sub(self.apart.as_nanos()));
        }
    }

    /// Forgets the buckets that are full.
    pub(crate) fn forget(&mut self, now: Instant) {
        self.full.retain(|_, full| *full > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_asks_twenty_times_at_once_and_then_as_often_a_second() {
        let apart = Duration::from_millis(50);
        let mut pace = Pace::new(apart, 20);
        let mut now = Instant::from_nanos(7);
        for _ in 0..20 {
            pace.ask(1, now).expect("at once");
        }
        assert_eq!(pace.ask(1, now), Err(apart));
        pace.ask(2, now).expect("another person");
        let mut asked = 0;
        for _ in 0..1_000 {
            now += Duration::from_millis(10);
            asked += u64::from(pace.ask(1, now).is_ok());
        }
        assert_eq!(asked, 200);
        // Tokens given back do not count.
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
