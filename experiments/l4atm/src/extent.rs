//! The extent of an experiment, and its errors.

use punctual_model::Duration;

/// An error of any kind, as one sentence.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

/// The length and the number of measurements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) seconds: Option<f64>,
    pub(crate) rounds: u32,
}

impl Extent {
    /// Returns the length of a measurement: the user's, or the given default.
    pub(crate) fn or(self, seconds: f64) -> Duration {
        let nanos = self.seconds.unwrap_or(seconds).clamp(0.05, 3_600.0) * 1e9;
        // At most an hour.
        Duration::from_nanos(nanos as u64)
    }
}
