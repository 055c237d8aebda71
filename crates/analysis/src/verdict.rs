//! The two answers of admission.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use punctual_model::{Duration, Reservation, Service};
use thiserror::Error;

/// Admitted: what is proven of every task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a grant says where everything runs"]
pub struct Grant {
    /// In the order of the contract.
    pub tasks: Vec<GrantedTask>,
    /// In the order of the contract.
    pub reservations: Vec<GrantedReservation>,
    /// Every test of the policy, the cheapest first; the last decided.
    pub tests: Vec<TestReport>,
}

/// One admitted task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedTask {
    /// Its name in the contract.
    pub name: String,
    /// From 0 to the contract's `cpus − 1`.
    pub cpu: u16,
    /// No job takes longer, from nominal release to completion. Under `edf`, where finding it takes
    /// too long, this is the relative deadline: proven but weak.
    pub response_time_bound: Duration,
    /// As in the contract.
    pub relative_deadline: Duration,
    /// The deadline less the bound.
    pub slack: Duration,
}

/// One admitted reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedReservation {
    /// Its name in the contract.
    pub name: String,
    /// From 0 to the contract's `cpus − 1`.
    pub cpu: u16,
    /// X every Y.
    pub reservation: Reservation,
}

/// What one test says of the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestReport {
    /// Such as `response-time`.
    pub name: &'static str,
    /// A merely sufficient test may say no to what a later one admits.
    pub admits: bool,
    /// The numbers, or the assumption that does not hold.
    pub why: String,
}

/// What is known of one task of a contract that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskBound {
    /// Its name in the contract.
    pub name: String,
    /// `None`: there is none, or none was found.
    pub response_time_bound: Option<Duration>,
    /// As in the contract.
    pub relative_deadline: Duration,
}

impl TaskBound {
    /// The deadline less the bound, in nanoseconds; negative where the bound is too long.
    pub fn slack_ns(&self) -> Option<i128> {
        let bound = i128::from(self.response_time_bound?.as_nanos());
        Some(i128::from(self.relative_deadline.as_nanos()) - bound)
    }
}

/// Refused: which test decided, about whom, by how much, and what would fit instead.
///
/// It displays as a sentence with the numbers and the counter-offer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("refused by the {test} test: {why}; {}", offer_clause(.counter_offer))]
#[must_use = "a refusal must reach whoever asked"]
pub struct Refusal {
    /// The test that decided, as in [`TestReport::name`]; or `cpus`, when the host has too few.
    pub test: &'static str,
    /// The task or reservation that failed it.
    pub entry: Option<String>,
    /// How much too long, too late or too large; `None` where no finite number exists or none was
    /// found, and then `why` says so.
    pub shortfall: Option<Duration>,
    /// One clause with the numbers.
    pub why: String,
    /// A change with which the whole contract is admitted, if one was found.
    pub counter_offer: Option<Box<CounterOffer>>,
    /// In the order of the contract.
    pub tasks: Box<[TaskBound]>,
    /// Every test of the policy, the cheapest first.
    pub tests: Box<[TestReport]>,
}

/// One entry changed, in one of two ways: with either, all else as it is, the whole contract is
/// admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterOffer {
    /// The task or reservation to change: the one that failed, unless no change of it helps.
    pub entry: String,
    /// Whether `entry` is a reservation, so that `work` is its budget.
    pub is_reservation: bool,
    /// The largest wcet (with the quantum cut to it) or budget that was found to fit.
    pub work: Option<Service>,
    /// The shortest longer period that was found to fit; the deadline of a task moves with it if
    /// it was the period.
    pub period: Option<Duration>,
}

impl fmt::Display for CounterOffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { entry, is_reservation, work, period } = self;
        let (kind, what) =
            if *is_reservation { ("reservation", "budget") } else { ("task", "wcet") };
        write!(f, "it would be admitted if {kind} \"{entry}\" had a ")?;
        match (work, period) {
            (Some(work), Some(period)) => {
                write!(f, "{what} of at most {work}, or a period of at least {period}")
            }
            (Some(work), None) => write!(f, "{what} of at most {work}"),
            (None, Some(period)) => write!(f, "period of at least {period}"),
            (None, None) => f.write_str("smaller share"),
        }
    }
}

fn offer_clause(offer: &Option<Box<CounterOffer>>) -> String {
    match offer {
        Some(offer) => offer.to_string(),
        None => "no change of one wcet, budget or period was found that would fit".into(),
    }
}
