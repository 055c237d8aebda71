//! Places the yield points of a job.

use punctual_model::{Service, Task};

/// The places of yield points within what the contract allows: at most a quantum apart, none in the
/// last segment. Chosen at compile time, so that the usual choice costs the simulator nothing.
pub trait Yields {
    /// True if no task is eager.
    const SELDOM: bool;

    /// Returns whether jobs of `task` have yield points everywhere but in their last segment.
    fn eager(&self, task: u32) -> bool;
}

/// Yield points as rare as the contract allows: each time a job has run for a whole quantum since
/// it last got the CPU, or where its last segment begins. A job with no more than a quantum to do
/// runs to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seldom;

impl Yields for Seldom {
    const SELDOM: bool = true;

    fn eager(&self, _: u32) -> bool {
        false
    }
}

/// For each task, true if its jobs have yield points everywhere but in their last segment. That is
/// worst for the task itself, as long quanta are worst for others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eager<'a>(pub &'a [bool]);

impl Yields for Eager<'_> {
    const SELDOM: bool = false;

    fn eager(&self, task: u32) -> bool {
        self.0.get(task as usize).copied().unwrap_or(false)
    }
}

/// Returns how long a job still runs to its next yield point, or to its end, if it had `whole` to
/// do when it got the CPU and has `left` to do. The result is zero at a yield point.
///
/// Yield points at which no other job wants the CPU are no events: a job of a second with a quantum
/// of a nanosecond takes no longer to simulate than any other.
pub(super) fn until_yield(task: &Task, whole: Service, left: Service, eager: bool) -> Service {
    let (quantum, last) = (task.quantum(), task.last_segment());
    let ran = whole - left;
    let before_last = whole.saturating_sub(last);
    let point = if eager {
        before_last
    } else if quantum.is_zero() || whole <= quantum {
        whole
    } else {
        // The job runs one quantum after the other, as long as the last segment still fits behind
        // it. Then it runs up to the last segment, unless the rest is no longer than a quantum.
        let of = |quanta: u64| Service::from_nanos(quantum.as_nanos().saturating_mul(quanta));
        let next = of(ran.as_nanos().div_ceil(quantum.as_nanos()).max(1));
        let whole_quanta = of(before_last.as_nanos() / quantum.as_nanos());
        if next < whole && next <= before_last {
            next
        } else if whole - whole_quanta > quantum {
            before_last
        } else {
            whole
        }
    };
    // There is none before the end.
    if point.is_zero() || point < ran { left } else { point - ran }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::{Duration, TaskSpec};

    /// Returns how long a job that is at a yield point with `left` to do runs to the next one, or
    /// to its end. This is the contract's rule, one stretch at a time.
    fn stretch(task: &Task, left: Service, eager: bool) -> Service {
        let quantum = task.quantum();
        if eager {
            let before = left.saturating_sub(task.last_segment());
            if before.is_zero() { left } else { before }
        } else if quantum.is_zero() || left <= quantum {
            left
        } else {
            // The rest is longer than a quantum, and so than the last segment.
            quantum.min(left - task.last_segment())
        }
    }

    #[test]
    fn the_next_yield_point_is_that_of_walking_from_one_to_the_next() {
        let nanos = Service::from_nanos;
        for (quantum, last) in
            [(0, 0), (1, 0), (1, 1), (3, 0), (3, 1), (3, 2), (3, 3), (7, 2), (7, 7), (30, 5)]
        {
            let task = Task::new(TaskSpec {
                quantum: nanos(quantum),
                last_segment: nanos(last),
                ..TaskSpec::periodic("a", Duration::from_millis(1), nanos(30))
            });
            let task = task.expect("valid");
            for (whole, eager) in (1..=30).flat_map(|whole| [(whole, false), (whole, true)]) {
                // Steps to the next yield point, or the end.
                let mut point = 0;
                for ran in 1..=whole {
                    while point < ran {
                        point += stretch(&task, nanos(whole - point), eager).as_nanos();
                    }
                    let found = until_yield(&task, nanos(whole), nanos(whole - ran), eager);
                    assert_eq!(found, nanos(point - ran), "{quantum} {last} {whole} {ran} {eager}");
                }
            }
        }
    }
}
