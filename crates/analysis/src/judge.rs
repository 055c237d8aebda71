//! The judgement of a deciding test on one CPU, in words and numbers.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use punctual_model::Duration;

use crate::edf::demand::DemandVerdict;
use crate::fixed_priority::{ResponseTime, certainly_late, response_times};
use crate::load::CpuLoad;
use crate::ratio;
use crate::steps::Steps;

/// The proofs about one CPU.
pub(crate) struct Judgement {
    /// A bound for each task, in the order of the load.
    pub(crate) bounds: Vec<Option<Duration>>,
    /// The first task, in priority order, that is certainly late; if there is none, the first that
    /// is not certainly in time.
    pub(crate) miss: Option<Miss>,
}

pub(crate) struct Miss {
    /// The task's position in the load.
    pub(crate) task: usize,
    pub(crate) shortfall: Option<Duration>,
    /// A predicate to follow the task's name.
    pub(crate) why: String,
}

/// The steps to search for a miss after the other steps ran out, in all and for each task.
const LAST_LOOK: u64 = Steps::ADMISSION / 4;
pub(crate) const LAST_LOOK_EACH: u64 = LAST_LOOK / 16;

/// Judges fixed priorities by response times.
pub(crate) fn fixed_priority(load: &CpuLoad, steps: &mut Steps) -> Judgement {
    let mut times = response_times(load, steps);
    let undecided = |time: &ResponseTime| matches!(time, ResponseTime::Undecided { .. });
    if times.iter().any(undecided)
        && let Some((at, at_least)) =
            certainly_late(load, &mut Steps::new(LAST_LOOK), LAST_LOOK_EACH)
        && undecided(&times[at])
    {
        times[at] = ResponseTime::Undecided { at_least };
    }
    by_response_time(load, times, "what is more urgent")
}

/// Judges by response times. `before` names the work that goes before a task.
pub(crate) fn by_response_time(
    load: &CpuLoad,
    times: Vec<ResponseTime>,
    before: &str,
) -> Judgement {
    let misses = || {
        let all = times.iter().zip(&load.tasks).enumerate();
        all.filter_map(|(task, (&time, of))| {
            Some((task, lateness(time, Duration::from_nanos(of.deadline), before)?))
        })
    };
    let miss = misses().find(|(_, late)| late.certain).or_else(|| misses().next());
    let miss = miss.map(|(task, Lateness { shortfall, why, .. })| Miss { task, shortfall, why });
    Judgement { bounds: times.into_iter().map(ResponseTime::bound).collect(), miss }
}

/// The report about a task that is not certainly in time.
pub(crate) struct Lateness {
    pub(crate) shortfall: Option<Duration>,
    /// Whether the task is late, not only undecided.
    certain: bool,
    /// A predicate to follow the task's name.
    pub(crate) why: String,
}

/// Returns how late a task is, or `None` if it is certainly in time. `before` names the work that
/// goes before it.
pub(crate) fn lateness(time: ResponseTime, deadline: Duration, before: &str) -> Option<Lateness> {
    let (shortfall, certain, why) = match time {
        ResponseTime::AtMost(bound) if bound <= deadline => return None,
        ResponseTime::AtMost(bound) => {
            let shortfall = bound - deadline;
            let why = format!(
                "can take {bound}, which is {shortfall} more than its relative deadline of \
                 {deadline}"
            );
            (Some(shortfall), true, why)
        }
        ResponseTime::Unbounded => (None, true, no_bound(before)),
        ResponseTime::Undecided { at_least } if at_least > deadline => {
            let why =
                format!("can take {at_least} or more, beyond its relative deadline of {deadline}");
            (Some(at_least - deadline), true, why)
        }
        ResponseTime::Undecided { at_least } => {
            let why = format!(
                "could not be decided within the bound on the analysis (its response time is at \
                 least {at_least})"
            );
            (None, false, why)
        }
    };
    Some(Lateness { shortfall, certain, why })
}

/// Says that a task and the work `before` it are too much.
pub(crate) fn no_bound(before: &str) -> String {
    format!("has no finite response time: it and {before} need more than the whole CPU")
}

/// Says that the work due in `window` exceeds it by `by`.
pub(crate) fn overdue(window: Duration, by: Duration) -> String {
    format!(
        "can miss its deadline: in a window of {window} the work that falls due exceeds the time by {by}"
    )
}

/// Judges by demand, which proves all deadlines or none. The bounds are the response times; if
/// those were not found, the deadlines, which the demand test proved.
pub(crate) fn by_demand(
    load: &CpuLoad,
    verdict: DemandVerdict,
    bounds: impl Iterator<Item = Option<Duration>>,
) -> Judgement {
    // If all tasks together are too much, name the one with the largest share.
    let heaviest = || {
        let share = |at: &usize| {
            let task = &load.tasks[*at];
            ratio::share(task.work, task.period)
        };
        (0..load.tasks.len()).max_by_key(share).unwrap_or(0)
    };
    let miss = match verdict {
        DemandVerdict::Fits => {
            let bounds = bounds.zip(&load.tasks).map(|(bound, task)| {
                let deadline = Duration::from_nanos(task.deadline);
                Some(bound.map_or(deadline, |bound| bound.min(deadline)))
            });
            return Judgement { bounds: bounds.collect(), miss: None };
        }
        DemandVerdict::Exceeds { window, by, task } => {
            Miss { task, shortfall: Some(by), why: overdue(window, by) }
        }
        DemandVerdict::Overload => {
            Miss { task: heaviest(), shortfall: None, why: no_bound("the others") }
        }
        DemandVerdict::Undecided => Miss {
            task: heaviest(),
            shortfall: None,
            why: String::from("could not be decided within the bound on the analysis"),
        },
    };
    Judgement { bounds: bounds.collect(), miss: Some(miss) }
}
