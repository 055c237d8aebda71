//! The datagrams that a host reads of a receiving channel, which are those that admission charges.

use super::route::Framing;
use super::traffic::LinearBounded;
use crate::time::Duration;

/// The most datagrams that are read of a channel: `burst + t / spacing` in any window of length
/// `t`. Admission charges all of them, and a receiver reads no more, whatever a sender sends.
///
/// They are the datagrams of the contract's burst and of one more message, at a rate that is an
/// eighth above the contract's. With one more message, a receiver that keeps up always asks for
/// more than has come, and so learns that its socket is empty. With the higher rate, a receiver
/// that was stopped catches up with a sender that uses all of its contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimit {
    burst: u64,
    spacing: Duration,
}

impl ReadLimit {
    /// The bytes of a packet where no sender is described: the broker's default.
    pub const USUAL_PACKET: u32 = 1_420;

    /// Returns the limit for these arrivals, whose messages come in packets of `packet_bytes`.
    pub fn of(arrivals: LinearBounded, framing: Framing, packet_bytes: u32) -> Self {
        let datagrams = u64::from(framing.datagrams_of(arrivals.max_message(), packet_bytes));
        let messages = u64::from(arrivals.max_burst()) + 1;
        let every = u128::from(arrivals.min_inter_arrival().as_nanos());
        // At most a day.
        let spacing = (every * 8 / 9 / u128::from(datagrams)) as u64;
        Self {
            burst: datagrams.saturating_mul(messages),
            spacing: Duration::from_nanos(spacing.max(1)),
        }
    }

    /// Returns the most datagrams at once, at least two.
    pub fn burst(self) -> u64 {
        self.burst
    }

    /// Returns the time between two datagrams in the long run, at least 1 ns.
    pub fn spacing(self) -> Duration {
        self.spacing
    }

    /// Returns how much earlier than its spacing demands a datagram may be read:
    /// `(burst − 1)·spacing`, at most the longest duration.
    pub fn tolerance(self) -> Duration {
        self.spacing.checked_mul(self.burst - 1).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_one_more_message_may_be_read_at_an_eighth_above_the_rate() {
        let arrivals = LinearBounded::new(1, 3_000, Duration::from_micros(900), 2).expect("valid");
        let whole = ReadLimit::of(arrivals, Framing::Datagram, 1_000);
        assert_eq!((whole.burst(), whole.spacing()), (3, Duration::from_micros(800)));
        assert_eq!(whole.tolerance(), Duration::from_micros(1_600));
        let cut = ReadLimit::of(arrivals, Framing::Fragments, 1_000);
        assert_eq!((cut.burst(), cut.spacing()), (9, Duration::from_nanos(266_666)));
    }

    #[test]
    fn no_contract_is_beyond_the_range() {
        for every in [1, 86_400_000_000_000] {
            let every = Duration::from_nanos(every);
            let arrivals = LinearBounded::new(1, u32::MAX, every, u32::MAX).expect("valid");
            let limit = ReadLimit::of(arrivals, Framing::Fragments, 1);
            assert!(limit.burst() > u64::from(u32::MAX) && !limit.spacing().is_zero());
            assert!(limit.tolerance() >= limit.spacing());
        }
    }
}
