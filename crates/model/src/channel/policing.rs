//! How a sender is held to its word.

use super::traffic::{LinearBounded, TrafficError};

/// What decides that a message comes before its contract allows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policing {
    /// Each message by the one before it, with a burst: the generic cell rate algorithm.
    #[default]
    Gcra,
    /// So many messages in each control interval; what is not used is lost (L4ATM, §2.5 and §3.2).
    Credits(Sensitivity),
}

/// How much a channel minds jitter, and so how long its control interval is (L4ATM, §3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sensitivity {
    /// Intervals of 2 PDUs: hardly any clumping.
    Sensitive,
    /// Intervals of 10 PDUs.
    #[default]
    Usual,
    /// Intervals of 50 PDUs: bursts pass.
    Insensitive,
}

impl Policing {
    /// The two with the names they have in a contract, credits with the usual sensitivity.
    pub const NAMES: [(&'static str, Self); 2] =
        [("gcra", Self::Gcra), ("credits", Self::Credits(Sensitivity::Usual))];

    /// Linear bounded arrivals that all that passes keeps to, for messages that are declared as
    /// `arrivals`: what admission has to promise for.
    ///
    /// An interval of `k` messages lasts `k·I_min`. A window of length `δ` touches at most
    /// `⌈δ / (k·I_min)⌉ + 1` intervals, each with `k` messages at most. Arrivals with spacing `I_min` and
    /// a burst of `2k` allow as many: `⌈δ / I_min⌉ + 2k − 1 ≥ k·(⌈δ / (k·I_min)⌉ + 1)`, because
    /// `k·⌈x / k⌉ ≤ ⌈x⌉ + k − 1`. No smaller burst does: `k` at the end of an interval and `k` at the
    /// beginning of the next come in no time.
    ///
    /// # Errors
    /// Those of [`LinearBounded::new`], which no arrivals that could be declared meet.
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
    /// All with the names they have in a contract.
    pub const NAMES: [(&'static str, Self); 3] =
        [("high", Self::Sensitive), ("medium", Self::Usual), ("low", Self::Insensitive)];

    /// How many PDUs an interval has.
    pub fn pdus(self) -> u32 {
        match self {
            Self::Sensitive => 2,
            Self::Usual => 10,
            Self::Insensitive => 50,
        }
    }

    /// How many may come at once, at the border of two intervals.
    pub fn largest_burst(self) -> u32 {
        2 * self.pdus()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;

    /// Every window of a pattern that takes all credits, as early or as late as it can in each interval.
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
                // The window begins a nanosecond before the end of an interval: the most that it touches.
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
