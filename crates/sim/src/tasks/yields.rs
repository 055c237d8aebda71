//! Where the yield points of a job lie.

use punctual_model::{Service, Task};

/// Where yield points lie within what the contract allows: at most a quantum apart, none in the last
/// segment. Chosen at compile time, so that the usual choice costs the simulator nothing.
pub trait Yields {
    /// Whether no task is eager.
    const SELDOM: bool;

    /// Whether jobs of `task` have yield points everywhere but in their last segment.
    fn eager(&self, task: u32) -> bool;
}

/// Stretches as long as the contract allows: each time a job has run for a whole quantum since it
/// last got the CPU, or where its last segment begins. A job with no more than a quantum to do
/// runs to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seldom;

impl Yields for Seldom {
    const SELDOM: bool = true;

    fn eager(&self, _: u32) -> bool {
        false
    }
}

/// For each task, whether its jobs have yield points everywhere but in their last segment. That is
/// worst for the task itself, as long quanta are worst for others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eager<'a>(pub &'a [bool]);

impl Yields for Eager<'_> {
    const SELDOM: bool = false;

    fn eager(&self, task: u32) -> bool {
        self.0.get(task as usize).copied().unwrap_or(false)
    }
}

/// How long a job that is at a yield point with `left` to do runs to the next one, or to its end.
#[inline]
pub(super) fn stretch(task: &Task, left: Service, eager: bool) -> Service {
    let quantum = task.quantum();
    if eager {
        let before = left.saturating_sub(task.last_segment());
        if before.is_zero() { left } else { before }
    } else if quantum.is_zero() || left <= quantum {
        left
    } else {
        // Longer than a quantum, so longer than the last segment.
        quantum.min(left - task.last_segment())
    }
}
