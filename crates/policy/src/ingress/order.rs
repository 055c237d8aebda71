//! The order of reading: the promised channel with the earliest deadline first; the other channels
//! in turn, when no promised one has a message.

use alloc::collections::{BinaryHeap, VecDeque};
use core::cmp::Reverse;

use punctual_model::{Duration, Instant};

use super::share::{BestEffort, Share};
use super::{QUANTUM, Urgency};

/// The channels with messages to read. The driver makes sure that each is in it at most once. `S`
/// identifies a channel.
#[derive(Clone, Debug)]
pub struct Order<S> {
    /// By deadline; at equal deadlines, by order of insertion.
    urgent: BinaryHeap<Reverse<(Instant, u64, S)>>,
    later: VecDeque<S>,
    came: u64,
    share: Option<(BestEffort, Share)>,
}

/// The next action of the driver.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<S> {
    /// Read a channel.
    Turn {
        /// The channel, which is no longer in the order.
        of: S,
        /// The most datagrams that it may read.
        most: u32,
        /// True if the driver must report the number read by [`Order::used`].
        shared: bool,
    },
    /// Do nothing before this time, unless a message comes.
    At(Instant),
    /// Do nothing until a message comes.
    Idle,
}

impl<S: Ord> Order<S> {
    /// Makes an empty order. `best_effort` limits all channels without a deadline together; `None`:
    /// they get all remaining time.
    pub fn new(best_effort: Option<BestEffort>) -> Self {
        let share = best_effort.map(|share| (share, Share::new(share)));
        Self { urgent: BinaryHeap::new(), later: VecDeque::new(), came: 0, share }
    }

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

    /// Returns the next action at `now`, which must not decrease.
    pub fn next(&mut self, now: Instant) -> Next<S> {
        if let Some(Reverse((_, _, of))) = self.urgent.pop() {
            return Next::Turn { of, most: QUANTUM, shared: false };
        }
        if self.later.is_empty() {
            return Next::Idle;
        }
        let most = match &mut self.share {
            None => QUANTUM,
            Some((_, share)) => match share.request(now, QUANTUM) {
                Ok(most) => most,
                Err(again) => return Next::At(again),
            },
        };
        self.later.pop_front().map_or(Next::Idle, |of| Next::Turn { of, most, shared: true })
    }

    /// Records that `datagrams` were read in a turn without a deadline.
    pub fn used(&mut self, datagrams: u32) {
        if let Some((_, share)) = &mut self.share {
            share.used(datagrams);
        }
    }

    /// Returns the time between two datagrams without a deadline; zero if they are not limited.
    pub fn spacing(&self) -> Duration {
        self.share.as_ref().map_or(Duration::ZERO, |(share, _)| share.spacing())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use core::num::NonZeroU32;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// Compares with a list that is searched.
    #[test]
    fn the_earliest_deadline_is_first_and_the_others_take_turns() {
        for seed in 0..100 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut order = Order::new(None);
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
                    let shared = at.is_none();
                    let of = match at {
                        Some(at) => Some(urgent.remove(at).1),
                        None => (!later.is_empty()).then(|| later.remove(0)),
                    };
                    let turn = |of| Next::Turn { of, most: QUANTUM, shared };
                    assert_eq!(order.next(Instant::ZERO), of.map_or(Next::Idle, turn), "{seed}");
                }
            }
        }
    }

    #[test]
    fn only_channels_without_a_deadline_wait_for_the_share() {
        let some = |n| NonZeroU32::new(n).expect("not zero");
        let share = BestEffort { datagrams_a_second: some(1_000), burst: some(1) };
        let mut order = Order::new(Some(share));
        order.add('a', Urgency::Later);
        assert_eq!(order.next(Instant::ZERO), Next::Turn { of: 'a', most: 1, shared: true });
        order.used(1);
        order.add('a', Urgency::Later);
        let again = Instant::from_nanos(1_000_000);
        assert_eq!(order.next(Instant::ZERO), Next::At(again));
        order.add('b', Urgency::By(again));
        assert_eq!(order.next(Instant::ZERO), Next::Turn { of: 'b', most: QUANTUM, shared: false });
        assert_eq!(order.next(again), Next::Turn { of: 'a', most: 1, shared: true });
        assert_eq!(order.next(again), Next::Idle);
    }
}
