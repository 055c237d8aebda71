//! The sources of a simulation: traffic without a promise, and other work that uses the processor
//! and goes before all of the sender.

use alloc::vec::Vec;

use punctual_model::{Duration, Instant, Service};

/// A best-effort sender with a handler of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// The size of its messages, at least 1.
    pub bytes: u32,
    /// When the first comes.
    pub first: Instant,
    /// The time from the last packet of one message being made until the next message comes.
    pub pause: Duration,
    /// A message comes only if at most this many packets, its own included, have not left: at least
    /// as many as a message has.
    pub room: u32,
}

/// Work that runs before everything of the sender: `work` in every `period`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hog {
    /// Its processor time for one occurrence.
    pub work: Service,
    /// The time from one to the next, not zero.
    pub period: Duration,
    /// The times of its occurrences.
    pub pattern: HogPattern,
}

/// The pattern of a hog's occurrences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HogPattern {
    /// At `first`, then every period; but occurrences before `first + late` are delayed to then.
    /// With `late = period − work`, a budget used as late as possible and then as early as
    /// possible.
    Periodic {
        /// The beginning of the periods.
        first: Instant,
        /// The delay of the first occurrences.
        late: Duration,
    },
    /// Whenever a packet goes on the link and the last time is at least a period ago, so that the
    /// link becomes free while nothing can serve it.
    AtStarts,
}

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
