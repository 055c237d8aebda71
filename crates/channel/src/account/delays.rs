//! Counts the delays of messages, in bounded memory that one thread writes and others read.

use std::sync::atomic::{AtomicU64, Ordering};

use punctual_model::Duration;

/// The delay below which all are counted together.
pub const FINEST: Duration = Duration::from_nanos(1 << LOWEST);

/// The delay from which on all are counted together.
pub const LONGEST: Duration = Duration::from_nanos(1 << HIGHEST);

const LOWEST: u32 = 10;
const HIGHEST: u32 = 34;

/// Four buckets to each doubling, and one at each end.
const BUCKETS: usize = ((HIGHEST - LOWEST) << 2) as usize + 2;

/// The buckets, as threads share them.
#[derive(Debug)]
pub(super) struct Delays([AtomicU64; BUCKETS]);

impl Delays {
    pub(super) fn new() -> Self {
        Self([const { AtomicU64::new(0) }; BUCKETS])
    }

    /// Records a delay. Only the one writing thread may call this.
    #[inline]
    pub(super) fn record(&self, delay: Duration) {
        let bucket = &self.0[bucket_of(delay.as_nanos())];
        bucket.store(bucket.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> DelayCounts {
        DelayCounts(std::array::from_fn(|at| self.0[at].load(Ordering::Relaxed)))
    }
}

/// The number of delays of each length, in steps of at most a quarter: from [`FINEST`] (1,024 ns)
/// to [`LONGEST`] (17 s).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayCounts([u64; BUCKETS]);

impl DelayCounts {
    /// Returns the number of delays.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns each step that is not empty: the delay below which its delays are, and their number.
    /// The last step has no such delay and gives [`Duration::MAX`].
    pub fn steps(&self) -> impl Iterator<Item = (Duration, u64)> {
        let steps = self.0.iter().enumerate().filter(|(_, count)| **count > 0);
        steps.map(|(at, count)| (end_of(at), *count))
    }

    /// Returns a delay such that at least `percent` of all are below it. It is the end of a step,
    /// so at most a quarter more than the exact one. Returns `None` if there are no delays.
    pub fn percentile(&self, percent: f64) -> Option<Duration> {
        let wanted = (self.count() as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0;
        self.steps().find_map(|(end, count)| {
            seen += count;
            (seen >= wanted).then_some(end)
        })
    }
}

fn bucket_of(nanos: u64) -> usize {
    if nanos < FINEST.as_nanos() {
        return 0;
    }
    if nanos >= LONGEST.as_nanos() {
        return BUCKETS - 1;
    }
    // The highest bit, and the two below it.
    let octave = nanos.ilog2();
    let quarter = (nanos >> (octave - 2)) & 3;
    1 + ((octave - LOWEST) << 2) as usize + quarter as usize
}

/// Returns the delay below which all delays of the bucket are.
fn end_of(bucket: usize) -> Duration {
    let Some(at) = bucket.checked_sub(1) else { return FINEST };
    if bucket == BUCKETS - 1 {
        return Duration::MAX;
    }
    let (octave, quarter) = (at / 4, at as u64 % 4);
    Duration::from_nanos((5 + quarter) << (octave as u32 + LOWEST - 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_delay_is_below_the_end_of_its_step_and_not_below_the_one_before() {
        let edges = (0..BUCKETS - 1).map(|at| end_of(at).as_nanos());
        for edge in edges {
            for nanos in [edge - 1, edge, edge + 1] {
                let at = bucket_of(nanos);
                assert!(nanos < end_of(at).as_nanos(), "{nanos}");
                assert!(at == 0 || nanos >= end_of(at - 1).as_nanos(), "{nanos}");
            }
        }
        assert_eq!((bucket_of(0), bucket_of(u64::MAX)), (0, BUCKETS - 1));
        assert!((1..BUCKETS - 1).all(|at| {
            let (from, to) = (end_of(at - 1).as_nanos(), end_of(at).as_nanos());
            from < to && to - from <= from / 4
        }));
    }

    #[test]
    fn percentiles_are_ends_of_steps() {
        let delays = Delays::new();
        assert_eq!(delays.counts().percentile(50.0), None);
        for micros in 1..=100 {
            delays.record(Duration::from_micros(micros));
        }
        let counts = delays.counts();
        assert_eq!(counts.count(), 100);
        for (percent, exact) in [(1.0, 1_000), (50.0, 50_000), (99.0, 99_000), (100.0, 100_000)] {
            let end = counts.percentile(percent).expect("some").as_nanos();
            assert!((exact..=exact * 5 / 4 + 1).contains(&end), "{percent}: {end}");
        }
        assert_eq!(counts.percentile(0.0), Some(FINEST));
        delays.record(Duration::from_secs(20));
        assert_eq!(delays.counts().percentile(100.0), Some(Duration::MAX));
    }
}
