//! What would fit instead: one entry with less work, or with a longer period.
//!
//! Both are found by bisection over admission of the whole contract, and what is offered has been
//! admitted by the same examination that a new request would pass. Less work never hurts on one
//! CPU, so there the wcet is the largest that fits. A longer period can: it changes priorities, and
//! on several CPUs either can change who runs where. So "largest" and "shortest" mean next to a
//! value that does not fit, not that none beyond would.

use punctual_model::units::MAX_NANOS;
use punctual_model::{Contract, Duration, HostProfile, Reservation, Service, Task, TaskSpec};

use crate::examination::{Entry, examine, fits};
use crate::ratio;
use crate::sched_deadline::{KernelLimits, LEAST_RUNTIME};
use crate::steps::Steps;
use crate::verdict::CounterOffer;

/// What the whole search for one counter-offer may use. Where it ends early, the offer is the best
/// found until then.
const SEARCH: u64 = Steps::ADMISSION;

/// How many entries beside the failed one are tried, those with the largest shares.
const OTHERS: usize = 4;

/// A change of `failed` with which `contract` is admitted; if there is none, one of another entry.
pub(crate) fn find(contract: &Contract, host: &HostProfile, failed: Entry) -> Option<CounterOffer> {
    let mut search = Search { trial: contract.clone(), host, steps: Steps::new(SEARCH) };
    let tasks = (0..contract.tasks.len()).map(Entry::Task);
    let reservations = (0..contract.reservations.len()).map(Entry::Reservation);
    let mut others: alloc::vec::Vec<Entry> = tasks.chain(reservations).collect();
    others.retain(|&other| other != failed);
    others.sort_by_key(|&other| core::cmp::Reverse(share(contract, other)));
    core::iter::once(failed).chain(others.into_iter().take(OTHERS)).find_map(|entry| {
        let original = search.get(entry);
        let work = search.largest_work(&original);
        search.set(&original);
        let period = search.shortest_period(&original);
        search.set(&original);
        let (entry, is_reservation) = original.name(contract);
        (work.is_some() || period.is_some()).then_some(CounterOffer {
            entry,
            is_reservation,
            work: work.map(Service::from_nanos),
            period: period.map(Duration::from_nanos),
        })
    })
}

/// `work / period` in units of 2⁻⁶⁴.
fn share(contract: &Contract, entry: Entry) -> u128 {
    let (work, period) = match entry {
        Entry::Task(at) => (contract.tasks[at].wcet(), contract.tasks[at].min_inter_arrival()),
        Entry::Reservation(at) => {
            let reservation = contract.reservations[at].reservation;
            (reservation.budget(), reservation.period())
        }
    };
    ratio::share(work.as_nanos(), period.as_nanos())
}

/// An entry with its place in the contract.
#[derive(Clone)]
enum Placed {
    Task(usize, Task),
    Reservation(usize, Reservation),
}

impl Placed {
    fn name(&self, contract: &Contract) -> (alloc::string::String, bool) {
        match self {
            Self::Task(_, task) => (task.name().into(), false),
            Self::Reservation(at, _) => (contract.reservations[*at].name.clone(), true),
        }
    }

    fn work(&self) -> u64 {
        match self {
            Self::Task(_, task) => task.wcet().as_nanos(),
            Self::Reservation(_, reservation) => reservation.budget().as_nanos(),
        }
    }

    fn period(&self) -> u64 {
        match self {
            Self::Task(_, task) => task.min_inter_arrival().as_nanos(),
            Self::Reservation(_, reservation) => reservation.period().as_nanos(),
        }
    }

    /// No less makes sense.
    fn least_work(&self) -> u64 {
        match self {
            Self::Task(..) => 1,
            Self::Reservation(..) => LEAST_RUNTIME.as_nanos(),
        }
    }

    /// Nothing longer can be said.
    fn longest_period(&self) -> u64 {
        match self {
            Self::Task(..) => MAX_NANOS,
            Self::Reservation(..) => KernelLimits::default().longest_period.as_nanos(),
        }
    }

    /// The same with other work. `None` if that is no valid entry.
    fn with_work(&self, work: u64) -> Option<Self> {
        let work = Service::from_nanos(work);
        match self {
            Self::Task(at, task) => {
                let spec = task.spec().clone();
                let quantum = spec.quantum.min(work);
                let last_segment = spec.last_segment.min(work);
                let spec = TaskSpec { wcet: work, quantum, last_segment, ..spec };
                Some(Self::Task(*at, Task::new(spec).ok()?))
            }
            Self::Reservation(at, reservation) => {
                Some(Self::Reservation(*at, Reservation::new(work, reservation.period()).ok()?))
            }
        }
    }

    /// The same with another period. `None` if that is no valid entry.
    fn with_period(&self, period: u64) -> Option<Self> {
        let period = Duration::from_nanos(period);
        match self {
            Self::Task(at, task) => {
                let spec = task.spec().clone();
                let implicit = spec.relative_deadline == spec.min_inter_arrival;
                let relative_deadline = if implicit { period } else { spec.relative_deadline };
                let spec = TaskSpec { min_inter_arrival: period, relative_deadline, ..spec };
                Some(Self::Task(*at, Task::new(spec).ok()?))
            }
            Self::Reservation(at, reservation) => {
                Some(Self::Reservation(*at, Reservation::new(reservation.budget(), period).ok()?))
            }
        }
    }
}

struct Search<'a> {
    /// The contract, in which one entry at a time is changed.
    trial: Contract,
    host: &'a HostProfile,
    steps: Steps,
}

impl Search<'_> {
    fn get(&self, entry: Entry) -> Placed {
        match entry {
            Entry::Task(at) => Placed::Task(at, self.trial.tasks[at].clone()),
            Entry::Reservation(at) => {
                Placed::Reservation(at, self.trial.reservations[at].reservation)
            }
        }
    }

    fn set(&mut self, entry: &Placed) {
        match entry {
            Placed::Task(at, task) => self.trial.tasks[*at] = task.clone(),
            Placed::Reservation(at, reservation) => {
                self.trial.reservations[*at].reservation = *reservation;
            }
        }
    }

    fn fits_with(&mut self, changed: Option<Placed>) -> bool {
        let Some(changed) = changed else { return false };
        self.set(&changed);
        fits(&self.trial, self.host, &mut self.steps)
    }

    /// Whether a new request with this change would be admitted: the same examination, the same
    /// number of steps.
    fn admitted_with(&mut self, changed: Option<Placed>) -> bool {
        let Some(changed) = changed else { return false };
        self.set(&changed);
        examine(&self.trial, self.host, &mut Steps::default(), 0).failure.is_none()
    }

    fn largest_work(&mut self, original: &Placed) -> Option<u64> {
        let (mut fits, mut too_large) = (original.least_work(), original.work());
        if fits >= too_large || !self.fits_with(original.with_work(fits)) {
            return None;
        }
        while too_large - fits > 1 {
            let middle = fits + (too_large - fits) / 2;
            if self.fits_with(original.with_work(middle)) {
                fits = middle;
            } else {
                too_large = middle;
            }
        }
        self.admitted_with(original.with_work(fits)).then_some(fits)
    }

    fn shortest_period(&mut self, original: &Placed) -> Option<u64> {
        let mut too_short = original.period();
        let mut fits = loop {
            let longest = original.longest_period();
            if too_short >= longest {
                return None;
            }
            let longer = too_short.saturating_mul(2).min(longest);
            if self.fits_with(original.with_period(longer)) {
                break longer;
            }
            too_short = longer;
        };
        while fits - too_short > 1 {
            let middle = too_short + (fits - too_short) / 2;
            if self.fits_with(original.with_period(middle)) {
                fits = middle;
            } else {
                too_short = middle;
            }
        }
        self.admitted_with(original.with_period(fits)).then_some(fits)
    }
}
