//! The regulator of a channel: logical arrivals.

use punctual_model::channel::LinearBounded;
use punctual_model::{Duration, Instant};
use punctual_sim::egress::traffic::NotAccepted;

/// Gives the messages of one channel their logical arrivals (real-time channels, §2.1):
///
/// ```text
/// ℓ(m_0) = t_0,  ℓ(m_i) = max(ℓ(m_{i−1}) + I_min, t_i)
/// ```
///
/// Its output conforms, whatever its source does: logical arrivals are `I_min` apart, sizes are as
/// declared. A message occupies its room until its last packet has left.
#[derive(Clone, Debug)]
pub struct Shaper {
    traffic: LinearBounded,
    /// `(B_max − 1)·I_min`: the largest earliness of a message of a conforming source.
    most_early: Duration,
    next: Instant,
    room: u32,
    inside: u32,
}

/// An accepted message.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The time at which the message counts as arrived, from which the bounds count. It may lie in
    /// the future.
    pub logical: Instant,
    /// Whether the source conformed. If not, the message is held longer, and harms no other
    /// channel.
    pub conforming: bool,
}

impl Shaper {
    /// Makes the regulator of a channel of this `traffic`, with room for this many messages that
    /// have not left.
    pub fn new(traffic: LinearBounded, room: u32) -> Self {
        let most_early = traffic.jitter().unwrap_or(Duration::MAX);
        Self { traffic, most_early, next: Instant::ZERO, room, inside: 0 }
    }

    /// Accepts a message of `bytes` from the source at `now`, or refuses it; `now` never goes back.
    ///
    /// At the end of time logical arrivals stand still.
    pub fn arrive(&mut self, now: Instant, bytes: u32) -> Result<Arrival, NotAccepted> {
        if bytes < self.traffic.min_message() || bytes > self.traffic.max_message() {
            return Err(NotAccepted::WrongSize { bytes });
        }
        if self.inside >= self.room {
            return Err(NotAccepted::NoRoom { room: self.room });
        }
        self.inside += 1;
        let logical = now.max(self.next);
        self.next = logical.saturating_add(self.traffic.min_inter_arrival());
        Ok(Arrival { logical, conforming: logical.saturating_since(now) <= self.most_early })
    }

    /// Records that the last packet of a message has left.
    pub fn sent(&mut self) {
        debug_assert!(self.inside > 0, "more messages left than came in");
        self.inside = self.inside.saturating_sub(1);
    }

    /// Returns the number of accepted messages that have not left.
    pub fn inside(&self) -> u32 {
        self.inside
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn ns(n: u64) -> Instant {
        Instant::from_nanos(n)
    }

    fn traffic(burst: u32) -> LinearBounded {
        LinearBounded::new(2, 9, Duration::from_nanos(10), burst).expect("valid")
    }

    #[test]
    fn a_burst_is_spread_and_what_is_beyond_it_is_marked() {
        let mut shaper = Shaper::new(traffic(3), 100);
        let seen: Vec<_> = (0..5)
            .map(|_| shaper.arrive(ns(7), 5).expect("room"))
            .map(|a| (a.logical.as_nanos(), a.conforming))
            .collect();
        assert_eq!(seen, [(7, true), (17, true), (27, true), (37, false), (47, false)]);
        // Later than necessary: the spacing counts from there.
        assert_eq!(shaper.arrive(ns(100), 5).expect("room").logical, ns(100));
        assert_eq!(shaper.arrive(ns(101), 5).expect("room").logical, ns(110));
    }

    #[test]
    fn a_refused_message_changes_nothing() {
        let mut shaper = Shaper::new(traffic(2), 2);
        assert_eq!(shaper.arrive(ns(0), 1), Err(NotAccepted::WrongSize { bytes: 1 }));
        assert_eq!(shaper.arrive(ns(0), 10), Err(NotAccepted::WrongSize { bytes: 10 }));
        assert_eq!(shaper.arrive(ns(0), 2).map(|a| a.logical), Ok(ns(0)));
        assert_eq!(shaper.arrive(ns(0), 9).map(|a| a.logical), Ok(ns(10)));
        assert_eq!(shaper.arrive(ns(0), 9), Err(NotAccepted::NoRoom { room: 2 }));
        shaper.sent();
        assert_eq!(shaper.inside(), 1);
        assert_eq!(shaper.arrive(ns(0), 9).map(|a| a.logical), Ok(ns(20)));
    }

    /// A source conforms if in every window there are at most as many messages as declared; the
    /// oracle counts them all.
    #[test]
    fn conforming_is_what_the_declaration_counts() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let (mut kept, mut broken) = (0, 0);
        for _ in 0..2_000 {
            let traffic = traffic(rng.random_range(1..4));
            let mut at = 0;
            let times: Vec<u64> = (0..12)
                .map(|_| {
                    at += rng.random_range(0..24);
                    at
                })
                .collect();
            let mut shaper = Shaper::new(traffic, 100);
            let all = times.iter().all(|&t| shaper.arrive(ns(t), 5).expect("room").conforming);
            let counted = times.iter().enumerate().all(|(i, first)| {
                times[i..].iter().enumerate().all(|(more, last)| {
                    let window = Duration::from_nanos(last - first + 1);
                    (more as u64) < traffic.arrivals_in(window).expect("small")
                })
            });
            assert_eq!(all, counted, "{times:?} {traffic:?}");
            *(if all { &mut kept } else { &mut broken }) += 1;
        }
        assert!(kept > 100 && broken > 100, "{kept} {broken}");
    }
}
