//! Regulates the reading of a channel with a promise.
//!
//! Admission charges the datagrams of a [`ReadLimit`], and a sender decides how many come and what
//! they are. So the limit holds for all datagrams that are *read*, whether they are then handed on
//! or discarded, at the time of reading. What may not be read yet waits in the socket, where it
//! costs nothing; its buffer is bounded, and the kernel drops the rest.
//!
//! A conforming sender is not delayed by this beyond what its network may do: a datagram of a
//! message with the logical arrival `ℓ` can be read at `ℓ` plus the delay bound and the network's
//! delay variation, which is when it may have come at the latest. Let `T` be the instant at which a
//! datagram would be read if all were spaced evenly, `T = max(T of the one before + spacing, time of
//! reading)`. If each datagram could be read as soon as it may be, then by induction `T` of the
//! j-th datagram of a message is at most `j·spacing` after that latest time; the spacings of a
//! message are shorter than the contract's spacing together, and the tolerance is longer than they
//! are. A receiver that reads later catches up, because the limit's rate is above the contract's.

use punctual_model::channel::{LinearBounded, ReadLimit};
use punctual_model::{Duration, Instant};

/// The most datagrams of one channel that are read in one turn.
pub const QUANTUM: u32 = 16;

/// The assumed delay variation of a network, if no other is known ([`Terms::unevenness`]).
pub const UNEVENNESS: Duration = Duration::from_millis(2);

/// The least number of datagrams that a socket buffers.
pub(super) const LEAST_KEPT: u64 = 64;

/// The most datagrams that a socket buffers, for promised channels and for best effort. Best effort
/// gets few, because its waiting datagrams are those that could not be served.
pub(super) const MOST_KEPT: (u64, u64) = (4_096, 256);

/// The terms of a receiving channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The traffic that its sender declared, also for best effort.
    pub arrivals: LinearBounded,
    /// The longest time from a message's logical arrival to the end of its transmission; `None`:
    /// best effort.
    pub delay_bound: Option<Duration>,
    /// The delay variation of the network: the longest time from sender to receiver less the
    /// shortest. Messages that come earlier than this and the contract allow are discarded.
    pub unevenness: Duration,
    /// The most datagrams of a message.
    pub datagrams: u32,
    /// The datagrams that admission charged. Best effort is read without this limit.
    pub reads: ReadLimit,
}

impl Terms {
    /// Returns the number of datagrams that its socket buffers: those of all messages of a conforming
    /// sender that can wait there until they may be read; for best effort, those of one burst.
    pub fn kept(&self) -> u64 {
        let Self { arrivals, delay_bound, unevenness, datagrams, .. } = self;
        let waiting = delay_bound
            .map_or(0, |bound| bound.saturating_add(*unevenness) / arrivals.min_inter_arrival());
        let messages = waiting.saturating_add(u64::from(arrivals.max_burst())).saturating_add(1);
        let most = if delay_bound.is_some() { MOST_KEPT.0 } else { MOST_KEPT.1 };
        messages.saturating_mul(u64::from(*datagrams)).clamp(LEAST_KEPT, most)
    }
}

/// Limits the datagrams that are read of one channel to those that admission charges.
#[derive(Clone, Debug)]
pub struct Regulator {
    spacing: Duration,
    tolerance: Duration,
    /// The instant at which the next datagram would be read if all were spaced evenly.
    due: Instant,
}

impl Regulator {
    /// Makes the regulator of a channel with these `terms`; best effort has none.
    pub fn of(terms: &Terms) -> Option<Self> {
        terms.delay_bound.map(|_| Self::new(terms.reads))
    }

    fn new(limit: ReadLimit) -> Self {
        let (spacing, tolerance) = (limit.spacing(), limit.tolerance());
        Self { spacing, tolerance, due: Instant::ZERO }
    }

    /// Returns how many datagrams a turn at `now` may read, at least one and at most [`QUANTUM`].
    ///
    /// # Errors
    /// Fails with the first instant at which it may read one.
    pub fn most(&self, now: Instant) -> Result<u32, Instant> {
        let early = self.due.saturating_since(now);
        if early > self.tolerance {
            return Err(now.saturating_add(early.saturating_sub(self.tolerance)));
        }
        let spacings = self.tolerance.saturating_sub(early) / self.spacing;
        // At most a quantum.
        Ok(spacings.saturating_add(1).min(QUANTUM.into()) as u32)
    }

    /// Records a turn at `now` that read `datagrams`, at most as many as it might. A turn that read
    /// nothing counts as one datagram, because it takes processor time too.
    pub fn read(&mut self, now: Instant, datagrams: u32) {
        let taken = self.spacing.checked_mul(u64::from(datagrams.max(1)));
        self.due = self.due.max(now).saturating_add(taken.unwrap_or(Duration::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use punctual_model::channel::{Framing, LinearBounded};
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn limit(every: u64, burst: u32, bytes: u32) -> ReadLimit {
        let every = Duration::from_nanos(every);
        let arrivals = LinearBounded::new(1, bytes, every, burst).expect("valid");
        ReadLimit::of(arrivals, Framing::Fragments, 1_000)
    }

    /// Compares with the sums over all windows: reads whenever it may and as much as it may, or at
    /// random.
    #[test]
    fn no_window_has_more_reads_than_the_limit_and_a_reader_that_is_due_may_read() {
        for seed in 0..200 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let (burst, bytes) = (rng.random_range(1..5), rng.random_range(1..5_000));
            let limit = limit(rng.random_range(10..10_000), burst, bytes);
            let mut regulator = Regulator::new(limit);
            let mut now = Instant::from_nanos(rng.random_range(0..10_000));
            let mut reads: Vec<(Instant, u64)> = Vec::new();
            let greedy = rng.random_bool(0.5);
            let in_window = |reads: &[(Instant, u64)], from: Instant, to: Instant| {
                let read = reads.iter().filter(|(at, _)| from <= *at && *at <= to);
                read.map(|(_, count)| count).sum::<u64>()
            };
            for _ in 0..200 {
                match regulator.most(now) {
                    Ok(most) => {
                        let read = if greedy { most } else { rng.random_range(0..=most) };
                        regulator.read(now, read);
                        reads.push((now, read.max(1).into()));
                    }
                    Err(again) => {
                        assert!(again > now);
                        assert!(regulator.most(again).is_ok());
                        let before = Instant::from_nanos(again.as_nanos() - 1);
                        assert_eq!(regulator.most(before), Err(again), "seed {seed}");
                        if greedy || rng.random_bool(0.5) {
                            now = again;
                        }
                    }
                }
                if !greedy || rng.random_bool(0.1) {
                    let pause = rng.random_range(0..3 * limit.spacing().as_nanos() + 2);
                    now = now.saturating_add(Duration::from_nanos(pause));
                }
            }
            let mut fullest = 0;
            for (first, (from, _)) in reads.iter().enumerate() {
                for (to, _) in &reads[first..] {
                    let window = to.saturating_since(*from);
                    let most = limit.burst() + window / limit.spacing();
                    let read = in_window(&reads, *from, *to);
                    assert!(read <= most, "seed {seed}: {read} in {window}, {most}");
                    fullest = fullest.max(read * 100 / most);
                }
            }
            assert!(!greedy || fullest == 100, "seed {seed}: {fullest}");
        }
    }

    #[test]
    fn a_receiver_that_keeps_up_always_asks_for_more_than_has_come() {
        let mut regulator = Regulator::new(limit(900, 3, 2_000));
        let at = Instant::from_nanos;
        assert_eq!(regulator.most(at(0)), Ok(8));
        regulator.read(at(0), 6);
        for message in 1..100 {
            let most = regulator.most(at(900 * message)).expect("conforms");
            assert!(most > 2, "{message}: {most}");
            regulator.read(at(900 * message), 2);
        }
    }

    /// Messages come at any time up to their logical arrival and the longest delay, and are read
    /// as soon as they may be.
    #[test]
    fn a_conforming_message_is_read_no_later_than_it_may_have_come() {
        for seed in 0..200 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let (every, burst) = (rng.random_range(100..10_000), rng.random_range(1..5));
            let bytes = rng.random_range(1..5_000);
            let mut regulator = Regulator::new(limit(every, burst, bytes));
            let longest = rng.random_range(0..20 * every);
            let (mut arrived, mut read_at, mut waited) = (0, Instant::ZERO, 0);
            for message in 0..500 {
                let logical = message * every;
                let early = rng.random_range(0..=every * u64::from(burst - 1)).min(logical);
                // Bunched: many come together at the last instant.
                let delay = if rng.random_bool(0.5) { longest } else { 0 };
                arrived = (logical - early + delay).min(logical + longest).max(arrived);
                read_at = read_at.max(Instant::from_nanos(arrived));
                for _ in 0..Framing::Fragments.datagrams_of(bytes, 1_000) {
                    if let Err(at) = regulator.most(read_at) {
                        read_at = at;
                        waited += 1;
                    }
                    regulator.read(read_at, 1);
                }
                assert!(read_at.as_nanos() <= logical + longest, "seed {seed}: {message}");
            }
            assert!(waited > 0 || longest < 4 * every, "seed {seed}");
        }
    }

    #[test]
    fn a_receiver_that_was_stopped_catches_up_with_a_sender_at_its_full_rate() {
        let (every, stopped) = (900, 90_000);
        let mut regulator = Regulator::new(limit(every, 1, 1));
        let (mut read, mut now) = (0, Instant::from_nanos(stopped));
        let caught_up = loop {
            let come = now.as_nanos() / every + 1;
            if read == come {
                break now.as_nanos();
            }
            match regulator.most(now) {
                Ok(most) => {
                    let count = u64::from(most).min(come - read);
                    regulator.read(now, count as u32);
                    read += count;
                }
                Err(again) => now = again,
            }
        };
        assert!(caught_up <= 9 * stopped + every, "{caught_up}");
    }
}
