//! What covers both an entry as it was and as it is.

use alloc::boxed::Box;
use alloc::vec::Vec;

use punctual_model::channel::{Channel, LinearBounded};
use punctual_model::{Duration, Reservation, Service};

use crate::load::TaskLoad;

/// Returns the tasks for which an executor counts while it changes from `old` to `new`; `None` if
/// these are `new` alone.
pub(super) fn in_between(old: &[TaskLoad], new: &[TaskLoad]) -> Option<Box<[TaskLoad]>> {
    let mut old: Vec<Option<TaskLoad>> = old.iter().copied().map(Some).collect();
    let mut both: Vec<Option<TaskLoad>> = new.iter().map(|_| None).collect();
    let same: [fn(&TaskLoad, &TaskLoad) -> bool; 2] =
        [|old, new| old == new, |old, new| old.period == new.period];
    for is_same in same {
        for (both, new) in both.iter_mut().zip(new).filter(|(both, _)| both.is_none()) {
            let same = old.iter_mut().find(|old| old.is_some_and(|old| is_same(&old, new)));
            *both = same.and_then(Option::take).map(|old| larger(old, *new));
        }
    }
    let kept = both.iter().zip(new).map(|(both, new)| both.unwrap_or(*new));
    let all: Box<[TaskLoad]> = kept.chain(old.into_iter().flatten()).collect();
    (*all != *new).then_some(all)
}

/// Returns a task of the same period that covers every job of both.
fn larger(one: TaskLoad, other: TaskLoad) -> TaskLoad {
    TaskLoad {
        work: one.work.max(other.work),
        wcet: one.wcet.max(other.wcet),
        high: one.high.max(other.high),
        period: one.period,
        deadline: one.deadline.min(other.deadline),
        jitter: one.jitter.max(other.jitter),
        quantum: one.quantum.max(other.quantum),
        // The least work with which both end.
        last: one.last.min(other.last),
    }
}

/// Returns a channel of which any sequence of messages of `old` and then of `new` could be.
pub(super) fn larger_channel(old: &Channel, new: &Channel) -> Channel {
    let (one, other) = (old.arrivals(), new.arrivals());
    let least = one.min_message().min(other.min_message());
    let most = one.max_message().max(other.max_message());
    let spacing = one.min_inter_arrival().min(other.min_inter_arrival());
    let burst = one.max_burst().max(other.max_burst());
    let delay = old.delay_bound().min(new.delay_bound());
    let both = LinearBounded::new(least, most, spacing, burst).expect("both are valid");
    if (both, delay) == (new.arrivals(), new.delay_bound()) {
        return new.clone();
    }
    Channel::new(new.name(), &both.into(), delay).expect("both are valid")
}

/// Returns a reservation that interferes with the layers below at least as much as one that is
/// `old` and then `new`. It has the larger share and the larger budget.
pub(super) fn larger_reservation(old: Reservation, new: Reservation) -> Reservation {
    let nanos = |one: Reservation| (one.budget().as_nanos(), one.period().as_nanos());
    let ((x, y), (other_x, other_y)) = (nanos(old), nanos(new));
    let budget = x.max(other_x);
    let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
    let (share_x, share_y) =
        if product(x, other_y) >= product(other_x, y) { (x, y) } else { (other_x, other_y) };
    let period = product(budget, share_y) / u128::from(share_x);
    let period = u64::try_from(period).unwrap_or(u64::MAX);
    // The share is at most one, so the budget is at most the period.
    Reservation::new(Service::from_nanos(budget), Duration::from_nanos(period)).unwrap_or(new)
}
