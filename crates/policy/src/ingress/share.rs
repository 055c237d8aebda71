//! The share of best effort in the receiving thread.

use core::num::NonZeroU32;

use punctual_model::{Duration, Instant, Reservation, Service};

use super::QUANTUM;
use super::police::spaced;
use crate::police::{Breach, Gcra, Policer as _, Verdict};

/// The limits of best effort on a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BestEffort {
    /// Datagrams a second, for all its channels together.
    pub datagrams_a_second: NonZeroU32,
    /// The most datagrams at once.
    pub burst: NonZeroU32,
}

/// The length of a burst at the share's rate, because the thread may wake up late.
const BURST: Duration = Duration::from_millis(4);

/// The least burst.
const LEAST_BURST: u32 = 64;

impl BestEffort {
    /// Returns half of the capacity of `cpu`, if a datagram takes `per_datagram`.
    pub fn half_of(cpu: Reservation, per_datagram: Service) -> Self {
        let share = u128::from(cpu.utilisation_ppm()) * 1_000;
        let a_second = share / u128::from(per_datagram.as_nanos().max(1)) / 2;
        let a_second = u32::try_from(a_second).unwrap_or(u32::MAX).max(1);
        // A fraction of a 32-bit number, so it fits.
        let burst = (u64::from(a_second) * BURST.as_nanos() / 1_000_000_000) as u32;
        let some = |many| NonZeroU32::new(many).unwrap_or(NonZeroU32::MIN);
        Self { datagrams_a_second: some(a_second), burst: some(burst.max(LEAST_BURST)) }
    }

    /// Returns the time between two datagrams at that rate.
    pub fn spacing(self) -> Duration {
        Duration::from_nanos(1_000_000_000 / u64::from(self.datagrams_a_second.get()))
    }
}

/// The longest time for which reads are collected. Several are granted together, because a wake-up
/// and a call cost as much for one as for many.
const GATHERING: Duration = Duration::from_millis(1);

/// Grants reads of best-effort datagrams.
#[derive(Clone, Debug)]
pub(super) struct Share {
    policer: Gcra,
    spacing: Duration,
    /// The number granted together after a refusal.
    portion: u32,
    burst: u32,
    /// Until then nothing is granted.
    refused_until: Instant,
    /// Granted and not used; negative if more was used.
    spare: i64,
}

impl Share {
    pub(super) fn new(best_effort: BestEffort) -> Self {
        let spacing = best_effort.spacing().max(Duration::from_nanos(1));
        let burst = best_effort.burst.get();
        let tolerance = spacing.checked_mul(u64::from(burst) - 1).unwrap_or(Duration::MAX);
        // At most a quantum.
        let portion = (GATHERING / spacing).clamp(1, burst.min(QUANTUM).into()) as u32;
        let policer = spaced(spacing, tolerance);
        Self { policer, spacing, portion, burst, refused_until: Instant::ZERO, spare: 0 }
    }

    /// Returns how many datagrams may be read, up to `most`; if none, the time at which to request
    /// again.
    pub(super) fn request(&mut self, now: Instant, most: u32) -> Result<u32, Instant> {
        if now < self.refused_until {
            return Err(self.refused_until);
        }
        while self.spare < i64::from(most) {
            match self.policer.police(now, 1) {
                Verdict::Conforming => self.spare += 1,
                Verdict::NonConforming(Breach::TooEarly { conforms_at }) if self.spare <= 0 => {
                    // An excess must accrue first. The policer holds at most a burst.
                    let missing = i64::from(self.portion) - 1 - self.spare;
                    let missing = missing.clamp(0, i64::from(self.burst) - 1).unsigned_abs();
                    let wait = self.spacing.checked_mul(missing).unwrap_or(Duration::MAX);
                    self.refused_until = conforms_at.saturating_add(wait);
                    return Err(self.refused_until);
                }
                Verdict::NonConforming(_) => break,
            }
        }
        Ok(u32::try_from(self.spare).unwrap_or(0).min(most))
    }

    /// Records that `datagrams` were read.
    pub(super) fn used(&mut self, datagrams: u32) {
        self.spare -= i64::from(datagrams);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(datagrams_a_second: u32, burst: u32) -> BestEffort {
        let some = |n| NonZeroU32::new(n).expect("not zero");
        BestEffort { datagrams_a_second: some(datagrams_a_second), burst: some(burst) }
    }

    #[test]
    fn no_more_is_read_than_the_share() {
        let mut share = Share::new(of(10_000, 5));
        let (mut read, mut waited) = (0, 0);
        for us in 0..100_000_u64 {
            match share.request(Instant::from_nanos(us * 1_000), 8) {
                // Half of the grant is used: the rest is not lost.
                Ok(most) => {
                    let used = most.div_ceil(2);
                    share.used(used);
                    read += used;
                }
                Err(again) => {
                    assert!(again > Instant::from_nanos(us * 1_000));
                    waited += 1;
                }
            }
        }
        assert!((1_000..=1_005).contains(&read), "{read}");
        assert!(waited > 90_000, "{waited}");
    }

    #[test]
    fn excess_reads_are_waited_for() {
        let mut share = Share::new(of(1_000, 1));
        assert_eq!(share.request(Instant::ZERO, 16), Ok(1));
        share.used(16);
        let ms = |n: u64| Instant::from_nanos(n * 1_000_000);
        let first = (1..100).find(|n| share.request(ms(*n), 16).is_ok());
        assert_eq!(first, Some(16));
    }

    #[test]
    fn a_caller_that_waits_until_the_named_instant_gets_a_portion() {
        for (rate, burst, portion) in
            [(100_000, 64, 16), (4_000, 64, 4), (500, 64, 1), (100_000, 3, 3)]
        {
            let mut share = Share::new(of(rate, burst));
            let (mut now, mut read) = (Instant::ZERO, 0);
            while now < Instant::from_nanos(1_000_000_000) {
                match share.request(now, QUANTUM) {
                    Ok(most) => {
                        assert!(most >= portion.min(QUANTUM), "{rate}: {most}");
                        share.used(most);
                        read += most;
                    }
                    Err(again) => {
                        assert!(
                            again > now && again.saturating_since(now) <= GATHERING + GATHERING
                        );
                        now = again;
                    }
                }
            }
            assert!(read.abs_diff(rate) <= rate / 50 + burst + portion, "{rate}: {read}");
        }
    }
}
