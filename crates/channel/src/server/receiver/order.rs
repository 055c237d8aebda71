//! Whose turn it is: of the guaranteed channels that have something, the one with the earliest deadline;
//! the others one after the other, when no guaranteed one has anything.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use punctual_model::Instant;

/// A channel of a receiver: its place, and the how-manieth it is in that place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Seat {
    pub(super) at: u32,
    pub(super) generation: u32,
}

/// How a channel waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    /// What is in it must be handed over by then.
    By(Instant),
    /// Nothing was promised, or its sender breaks its promise.
    Later,
}

/// The channels that have something to read; each is in it once at most, which the caller sees to.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// At equal deadlines the one that came first.
    urgent: BinaryHeap<Reverse<(Instant, u64, Seat)>>,
    later: VecDeque<Seat>,
    came: u64,
}

impl Order {
    /// Room for so many channels, so that no turn allocates.
    pub(super) fn reserve(&mut self, channels: usize) {
        self.urgent.reserve(channels.saturating_sub(self.urgent.len()));
        self.later.reserve(channels.saturating_sub(self.later.len()));
    }

    pub(super) fn add(&mut self, seat: Seat, urgency: Urgency) {
        match urgency {
            Urgency::By(deadline) => {
                self.came = self.came.wrapping_add(1);
                self.urgent.push(Reverse((deadline, self.came, seat)));
            }
            Urgency::Later => self.later.push_back(seat),
        }
    }

    pub(super) fn next_urgent(&mut self) -> Option<Seat> {
        self.urgent.pop().map(|Reverse((_, _, seat))| seat)
    }

    pub(super) fn next_later(&mut self) -> Option<Seat> {
        self.later.pop_front()
    }

    /// Whether somebody waits for what is left over.
    pub(super) fn has_later(&self) -> bool {
        !self.later.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// Against a list that is searched.
    #[test]
    fn the_earliest_deadline_is_first_and_the_others_take_turns() {
        for seed in 0..100 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut order = Order::default();
            let mut urgent: Vec<(Instant, Seat)> = Vec::new();
            let mut later: Vec<Seat> = Vec::new();
            for at in 0..200 {
                let seat = Seat { at, generation: 0 };
                if rng.random_bool(0.5) {
                    let deadline = Instant::from_nanos(rng.random_range(0..20));
                    order.add(seat, Urgency::By(deadline));
                    urgent.push((deadline, seat));
                } else {
                    order.add(seat, Urgency::Later);
                    later.push(seat);
                }
                if rng.random_bool(0.6) {
                    // The first of the earliest.
                    let wanted = urgent.iter().map(|(deadline, _)| *deadline).min();
                    let at = urgent.iter().position(|(deadline, _)| Some(*deadline) == wanted);
                    assert_eq!(order.next_urgent(), at.map(|at| urgent.remove(at).1), "{seed}");
                }
                if rng.random_bool(0.3) {
                    let wanted = (!later.is_empty()).then(|| later.remove(0));
                    assert_eq!(order.next_later(), wanted, "{seed}");
                }
                assert_eq!(order.has_later(), !later.is_empty());
            }
        }
    }
}
