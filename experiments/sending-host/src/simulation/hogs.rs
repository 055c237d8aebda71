//! Other work that uses the processor and goes before all of the sender.

use alloc::vec::Vec;

use punctual_model::{Duration, Instant, Service};

use super::sources::{Hog, HogPattern};

/// All hogs, and the times of their next occurrences.
pub(super) struct Hogs {
    states: Vec<State>,
    next: Instant,
}

#[derive(Clone, Copy, Debug)]
struct State {
    hog: Hog,
    next: Instant,
    /// The number of occurrences.
    times: u64,
    /// The earliest next occurrence of a hog that waits for packet starts.
    allowed_from: Instant,
}

impl Hogs {
    pub(super) fn new(hogs: &[Hog]) -> Self {
        let states = hogs.iter().map(|&hog| State::new(hog)).collect();
        let mut hogs = Self { states, next: Instant::MAX };
        hogs.find_next();
        hogs
    }

    /// Returns the time of the next occurrence.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Returns the work of a hog that has occurred by `now`. Each is returned once: call until
    /// `None`.
    pub(super) fn take(&mut self, now: Instant) -> Option<Service> {
        let state = self.states.iter_mut().find(|state| state.next <= now)?;
        state.advance(now);
        let work = state.hog.work;
        self.find_next();
        Some(work)
    }

    /// Records that a packet goes on the link: hogs that wait for it occur.
    pub(super) fn packet_starts(&mut self, now: Instant) {
        for state in &mut self.states {
            if state.hog.pattern == HogPattern::AtStarts && state.allowed_from <= now {
                state.next = now;
            }
        }
        self.find_next();
    }

    fn find_next(&mut self) {
        self.next = self.states.iter().map(|state| state.next).fold(Instant::MAX, Instant::min);
    }
}

impl State {
    fn new(hog: Hog) -> Self {
        let next = match hog.pattern {
            HogPattern::Periodic { first, late } => first.saturating_add(late),
            HogPattern::AtStarts => Instant::MAX,
        };
        Self { hog, next, times: 0, allowed_from: Instant::ZERO }
    }

    fn advance(&mut self, now: Instant) {
        match self.hog.pattern {
            HogPattern::Periodic { first, late } => {
                self.times += 1;
                let due = self.hog.period.checked_mul(self.times).unwrap_or(Duration::MAX);
                let due = first.saturating_add(due);
                self.next = due.max(first.saturating_add(late));
            }
            HogPattern::AtStarts => {
                self.allowed_from = now.saturating_add(self.hog.period);
                self.next = Instant::MAX;
            }
        }
    }
}
