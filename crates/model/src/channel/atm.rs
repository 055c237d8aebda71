//! ATM traffic contracts (L4ATM, §2.3).

use super::rate::BitRate;
use super::traffic::{LinearBounded, TrafficError};
use crate::time::Duration;
use crate::units::MAX_NANOS;

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
