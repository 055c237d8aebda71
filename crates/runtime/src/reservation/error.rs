//! The errors of reservations, and the reservation that the kernel would still accept after it has
//! refused one for want of bandwidth.

use std::fmt;

use punctual_analysis::Refusal;
use punctual_analysis::supply::NoRoom;
use punctual_linux::cgroup::CgroupError;
use punctual_linux::cgroup::group_clock::GroupClockError;
use punctual_linux::host::KernelLimits;
use punctual_linux::sched::{Class, LEAST_BUDGET, SchedError};
use punctual_linux::thread::{AffinityError, Tid};
use punctual_linux::{bandwidth, sched};
use punctual_model::{Duration, Reservation, Service};
use thiserror::Error;

use super::choose::Unsuitable;

/// The grain of offers, in nanoseconds: whole microseconds.
const GRAIN: u64 = 1_000;

/// The reason why no timetable can be followed on a CPU.
#[derive(Debug, Error)]
pub enum StartError {
    /// Another process follows a timetable on it.
    #[error(
        "another process follows a timetable on CPU {cpu}; ask that one (the broker, if it is one; else \
         `ss -xlp` names the holder of @punctual-dispatcher-cpu-{cpu}), or choose another CPU"
    )]
    Taken {
        /// The CPU.
        cpu: usize,
    },
    /// This process may not use it.
    #[error("no timetable on CPU {cpu}: {error}")]
    Cpu {
        /// The CPU.
        cpu: usize,
        /// The reason.
        error: AffinityError,
    },
    /// The dispatcher got no real-time priority.
    #[error(transparent)]
    Class(#[from] SchedError),
    /// The dispatcher ended.
    #[error("the dispatcher of CPU {cpu} ended before it began")]
    Ended {
        /// The CPU.
        cpu: usize,
    },
    /// A thread, the guard, or the socket could not be created.
    #[error("no dispatcher: {0}")]
    Thread(#[from] std::io::Error),
}

/// The reason why a reservation is not given, or not changed.
#[derive(Debug, Error)]
pub enum Refused {
    /// It does not fit beside what is reserved. If several CPUs were tried, this is the one that
    /// came nearest.
    #[error("CPU {cpu}: {refusal}")]
    DoesNotFit {
        /// The CPU.
        cpu: usize,
        /// The failing test, the shortfall, and what would fit.
        refusal: Box<Refusal>,
    },
    /// A time constraint does not fit.
    #[error("refused on CPU {cpu}: {refusal}")]
    NoRoom {
        /// The CPU.
        cpu: usize,
        /// The constraints that would fit.
        refusal: NoRoom,
    },
    /// No back end can do this here.
    #[error(transparent)]
    Unsuitable(#[from] Unsuitable),
    /// The kernel has no bandwidth left for its own reservation.
    #[error("{error}; {offer}")]
    NoBandwidth {
        /// The kernel's answer.
        error: SchedError,
        /// The reservation that the kernel would have accepted.
        offer: KernelOffer,
    },
    /// The kernel refused a class, or its own reservation for another reason.
    #[error(transparent)]
    Class(#[from] SchedError),
    /// The owner cannot be held in a group.
    #[error(transparent)]
    Group(#[from] CgroupError),
    /// The kernel counts no time of a group on one CPU.
    #[error(transparent)]
    NoGroupClock(#[from] GroupClockError),
    /// No timetable can be followed.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The owner is under the kernel's own reservation.
    #[error(
        "thread {thread} is under SCHED_DEADLINE; it must leave that class itself before a timetable \
         can hold it"
    )]
    AlreadyReserved {
        /// The thread.
        thread: Tid,
    },
    /// The owner has ended, or never existed.
    #[error("the owner of the reservation has ended")]
    Gone,
    /// A bound of the dispatcher was reached.
    #[error(
        "there are {most} reservations or time constraints on this CPU already, and no more fit"
    )]
    TooMany {
        /// The bound.
        most: usize,
    },
    /// An error of a file, a child or the guard.
    #[error("the owner cannot be held: {0}")]
    Io(#[from] std::io::Error),
}

/// The reservations that the kernel would have accepted in place of a refused one at that moment.
/// Other threads' requests can take the bandwidth before the offer is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelOffer {
    /// The largest budget for the requested period; `None` if the kernel would accept none, or if
    /// it could not be found out.
    pub largest_budget: Option<Reservation>,
    /// The shortest period for the requested budget; `None` as above.
    pub shortest_period: Option<Reservation>,
}

impl KernelOffer {
    /// Finds the offer for a thread that was refused `asked`: from the reservation that a scratch
    /// thread gets ([`bandwidth::largest_budget`]), from the kernel's limits on budgets and
    /// periods, and by a scratch thread that tries each offer. Takes some milliseconds, in which
    /// other threads may be refused for a moment; [`sched::set`] retries for longer than that.
    ///
    /// ```no_run
    /// use punctual_runtime::reservation::KernelOffer;
    ///
    /// println!("{}", KernelOffer::instead_of("9ms/10ms".parse()?));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn instead_of(asked: Reservation) -> Self {
        Self::beside(asked, None)
    }

    /// Finds the offer for a thread that already holds `held` from the kernel. Only the excess over
    /// it is tried: the thread keeps what it holds.
    fn beside(asked: Reservation, held: Option<Reservation>) -> Self {
        let limits = KernelLimits::read();
        let longest = limits.longest_period;
        let free = bandwidth::largest_budget(longest).unwrap_or(Service::ZERO);
        let share = Share { free, of: longest, held };
        let is_taken = |offer: &Reservation| {
            limits.check(*offer).is_ok() && share.beyond(*offer).is_none_or(would_take)
        };
        Self {
            largest_budget: share.budget_for(asked.period()).filter(is_taken),
            shortest_period: share.period_for(asked.budget()).filter(is_taken),
        }
    }
}

impl fmt::Display for KernelOffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.largest_budget, self.shortest_period) {
            (Some(budget), Some(period)) => {
                write!(f, "it would take {budget} or {period} at this moment")
            }
            (Some(one), None) | (None, Some(one)) => {
                write!(f, "it would take {one} at this moment")
            }
            (None, None) => f.write_str(
                "at this moment it would take neither less in that period nor that in a longer one",
            ),
        }
    }
}

/// Returns whether a scratch thread gets the reservation.
fn would_take(offer: Reservation) -> bool {
    sched::try_out(Class::Deadline { reservation: offer, reset_on_fork: true }).is_ok()
}

/// The share of a CPU that one thread can have: the free part and the part that it holds.
struct Share {
    free: Service,
    of: Duration,
    held: Option<Reservation>,
}

impl Share {
    /// Returns the largest budget in whole microseconds, if the kernel could enforce it.
    fn budget_for(&self, period: Duration) -> Option<Reservation> {
        let part = |budget: Service, of: Duration| {
            u128::from(budget.as_nanos()) * u128::from(period.as_nanos())
                / u128::from(of.as_nanos())
        };
        let held = self.held.map_or(0, |held| part(held.budget(), held.period()));
        let most = (part(self.free, self.of) + held).min(u128::from(period.as_nanos()));
        let most = u64::try_from(most).ok()? / GRAIN * GRAIN;
        let budget = Service::from_nanos(most);
        if budget < LEAST_BUDGET { None } else { Reservation::new(budget, period).ok() }
    }

    /// Returns the shortest period in whole microseconds that allows this budget.
    fn period_for(&self, budget: Service) -> Option<Reservation> {
        let enough = |micros: u64| {
            let period = Duration::from_nanos(micros.checked_mul(GRAIN)?);
            let most = self.budget_for(period)?;
            (most.budget() >= budget).then_some(period)
        };
        let (mut short, mut long) = (0, self.of.as_nanos() / GRAIN);
        enough(long)?;
        // The budget of a period never falls with its length.
        while long - short > 1 {
            let middle = short + (long - short) / 2;
            if enough(middle).is_some() {
                long = middle;
            } else {
                short = middle;
            }
        }
        Reservation::new(budget, enough(long)?).ok()
    }

    /// Returns the excess of `offer` over the held reservation, as a reservation; `None` if there
    /// is none.
    fn beyond(&self, offer: Reservation) -> Option<Reservation> {
        let Some(held) = self.held else { return Some(offer) };
        let of_held = u128::from(held.budget().as_nanos()) * u128::from(offer.period().as_nanos())
            / u128::from(held.period().as_nanos());
        let more = offer.budget().as_nanos().checked_sub(u64::try_from(of_held).ok()?)?;
        let more = Service::from_nanos(more);
        if more < LEAST_BUDGET { None } else { Reservation::new(more, offer.period()).ok() }
    }
}

/// Turns a refusal of the kernel into ours, with an offer if it was for want of bandwidth.
pub(super) fn refused(
    error: SchedError,
    asked: Reservation,
    held: Option<Reservation>,
) -> super::Refused {
    match error {
        SchedError::NoBandwidth { .. } => {
            let offer = KernelOffer::beside(asked, held);
            super::Refused::NoBandwidth { error, offer }
        }
        other => super::Refused::Class(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reservation(text: &str) -> Reservation {
        text.parse().expect("well-formed")
    }

    fn share(free_ms: u64, held: Option<&str>) -> Share {
        let (free, of) = (Service::from_millis(free_ms), Duration::from_secs(4));
        Share { free, of, held: held.map(reservation) }
    }

    #[test]
    fn the_largest_budget_and_the_shortest_period_are_those_of_what_is_free() {
        // A quarter of a CPU.
        let quarter = share(1_000, None);
        assert_eq!(quarter.budget_for(Duration::from_millis(8)), Some(reservation("2ms/8ms")));
        assert_eq!(quarter.period_for(Service::from_millis(3)), Some(reservation("3ms/12ms")));
        assert_eq!(quarter.period_for(Service::from_secs(2)), None, "no period is so long");
        let odd = quarter.budget_for(Duration::from_nanos(10_003)).expect("2.5 us");
        assert_eq!(odd.budget(), Service::from_micros(2), "in whole microseconds");
    }

    #[test]
    fn what_the_thread_holds_is_its_own() {
        let held = share(1_000, Some("1ms/4ms"));
        assert_eq!(held.budget_for(Duration::from_millis(8)), Some(reservation("4ms/8ms")));
        assert_eq!(held.beyond(reservation("4ms/8ms")), Some(reservation("2ms/8ms")));
        assert_eq!(held.beyond(reservation("1ms/8ms")), None);
        let all = share(4_000, Some("1ms/4ms"));
        assert_eq!(all.budget_for(Duration::from_millis(8)), Some(reservation("8ms/8ms")));
    }

    #[test]
    fn where_nothing_is_left_nothing_is_offered() {
        let none = share(0, None);
        assert_eq!(none.budget_for(Duration::from_millis(8)), None);
        assert_eq!(none.period_for(Service::from_millis(1)), None);
        let offer = KernelOffer { largest_budget: None, shortest_period: None };
        assert!(offer.to_string().contains("neither"));
    }

    #[test]
    fn the_shortest_period_is_the_least_that_gives_the_budget() {
        let odd =
            Share { free: Service::from_micros(777_777), of: Duration::from_secs(4), held: None };
        for micros in [3, 17, 400, 12_345] {
            let budget = Service::from_micros(micros);
            let found = odd.period_for(budget).expect("long enough").period();
            assert!(odd.budget_for(found).is_some_and(|most| most.budget() >= budget));
            let shorter = found - Duration::from_micros(1);
            assert!(odd.budget_for(shorter).is_none_or(|most| most.budget() < budget));
        }
    }
}
