//! The study's measurements: its Table 3 and Figure 17.

use punctual_model::{Duration, Reservation, Service};

use super::judge::Class;

/// One row of Table 3: ten transfers to the dedicated server under a hard reservation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// X, in milliseconds.
    pub budget_ms: u64,
    /// Y, in milliseconds.
    pub period_ms: u64,
    /// Mean time of the transfers that succeeded, in milliseconds.
    pub mean_ms: Option<u64>,
    /// The number of transfers of ten that succeeded.
    pub succeeded: u64,
    /// Its class in Figure 17.
    pub class: Class,
}

impl Measured {
    /// Returns X every Y.
    pub fn reservation(&self) -> Reservation {
        let (budget, period) =
            (Service::from_millis(self.budget_ms), Duration::from_millis(self.period_ms));
        Reservation::new(budget, period).expect("a row of the table")
    }
}

const fn row(
    budget_ms: u64,
    period_ms: u64,
    mean_ms: Option<u64>,
    succeeded: u64,
    class: Class,
) -> Measured {
    Measured { budget_ms, period_ms, mean_ms, succeeded, class }
}

/// Table 3, in its order.
pub const TABLE_3: [Measured; 12] = [
    row(1, 7, Some(36_426), 10, Class::Sufficient),
    row(1, 8, None, 0, Class::Insufficient),
    row(2, 13, Some(36_547), 10, Class::Sufficient),
    row(2, 14, Some(65_172), 2, Class::Marginal),
    row(2, 15, None, 0, Class::Insufficient),
    row(3, 15, Some(36_387), 10, Class::Sufficient),
    row(3, 16, Some(110_523), 9, Class::Marginal),
    row(3, 17, None, 0, Class::Insufficient),
    row(4, 16, Some(36_415), 10, Class::Sufficient),
    row(4, 17, None, 0, Class::Insufficient),
    row(7, 20, None, 0, Class::Insufficient),
    row(8, 20, Some(36_394), 10, Class::Sufficient),
];
