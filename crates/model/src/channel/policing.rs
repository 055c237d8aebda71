//! The test that decides which messages come earlier than their contract allows.

use super::traffic::{LinearBounded, TrafficError};

/// The rule that decides whether a message is early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policing {
    /// The generic cell rate algorithm, with a burst: each message is tested against the one before
    /// it.
    #[default]
    Gcra,
    /// A number of messages in each control interval; unused credits are lost (L4ATM, §2.5 and
    /// §3.2).
    Credits(Sensitivity),
}

/// A channel's sensitivity to jitter, which sets the length of its control interval (L4ATM, §3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sensitivity {
    /// Intervals of 2 PDUs: small bursts only.
    Sensitive,
    /// Intervals of 10 PDUs.
    #[default]
    Usual,
    /// Intervals of 50 PDUs: large bursts pass.
    Insensitive,
}

impl Policing {
    /// Both rules with their names in a contract; credits have the usual sensitivity.
    pub const NAMES: [(&'static str, Self); 2] =
        [("gcra", Self::Gcra), ("credits", Self::Credits(Sensitivity::Usual))];

    /// Returns linear bounded arrivals that cover all traffic that passes the policer, for messages
    /// declared as `arrivals`. Admission must reserve for these.
    ///
    /// An interval of `k` messages lasts `k·I_min`. A window of length `δ` touches at most
    /// `⌈δ / (k·I_min)⌉ + 1` intervals, each with `k` messages at most. Arrivals with spacing
    /// `I_min` and a burst of `2k` allow as many: `⌈δ / I_min⌉ + 2k − 1 ≥ k·(⌈δ / (k·I_min)⌉ + 1)`,
    /// because `k·⌈x / k⌉ ≤ ⌈x⌉ + k − 1`. No smaller burst suffices: `k` messages at the end of an
    /// interval and `k` at the beginning of the next can come at the same time.
    ///
    /// # Errors
    /// Returns those of [`LinearBounded::new`]; valid declared arrivals cause none.
    ///
    /// ```
    /// use punctual_model::Duration;
    /// use punctual_model::channel::{LinearBounded, Policing, Sensitivity};
    ///
    /// let declared = LinearBounded::fixed(1_000, Duration::from_millis(1), 1)?;
    /// let covering = Policing::Credits(Sensitivity::Usual).covering(declared)?;
    /// assert_eq!(covering.max_burst(), 20);
    /// assert_eq!(Policing::Gcra.covering(declared)?, declared);
    /// # Ok::<(), punctual_model::channel::TrafficError>(())
    /// ```
    pub fn covering(self, arrivals: LinearBounded) -> Result<LinearBounded, TrafficError> {
        match self {
            Self::Gcra => Ok(arrivals),
            Self::Credits(sensitivity) => LinearBounded::new(
                arrivals.min_message(),
                arrivals.max_message(),
                arrivals.min_inter_arrival(),
                sensitivity.largest_burst(),
            ),
        }
    }
}

impl Sensitivity {
    /// All sensitivities with their names in a contract.
    pub const NAMES: [(&'static str, Self); 3] =
        [("high", Self::Sensitive), ("medium", Self::Usual), ("low", Self::Insensitive)];

    /// Returns the number of PDUs in an interval.
    pub fn pdus(self) -> u32 {
        match self {
            Self::Sensitive => 2,
            Self::Usual => 10,
            Self::Insensitive => 50,
        }
    }

    /// Returns the most PDUs that may come at once, at the border of two intervals.
    pub fn largest_burst(self) -> u32 {
        2 * self.pdus()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;

    /// Checks every window of a pattern that uses all credits, as early or as late as each interval
    /// allows.
    #[test]
    fn no_window_of_credits_holds_more_than_the_covering_arrivals() {
        for (_, sensitivity) in Sensitivity::NAMES {
            let (pdus, spacing) = (u64::from(sensitivity.pdus()), 7_u64);
            let declared =
                LinearBounded::fixed(1, Duration::from_nanos(spacing), 1).expect("valid");
            let covering = Policing::Credits(sensitivity).covering(declared).expect("valid");
            let smaller = LinearBounded::fixed(
                1,
                Duration::from_nanos(spacing),
                sensitivity.largest_burst() - 1,
            );
            let (mut tight, interval) = (false, pdus * spacing);
            for length in 1..=4 * interval {
                // The window begins a nanosecond before the end of an interval, so that it touches
                // the most.
                let touched = 1 + (length - 1).div_ceil(interval);
                let most = touched * pdus;
                let window = Duration::from_nanos(length);
                let allowed = covering.arrivals_in(window).expect("small");
                assert!(most <= allowed, "{length}: {most} > {allowed}");
                let fewer = smaller.expect("valid").arrivals_in(window).expect("small");
                tight |= most > fewer;
            }
            assert!(tight, "a smaller burst would cover it");
        }
    }
}
