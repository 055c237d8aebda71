//! Why something was not admitted.

use punctual_model::Duration;
use thiserror::Error;

use super::TaskId;
use crate::steps::OutOfSteps;

/// Why a task or a reservation was not admitted. Everything is as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Denial {
    /// Some task would be late; the most urgent of them, as the full test would name it.
    #[error(
        "{} could take {at_least} or more, beyond the relative deadline of {relative_deadline}",
        whose(.task)
    )]
    Late {
        /// Who; `None`: the task that was asked for.
        task: Option<TaskId>,
        /// A lower bound of the response time.
        at_least: Duration,
        /// What it exceeds.
        relative_deadline: Duration,
    },
    /// Under `edf`: in some window more work falls due than there is time.
    #[error("in a window of {window} the work that falls due would exceed the time by {by}")]
    Demand {
        /// The length of the window.
        window: Duration,
        /// By how much.
        by: Duration,
    },
    /// The tasks, or one and those more urgent, would need more than the CPU with the reservations.
    #[error("{} would have no finite response time", whose(.task))]
    Overload {
        /// Who; `None`: the task that was asked for, or under `edf` all.
        task: Option<TaskId>,
    },
    /// The test that decides does not prove it in time, and gives no bound.
    #[error("{} is not proven to be in time", whose(.task))]
    NotProven {
        /// Who; `None`: the task that was asked for.
        task: Option<TaskId>,
    },
    /// Not decided within the steps, or beyond 64 bits of nanoseconds.
    #[error("not decided within the bound on the analysis")]
    Undecided,
    /// The task to be placed by is not there.
    #[error("the task to go above is not admitted")]
    NoSuchTask,
}

fn whose(task: &Option<TaskId>) -> &'static str {
    if task.is_some() { "a task admitted before" } else { "the task" }
}

impl From<OutOfSteps> for Denial {
    fn from(OutOfSteps: OutOfSteps) -> Self {
        Self::Undecided
    }
}
