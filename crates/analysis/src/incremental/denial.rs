//! The reason why a task or reservation was not admitted.

use alloc::format;
use alloc::string::{String, ToString as _};
use core::fmt;

use punctual_model::Duration;

use super::TaskId;
use crate::fixed_priority::ResponseTime;
use crate::judge::{lateness, no_bound, overdue};
use crate::steps::OutOfSteps;

/// The reason why a task or a reservation was not admitted. A denial changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// Some task would be late; the most urgent of them, as the full test would name it.
    Late {
        /// The late task; `None` for the requested one.
        task: Option<TaskId>,
        /// The knowledge about its response time.
        response_time: ResponseTime,
        /// The exceeded deadline.
        relative_deadline: Duration,
    },
    /// Under `edf`: in some window more work is due than there is time.
    Demand {
        /// The length of the window.
        window: Duration,
        /// The excess of the due work over the window.
        by: Duration,
    },
    /// The tasks would need more than the CPU together with the reservations.
    Overload {
        /// The task without a bound; `None` for the requested one, or under `edf` for all.
        task: Option<TaskId>,
    },
    /// The deciding test does not prove a task in time, and gives no bound.
    NotProven {
        /// The task that is not proven; `None` for the requested one.
        task: Option<TaskId>,
    },
    /// Not decided within the steps, or beyond 64 bits of nanoseconds.
    Undecided,
    /// The task given as `below` is not admitted.
    NoSuchTask,
}

impl Denial {
    /// Formats the denial in the words of the full test, with `own` for the requested task; no
    /// other task is named.
    pub(crate) fn said_of(&self, own: &str) -> String {
        let (task, why) = match *self {
            Self::Late { task, response_time, relative_deadline } => {
                let found = lateness(response_time, relative_deadline, "what is more urgent");
                (task, found.map_or_else(String::new, |found| found.why))
            }
            Self::Demand { window, by } => (None, overdue(window, by)),
            Self::Overload { task } => (task, no_bound("the others")),
            Self::NotProven { task } => (task, "is not proven to be in time".into()),
            Self::Undecided => {
                (None, "could not be decided within the bound on the analysis".into())
            }
            Self::NoSuchTask => return "the task to go above is not admitted".to_string(),
        };
        format!("{} {why}", if task.is_some() { "a task admitted before" } else { own })
    }

    /// Returns by how much a task would be late, if known.
    pub(crate) fn shortfall(&self) -> Option<Duration> {
        match *self {
            Self::Late { response_time, relative_deadline, .. } => {
                lateness(response_time, relative_deadline, "")?.shortfall
            }
            Self::Demand { by, .. } => Some(by),
            _ => None,
        }
    }

    /// Returns whether the denial is about the requested task.
    pub(crate) fn is_of_own(&self) -> bool {
        let (Self::Late { task, .. } | Self::Overload { task } | Self::NotProven { task }) = self
        else {
            return true;
        };
        task.is_none()
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said_of("the task"))
    }
}

impl core::error::Error for Denial {}

impl From<OutOfSteps> for Denial {
    fn from(OutOfSteps: OutOfSteps) -> Self {
        Self::Undecided
    }
}
