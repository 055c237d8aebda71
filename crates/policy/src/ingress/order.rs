//! The order of reading: the promised channel with the earliest deadline first; the other channels
//! in turn, when no promised one has a message.

use alloc::collections::{BinaryHeap, VecDeque};
use core::cmp::Reverse;

use punctual_model::{Duration, Instant};

/// The urgency with which a channel waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Its message must be handed over by this time.
    By(Instant),
    /// Nothing was promised.
    Later,
}

impl Urgency {
    /// Returns the urgency of a message that came at `arrived`.
    pub fn within(delay_bound: Option<Duration>, arrived: Instant) -> Self {
        delay_bound.map_or(Self::Later, |bound| Self::By(arrived.saturating_add(bound)))
    }
}

/// The channels with messages to read. The driver makes sure that each is in it at most once. `S`
/// identifies a channel.
#[derive(Clone, Debug)]
pub struct Order<S> {
    /// By deadline; at equal deadlines, by order of insertion.
    urgent: BinaryHeap<Reverse<(Instant, u64, S)>>,
    later: VecDeque<S>,
    came: u64,
}

impl<S: Ord> Default for Order<S> {
    fn default() -> Self {
        Self { urgent: BinaryHeap::new(), later: VecDeque::new(), came: 0 }
    }
}

impl<S: Ord> Order<S> {
    /// Makes room for `channels` channels, so that no turn allocates.
    pub fn reserve(&mut self, channels: usize) {
        self.urgent.reserve(channels.saturating_sub(self.urgent.len()));
        self.later.reserve(channels.saturating_sub(self.later.len()));
    }

    /// Adds a channel that is not in the order.
    pub fn add(&mut self, channel: S, urgency: Urgency) {
        match urgency {
            Urgency::By(deadline) => {
                self.came = self.came.wrapping_add(1);
                self.urgent.push(Reverse((deadline, self.came, channel)));
            }
            Urgency::Later => self.later.push_back(channel),
        }
    }

    /// Removes the channel that has the next turn, and returns it; `None`: there is none.
    pub fn next_turn(&mut self) -> Option<S> {
        let urgent = self.urgent.pop().map(|Reverse((_, _, channel))| channel);
        urgent.or_else(|| self.later.pop_front())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// Compares with a list that is searched.
    #[test]
    fn the_earliest_deadline_is_first_and_the_others_take_turns() {
        for seed in 0..100 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut order = Order::default();
            let mut urgent: Vec<(Instant, u32)> = Vec::new();
            let mut later: Vec<u32> = Vec::new();
            for channel in 0..200 {
                if rng.random_bool(0.5) {
                    let deadline = Instant::from_nanos(rng.random_range(0..20));
                    order.add(channel, Urgency::By(deadline));
                    urgent.push((deadline, channel));
                } else {
                    order.add(channel, Urgency::Later);
                    later.push(channel);
                }
                if rng.random_bool(0.7) {
                    // The first of those with the earliest deadline.
                    let wanted = urgent.iter().map(|(deadline, _)| *deadline).min();
                    let at = urgent.iter().position(|(deadline, _)| Some(*deadline) == wanted);
                    let of = match at {
                        Some(at) => Some(urgent.remove(at).1),
                        None => (!later.is_empty()).then(|| later.remove(0)),
                    };
                    assert_eq!(order.next_turn(), of, "{seed}");
                }
            }
        }
    }
}
