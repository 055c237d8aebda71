//! The traffic that a sender promises, in the two forms of the papers (linear bounded arrivals and
//! the ATM traffic contracts of L4ATM, §2.3), and conversions between them.

use thiserror::Error;

use super::rate::BitRate;
use crate::time::Duration;
use crate::units::MAX_NANOS;

/// A linear bounded arrival process (real-time channels, §2.1): in any `δ`, at most
/// `max_burst + δ / min_inter_arrival` messages of at most `max_message` bytes.
///
/// Guaranteed: sizes `1 ≤ min_message ≤ max_message`, a burst of at least one message, and a
/// spacing between 1 ns and a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearBounded {
    max_message: u32,
    min_message: u32,
    min_inter_arrival: Duration,
    max_burst: u32,
}

/// Declared traffic in either form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Messages with a spacing and a burst.
    Bounded(LinearBounded),
    /// Units with a peak and a sustained rate.
    Atm(AtmContract),
}

/// The rule that a traffic contract breaks, with the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TrafficError {
    /// The largest message has no bytes.
    #[error("the largest message is empty; it must have at least 1 byte")]
    EmptyMessage,
    /// The smallest message is empty or above the largest.
    #[error("the smallest message is {min} bytes; it must be between 1 and the largest, {max}")]
    MinMessage {
        /// The smallest message given.
        min: u32,
        /// The largest message given.
        max: u32,
    },
    /// The burst is zero messages.
    #[error("the burst is zero messages; it must be at least 1")]
    ZeroBurst,
    /// The spacing is zero, or longer than a day.
    #[error("messages every {0}; the spacing must be between 1ns and a day")]
    Spacing(Duration),
    /// The sustained rate is above the peak rate.
    #[error("the sustained rate {sustained} is above the peak rate {peak}")]
    SustainedAbovePeak {
        /// The sustained rate given.
        sustained: BitRate,
        /// The peak rate given.
        peak: BitRate,
    },
    /// The rate is constant, and the peak differs from it.
    #[error("the rate is constant, but the peak {peak} is not the sustained rate {sustained}")]
    CbrWithPeak {
        /// The sustained rate given.
        sustained: BitRate,
        /// The peak rate given.
        peak: BitRate,
    },
    /// The tolerance is longer than a day.
    #[error("a delay variation tolerance of {0} is longer than a day")]
    ToleranceTooLong(Duration),
    /// The traffic is best effort, which has no bound.
    #[error("the class is best effort (UBR), which is promised nothing; choose CBR or rt-VBR")]
    BestEffort,
    /// The burst does not fit in 32 bits.
    #[error("the tolerance {0} allows bursts of more messages than 32 bits can count")]
    BurstTooLong(Duration),
    /// The messages exceed the peak rate.
    #[error("{max_message} bytes every {every} are more than the peak rate {peak}")]
    AbovePeak {
        /// The largest message.
        max_message: u32,
        /// Its spacing.
        every: Duration,
        /// The peak rate given.
        peak: BitRate,
    },
}

impl LinearBounded {
    /// Makes arrivals of messages of exactly `message` bytes.
    pub fn fixed(
        message: u32,
        min_inter_arrival: Duration,
        max_burst: u32,
    ) -> Result<Self, TrafficError> {
        Self::new(message, message, min_inter_arrival, max_burst)
    }

    /// Makes arrivals of messages of `min_message` to `max_message` bytes.
    ///
    /// The smallest size matters to other channels: many short packets cost more link scheduling
    /// than a long one. A caller that does not know it passes 1.
    pub fn new(
        min_message: u32,
        max_message: u32,
        min_inter_arrival: Duration,
        max_burst: u32,
    ) -> Result<Self, TrafficError> {
        if max_message == 0 {
            return Err(TrafficError::EmptyMessage);
        }
        if min_message == 0 || min_message > max_message {
            return Err(TrafficError::MinMessage { min: min_message, max: max_message });
        }
        if max_burst == 0 {
            return Err(TrafficError::ZeroBurst);
        }
        if min_inter_arrival.is_zero() || min_inter_arrival.as_nanos() > MAX_NANOS {
            return Err(TrafficError::Spacing(min_inter_arrival));
        }
        Ok(Self { max_message, min_message, min_inter_arrival, max_burst })
    }

    /// Returns the bytes of the largest message.
    pub fn max_message(self) -> u32 {
        self.max_message
    }

    /// Returns the bytes of the smallest message.
    pub fn min_message(self) -> u32 {
        self.min_message
    }

    /// Returns `I_min`: the spacing of logical arrivals, the reciprocal of the largest message
    /// rate.
    pub fn min_inter_arrival(self) -> Duration {
        self.min_inter_arrival
    }

    /// Returns `B_max`: the most messages at once.
    pub fn max_burst(self) -> u32 {
        self.max_burst
    }

    /// Returns `(B_max − 1)·I_min`: a sporadic stream with this release jitter and spacing `I_min`
    /// has exactly these arrivals. `None` beyond 64 bits.
    pub fn jitter(self) -> Option<Duration> {
        self.min_inter_arrival.checked_mul(u64::from(self.max_burst) - 1)
    }

    /// Returns the most messages in a half-open window: `⌈(window + jitter) / I_min⌉`, zero if it
    /// is empty. `None` beyond 64 bits.
    pub fn arrivals_in(self, window: Duration) -> Option<u64> {
        if window.is_zero() {
            return Some(0);
        }
        let reach = window.checked_add(self.jitter()?)?;
        Some(reach.as_nanos().div_ceil(self.min_inter_arrival.as_nanos()))
    }

    /// Converts the traffic to an ATM contract of class rt-VBR, or CBR if no burst is allowed.
    ///
    /// Every conforming stream stays conforming. A burst may come at once here, so the caller gives
    /// the peak (the rate of the link that it comes from). The conversion rounds the rates up to
    /// whole bits a second and drops the smallest message.
    pub fn to_atm(self, peak_rate: BitRate) -> Result<AtmContract, TrafficError> {
        let too_fast = TrafficError::AbovePeak {
            max_message: self.max_message,
            every: self.min_inter_arrival,
            peak: peak_rate,
        };
        let sustained_rate =
            BitRate::at_least(self.max_message, self.min_inter_arrival).ok_or(too_fast)?;
        if sustained_rate > peak_rate {
            return Err(too_fast);
        }
        let constant = self.max_burst == 1;
        AtmContract::new(TrafficSpec {
            class: if constant { ServiceClass::Cbr } else { ServiceClass::RtVbr },
            peak_rate: if constant { sustained_rate } else { peak_rate },
            sustained_rate,
            max_sdu: self.max_message,
            delay_variation_tolerance: self.jitter().unwrap_or(Duration::MAX),
        })
    }
}

impl Traffic {
    /// Returns the traffic as linear bounded arrivals. [`AtmContract::to_linear_bounded`] says what
    /// the conversion loses.
    pub fn to_linear_bounded(self) -> Result<LinearBounded, TrafficError> {
        match self {
            Self::Bounded(arrivals) => Ok(arrivals),
            Self::Atm(contract) => contract.to_linear_bounded(),
        }
    }
}

impl From<LinearBounded> for Traffic {
    fn from(arrivals: LinearBounded) -> Self {
        Self::Bounded(arrivals)
    }
}

impl From<AtmContract> for Traffic {
    fn from(contract: AtmContract) -> Self {
        Self::Atm(contract)
    }
}

/// The numbers of an ATM traffic contract (L4ATM, §2.3), before they are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrafficSpec {
    /// The service class.
    pub class: ServiceClass,
    /// The highest rate within a burst.
    pub peak_rate: BitRate,
    /// The highest rate over time.
    pub sustained_rate: BitRate,
    /// The largest service data unit in bytes.
    pub max_sdu: u32,
    /// How much earlier a unit may come than the sustained rate allows.
    pub delay_variation_tolerance: Duration,
}

/// A checked [`TrafficSpec`].
///
/// Guaranteed: `sustained_rate ≤ peak_rate`, with equality for CBR; units have at least one byte,
/// and their spacing at the sustained rate is between 1 ns and a day; the tolerance is at most a
/// day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtmContract(TrafficSpec);

/// Traffic classes (L4ATM, §2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceClass {
    /// Constant bit rate.
    Cbr,
    /// Variable bit rate with a delay bound.
    RtVbr,
    /// Best effort: policed like the others, but promised nothing.
    Ubr,
}

impl ServiceClass {
    /// All classes with their names in a contract.
    pub const NAMES: [(&'static str, Self); 3] =
        [("cbr", Self::Cbr), ("rt-vbr", Self::RtVbr), ("ubr", Self::Ubr)];
}

impl AtmContract {
    /// Validates `spec`.
    pub fn new(spec: TrafficSpec) -> Result<Self, TrafficError> {
        let TrafficSpec { class, peak_rate: peak, sustained_rate: sustained, .. } = spec;
        if spec.max_sdu == 0 {
            return Err(TrafficError::EmptyMessage);
        }
        if sustained > peak {
            return Err(TrafficError::SustainedAbovePeak { sustained, peak });
        }
        if class == ServiceClass::Cbr && sustained != peak {
            return Err(TrafficError::CbrWithPeak { sustained, peak });
        }
        let spacing = sustained.time_of_below(spec.max_sdu);
        if spacing.is_zero() || spacing.as_nanos() > MAX_NANOS {
            return Err(TrafficError::Spacing(spacing));
        }
        if spec.delay_variation_tolerance.as_nanos() > MAX_NANOS {
            return Err(TrafficError::ToleranceTooLong(spec.delay_variation_tolerance));
        }
        Ok(Self(spec))
    }

    /// Returns the numbers, for a caller that varies them.
    pub fn spec(self) -> TrafficSpec {
        self.0
    }

    /// Converts units of `max_sdu` bytes to linear bounded arrivals: `I_min = T`,
    /// `B_max = 1 + ⌈τ/T⌉`, with `T` the spacing at the sustained rate and `τ` the tolerance.
    ///
    /// Every conforming stream stays conforming: it has at most `1 + ⌊(δ + τ)/T⌋` units in a closed
    /// `δ`, and `⌊(δ + τ)/T⌋ ≤ ⌊δ/T⌋ + ⌈τ/T⌉`. The conversion loses the peak rate (a burst may now
    /// come at once), the fraction of a unit by which `⌈τ/T⌉` exceeds `τ/T`, and less than a
    /// nanosecond of `T`, which is rounded down. Units below `max_sdu` may not come more often.
    pub fn to_linear_bounded(self) -> Result<LinearBounded, TrafficError> {
        let spec = self.0;
        if spec.class == ServiceClass::Ubr {
            return Err(TrafficError::BestEffort);
        }
        let spacing = spec.sustained_rate.time_of_below(spec.max_sdu);
        let tolerance = spec.delay_variation_tolerance;
        let early = tolerance.as_nanos().div_ceil(spacing.as_nanos());
        let burst = u32::try_from(early)
            .ok()
            .and_then(|early| early.checked_add(1))
            .ok_or(TrafficError::BurstTooLong(tolerance))?;
        LinearBounded::new(1, spec.max_sdu, spacing, burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ns(ns: u64) -> Duration {
        Duration::from_nanos(ns)
    }

    /// Checks LBAP-01 of the published answers on the type itself.
    #[test]
    fn lbap_01_bursts_are_jitter() {
        let arrivals = LinearBounded::fixed(1, ns(10), 3).expect("valid");
        assert_eq!(arrivals.jitter(), Some(ns(20)));
        for (window, most) in [(0, 0), (1, 3), (10, 3), (11, 4), (21, 5)] {
            assert_eq!(arrivals.arrivals_in(ns(window)), Some(most), "window {window}");
        }
    }

    /// Checks the greedy conforming stream, unit by unit, against the converted process.
    #[test]
    fn an_atm_stream_stays_conforming_as_linear_bounded() {
        // 1 byte at 8e9/T bit/s has the spacing T ns.
        for (t, d, tau) in [(10, 4, 0), (10, 4, 5), (10, 1, 35), (10, 10, 20), (16, 5, 16)] {
            let rate = |spacing| BitRate::new(8_000_000_000 / spacing).expect("valid");
            let contract = AtmContract::new(TrafficSpec {
                class: ServiceClass::RtVbr,
                peak_rate: rate(d),
                sustained_rate: rate(t),
                max_sdu: 1,
                delay_variation_tolerance: ns(tau),
            });
            let bounded = contract.expect("valid").to_linear_bounded().expect("real time");
            // Each unit is as early as the peak and the tolerance allow (GCRA).
            let (mut at, mut due) = (0u64, 0u64);
            let mut sent = alloc::vec::Vec::new();
            for _ in 0..200 {
                at = at.max(due.saturating_sub(tau));
                sent.push(at);
                due = due.max(at) + t;
                at += d;
            }
            for (i, first) in sent.iter().enumerate() {
                for (more, last) in sent[i..].iter().enumerate() {
                    let most = bounded.arrivals_in(ns(last - first + 1)).expect("small");
                    assert!((more as u64) < most, "T {t} D {d} τ {tau}: {first}..={last}");
                }
            }
        }
    }

    #[test]
    fn bounded_arrivals_become_a_contract_that_allows_no_less() {
        let arrivals = LinearBounded::fixed(8192, Duration::from_micros(5_243), 3).expect("valid");
        let contract = arrivals.to_atm(BitRate::new(155_000_000).expect("valid")).expect("fits");
        assert_eq!(contract.spec().class, ServiceClass::RtVbr);
        let back = contract.to_linear_bounded().expect("real time");
        assert!(back.min_inter_arrival() <= arrivals.min_inter_arrival());
        assert!(back.max_burst() >= arrivals.max_burst());
        let slow = BitRate::new(1_000_000).expect("valid");
        assert!(matches!(arrivals.to_atm(slow), Err(TrafficError::AbovePeak { .. })));
    }

    #[test]
    fn each_rule_is_held() {
        assert_eq!(LinearBounded::fixed(0, ns(1), 1), Err(TrafficError::EmptyMessage));
        assert_eq!(LinearBounded::fixed(1, ns(1), 0), Err(TrafficError::ZeroBurst));
        assert_eq!(LinearBounded::fixed(1, ns(0), 1), Err(TrafficError::Spacing(ns(0))));
        assert!(matches!(
            LinearBounded::new(2, 1, ns(1), 1),
            Err(TrafficError::MinMessage { min: 2, max: 1 })
        ));
        let rate = |bits| BitRate::new(bits).expect("valid");
        let spec = TrafficSpec {
            class: ServiceClass::Ubr,
            peak_rate: rate(2_000_000),
            sustained_rate: rate(1_000_000),
            max_sdu: 100,
            delay_variation_tolerance: ns(0),
        };
        let ubr = AtmContract::new(spec).expect("valid");
        assert_eq!(ubr.to_linear_bounded(), Err(TrafficError::BestEffort));
        assert!(matches!(
            AtmContract::new(TrafficSpec { class: ServiceClass::Cbr, ..spec }),
            Err(TrafficError::CbrWithPeak { .. })
        ));
        assert!(matches!(
            AtmContract::new(TrafficSpec { peak_rate: rate(1), ..spec }),
            Err(TrafficError::SustainedAbovePeak { .. })
        ));
    }
}
