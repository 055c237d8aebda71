//! CPU reservations: X units of processor time out of every Y.

use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use thiserror::Error;

use crate::time::{Duration, Service};
use crate::units::{self, UnitError};

/// `budget` of processor time in every `period` (the soft modem study, §5.4).
///
/// Guaranteed: `0 < budget ≤ period`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    budget: Service,
    period: Duration,
}

/// The right to CPU time outside a reservation's budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Enforcement {
    /// The budget is guaranteed. The holder also competes for unreserved time as an ordinary
    /// program does (the soft modem study, §5.4: Rialto/NT's own form).
    Soft,
    /// The budget is guaranteed, and the holder gets no more.
    Hard,
}

impl Enforcement {
    /// Both with their names in a contract.
    pub const NAMES: [(&'static str, Self); 2] = [("soft", Self::Soft), ("hard", Self::Hard)];

    /// Returns the name in a contract.
    pub fn name(self) -> &'static str {
        match self {
            Self::Soft => "soft",
            Self::Hard => "hard",
        }
    }
}

/// The rule that a reservation breaks, with the numbers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReservationError {
    /// The period is zero.
    #[error("the period is zero; it must be at least 1ns")]
    ZeroPeriod,
    /// The budget is zero.
    #[error("the budget is zero; it must be at least 1ns")]
    ZeroBudget,
    /// The budget is more than a whole CPU.
    #[error("the budget {budget} is above the period {period}: more than one whole CPU")]
    BudgetAbovePeriod {
        /// The budget given.
        budget: Service,
        /// The period given.
        period: Duration,
    },
    /// The text does not have the form `budget/period`.
    #[error("\"{0}\" is not a reservation; write the budget, a slash and the period: \"2ms/8ms\"")]
    NotTwoParts(String),
    /// The text does not have the form `least..most`, or the least is more.
    #[error(
        "\"{0}\" is not a range of budgets; write the least, two dots and the most: \"1ms..4ms\""
    )]
    NoRange(String),
    /// One of the two times does not parse.
    #[error("\"{text}\" {why}")]
    BadTime {
        /// The part that is wrong.
        text: String,
        /// The error in it.
        why: UnitError,
    },
}

impl Reservation {
    /// Validates and makes a reservation.
    pub fn new(budget: Service, period: Duration) -> Result<Self, ReservationError> {
        if period.is_zero() {
            return Err(ReservationError::ZeroPeriod);
        }
        if budget.is_zero() {
            return Err(ReservationError::ZeroBudget);
        }
        if budget.at_full_speed() > period {
            return Err(ReservationError::BudgetAbovePeriod { budget, period });
        }
        Ok(Self { budget, period })
    }

    /// Returns the processor time in every period.
    pub fn budget(self) -> Service {
        self.budget
    }

    /// Returns the time between two replenishments.
    pub fn period(self) -> Duration {
        self.period
    }

    /// Returns `budget / period`, for printing.
    pub fn utilisation(self) -> f64 {
        self.budget.as_nanos() as f64 / self.period.as_nanos() as f64
    }

    /// Returns `budget / period` in parts per million, rounded up, for comparison with a bound.
    pub fn utilisation_ppm(self) -> u64 {
        units::share_ppm(self.budget, self.period)
    }
}

impl fmt::Display for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.budget, self.period)
    }
}

/// Parses the form that users type: `2ms/8ms`.
impl FromStr for Reservation {
    type Err = ReservationError;

    fn from_str(text: &str) -> Result<Self, ReservationError> {
        let (budget, period) =
            text.split_once('/').ok_or_else(|| ReservationError::NotTwoParts(text.into()))?;
        Self::new(time(budget)?, time(period)?)
    }
}

/// The budgets between which an adaptive reservation stays.
///
/// Guaranteed: `0 < least ≤ most`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetRange {
    least: Service,
    most: Service,
}

impl BudgetRange {
    /// Returns the least.
    pub fn least(self) -> Service {
        self.least
    }

    /// Returns the most.
    pub fn most(self) -> Service {
        self.most
    }
}

impl fmt::Display for BudgetRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.least, self.most)
    }
}

/// Parses the form that users type: `1ms..4ms`.
impl FromStr for BudgetRange {
    type Err = ReservationError;

    fn from_str(text: &str) -> Result<Self, ReservationError> {
        let no_range = || ReservationError::NoRange(text.into());
        let (least, most) = text.split_once("..").ok_or_else(no_range)?;
        let (least, most): (Service, Service) = (time(least)?, time(most)?);
        let is_range = !least.is_zero() && least <= most;
        is_range.then_some(Self { least, most }).ok_or_else(no_range)
    }
}

fn time<T: FromStr<Err = UnitError>>(part: &str) -> Result<T, ReservationError> {
    part.parse().map_err(|why| ReservationError::BadTime { text: part.into(), why })
}

impl units::Declared for Reservation {
    fn refusal(_: &str, why: ReservationError) -> String {
        why.to_string()
    }

    fn bare(number: impl fmt::Display) -> String {
        ReservationError::NotTwoParts(number.to_string()).to_string()
    }
}

units::declared!(Reservation);

impl units::Declared for BudgetRange {
    fn refusal(_: &str, why: ReservationError) -> String {
        why.to_string()
    }

    fn bare(number: impl fmt::Display) -> String {
        ReservationError::NoRange(number.to_string()).to_string()
    }
}

units::declared!(BudgetRange);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_form_goes_both_ways() {
        let reservation: Reservation = "2ms/8ms".parse().expect("valid");
        assert_eq!(reservation.to_string(), "2ms/8ms");
        assert_eq!(reservation.utilisation_ppm(), 250_000);
    }

    #[test]
    fn utilisation_is_rounded_up() {
        let third: Reservation = "1ns/3ns".parse().expect("valid");
        assert_eq!(third.utilisation_ppm(), 333_334);
    }

    #[test]
    fn a_range_goes_both_ways_and_has_a_least_and_a_most() {
        let range: BudgetRange = "1ms..4ms".parse().expect("valid");
        assert_eq!(
            (range.to_string(), range.least()),
            ("1ms..4ms".into(), Service::from_millis(1))
        );
        for text in ["1ms", "4ms..1ms", "0ms..1ms", "1..4ms", "..", "1ms...4ms", "1ms..4ms..5ms"] {
            assert!(text.parse::<BudgetRange>().is_err(), "{text}");
        }
    }

    #[test]
    fn each_rule_is_held() {
        for text in ["2ms", "2/8ms", "0ms/8ms", "2ms/0ms", "9ms/8ms", "a/b", "/"] {
            assert!(text.parse::<Reservation>().is_err(), "{text}");
        }
    }
}
