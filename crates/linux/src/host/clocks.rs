//! The host's clocks: their source and their resolution.

use punctual_model::time::Duration;

use super::read_trimmed;
use crate::{clock, thread};

/// Facts about the clocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// The clock source in use, such as `tsc` or `kvm-clock`.
    pub source: Option<String>,
    /// All sources that could be used.
    pub available: Vec<String>,
    /// The resolution of CLOCK_MONOTONIC (clock_getres(2)).
    pub resolution: Duration,
    /// The calling thread's timer slack.
    pub timer_slack: Duration,
}

impl Clocks {
    /// Returns true if timers fire at any nanosecond instead of at scheduler ticks: clock_getres(2)
    /// gives 1 ns then, and otherwise the tick, at least 1 ms (time(7)).
    pub fn has_high_resolution_timers(&self) -> bool {
        self.resolution < Duration::from_micros(100)
    }
}

/// Reads this host's clocks.
pub fn clocks() -> Clocks {
    let read = |name| {
        read_trimmed(format!("/sys/devices/system/clocksource/clocksource0/{name}_clocksource"))
    };
    let available = read("available").unwrap_or_default();
    Clocks {
        source: read("current"),
        available: available.split_whitespace().map(str::to_owned).collect(),
        resolution: clock::resolution(),
        timer_slack: thread::timer_slack(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_is_not_high_resolution() {
        let with = |resolution| Clocks {
            source: None,
            available: Vec::new(),
            resolution,
            timer_slack: Duration::ZERO,
        };
        assert!(with(Duration::from_nanos(1)).has_high_resolution_timers());
        assert!(!with(Duration::from_millis(1)).has_high_resolution_timers());
        assert!(!with(Duration::from_millis(4)).has_high_resolution_timers());
    }
}
