//! Provides a histogram of times.

use core::fmt;

use hdrhistogram::Histogram;
use punctual_model::Duration;

/// A histogram of times from 1 ns to an hour, to three significant digits. Longer times count as an
/// hour.
///
/// The maximum is also kept exactly, because it is the number that people look at first.
#[derive(Clone, Debug)]
pub struct Times {
    histogram: Histogram<u64>,
    max: Duration,
}

const LONGEST: u64 = 3600 * 1_000_000_000;

impl Times {
    /// Makes an empty histogram.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST, 3)
            .expect("1 ns to an hour at three digits are bounds the library accepts");
        Self { histogram, max: Duration::ZERO }
    }

    /// Counts one time.
    pub fn record(&mut self, time: Duration) {
        self.histogram.saturating_record(time.as_nanos());
        self.max = self.max.max(time);
    }

    /// Adds all times of `other`.
    pub fn add(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("both have the same bounds");
        self.max = self.max.max(other.max);
    }

    /// Returns the number of times.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the time that `percent` of the times do not exceed, or `None` if there are none.
    pub fn percentile(&self, percent: f64) -> Option<Duration> {
        let value = self.histogram.value_at_percentile(percent);
        (self.count() > 0).then(|| Duration::from_nanos(value).min(self.max))
    }

    /// Returns the exact longest time, or `None` if there are none.
    pub fn max(&self) -> Option<Duration> {
        (self.count() > 0).then_some(self.max)
    }
}

impl Default for Times {
    fn default() -> Self {
        Self::new()
    }
}

/// Formats as `p50/p99/max` in microseconds, or `-` if there are no times.
impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.percentile(50.0), self.percentile(99.0), self.max()) {
            (Some(p50), Some(p99), Some(max)) => {
                let us = |time: Duration| (time.as_nanos() + 500) / 1000;
                f.pad(&alloc::format!("{}/{}/{}", us(p50), us(p99), us(max)))
            }
            _ => f.pad("-"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn percentiles_are_of_the_recorded_times() {
        let mut times = Times::new();
        assert_eq!((times.max(), times.to_string().as_str()), (None, "-"));
        for us in 1..=100 {
            times.record(Duration::from_micros(us));
        }
        assert_eq!(times.to_string(), "50/99/100");
        assert_eq!(times.max(), Some(Duration::from_micros(100)));
        assert_eq!(times.count(), 100);
    }

    #[test]
    fn longer_than_an_hour_is_still_counted() {
        let mut times = Times::new();
        times.record(Duration::from_secs(7200));
        assert_eq!(times.count(), 1);
        assert_eq!(times.max(), Some(Duration::from_secs(7200)));
    }
}
