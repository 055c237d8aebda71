//! From a soft device's demand to sufficient reservations.
//!
//! # The question
//! Work C comes every P: 1.84 ms every 12.5 ms for the modem of the study. Which (X, Y) are enough?
//! There are up to three conditions, each of which the device has or has not:
//!
//! - *share*, always: `X/Y ≥ C/P`. Otherwise it falls behind for ever.
//! - *gap*, [`PeriodicDemand::called_within`] G: the longest stretch without service is shorter
//!   than G. The study's model has `Y − X < 12.5 ms`, its interrupt period: a latch that loses an
//!   interrupt when the next one comes before the code was called (soft modem study, §6.6, Figure
//!   17; a slide prints `>`).
//! - *deadline*, [`PeriodicDemand::due_within`] D: each C is complete D after it came; proven by
//!   [`super::fixed_priority`]. For a ring of samples [`PeriodicDemand::in_ring`] gives D.
//!
//! # Relation to the study's measurements
//! The share and gap conditions *are the study's model*, fitted to twelve points of one modem; only
//! the deadline condition is a theorem. One measured point is outside the model: 1 ms every 7 ms
//! worked, with 14.29 % under the 14.72 % line ("the behavior in this region is not completely
//! linear"): 1.84 ms is an average with the file transfer running. The answer here is
//! "insufficient", on the safe side.
//!
//! # Units and answers
//! Nanoseconds, exact at the edges: the share holds at equality, the gap does not, the deadline
//! does. There is no answer if [`Steps`] run out.

use punctual_model::{Duration, Reservation, Service, Task, TaskError, TaskSpec};
use thiserror::Error;

use crate::fixed_priority::ResponseTime;
use crate::load::CpuLoad;
use crate::steps::Steps;

use super::bound::{Guarantee, Supply};
use super::fixed_priority::response_times_inside;

/// Work that comes every period, with the conditions on its service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeriodicDemand {
    work: Service,
    period: Duration,
    called_within: Option<Duration>,
    due_within: Option<Duration>,
}

/// The reason why a reservation is not known to be enough, with the numbers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Insufficient {
    /// X/Y is below C/P.
    #[error("{budget} is too small a share: {needed} is needed in the same period")]
    Share {
        /// X.
        budget: Service,
        /// The least X of this period with the share.
        needed: Service,
    },
    /// The device may not be called in time.
    #[error("up to {gap} without service, and it must be called in less than {allowed}")]
    Gap {
        /// The longest stretch without service.
        gap: Duration,
        /// It must be shorter than this.
        allowed: Duration,
    },
    /// Some work may be late.
    #[error("work can take {response_time} and must be done within {relative_deadline}")]
    Late {
        /// A lower bound of its longest response time.
        response_time: Duration,
        /// The longest permitted response time.
        relative_deadline: Duration,
    },
    /// Not decided within the steps.
    #[error("not decided within the bound on the analysis")]
    Undecided,
}

impl PeriodicDemand {
    /// Creates a demand of `work` every `period` that may fall behind by any bounded amount: only
    /// the share counts. It is refused if it needs more than the whole CPU.
    pub fn new(work: Service, period: Duration) -> Result<Self, TaskError> {
        Task::new(TaskSpec::periodic("demand", period, work))?;
        Ok(Self { work, period, called_within: None, due_within: None })
    }

    /// Also requires that it never goes without service for `gap` or longer.
    #[must_use]
    pub fn called_within(self, gap: Duration) -> Self {
        Self { called_within: Some(gap), ..self }
    }

    /// Also requires the study's model of a latch: an interrupt must be handled before the next one
    /// comes.
    #[must_use]
    pub fn latched(self) -> Self {
        let period = self.period;
        self.called_within(period)
    }

    /// Also requires each work to be complete within `relative_deadline` of its release.
    #[must_use]
    pub fn due_within(self, relative_deadline: Duration) -> Self {
        Self { due_within: Some(relative_deadline), ..self }
    }

    /// Also requires that no samples are lost. They wait, `batch` of them at each release, in a
    /// ring of `capacity` that the device continues to fill at `rate` samples a second; when all of
    /// it is pending, data is lost (the card of the study: 512 samples, "reaching 512 wraps to 0").
    ///
    /// At a time R after a release at most `batch + R·rate` samples are pending, if the older ones
    /// are done: so the deadline is the last nanosecond with `batch + R·rate < capacity`. Returns
    /// `None` if the ring is not larger than a batch, or the rate is zero.
    pub fn in_ring(self, batch: u32, capacity: u32, rate: u32) -> Option<Self> {
        let room = u64::from(capacity.checked_sub(batch).filter(|room| *room > 0)?);
        let nanos = (room * 1_000_000_000 - 1).checked_div(u64::from(rate))?;
        Some(self.due_within(Duration::from_nanos(nanos)))
    }

    /// Checks that `supply` is enough.
    pub fn sufficient(&self, supply: &Supply, steps: &mut Steps) -> Result<(), Insufficient> {
        let needed = self.least_share(supply.reservation().period());
        let budget = supply.reservation().budget();
        if budget < needed {
            return Err(Insufficient::Share { budget, needed });
        }
        if let Some(allowed) = self.called_within {
            let gap = supply.longest_gap().ok_or(Insufficient::Undecided)?;
            if gap >= allowed {
                return Err(Insufficient::Gap { gap, allowed });
            }
        }
        let Some(relative_deadline) = self.due_within else { return Ok(()) };
        match self.response_time(supply, steps) {
            ResponseTime::AtMost(bound) if bound <= relative_deadline => Ok(()),
            ResponseTime::AtMost(response_time)
            | ResponseTime::Undecided { at_least: response_time }
                if response_time > relative_deadline =>
            {
                Err(Insufficient::Late { response_time, relative_deadline })
            }
            _ => Err(Insufficient::Undecided),
        }
    }

    /// Returns how long one period's work can take inside `supply`, regardless of its deadline.
    pub fn response_time(&self, supply: &Supply, steps: &mut Steps) -> ResponseTime {
        let Ok(task) = Task::new(TaskSpec::periodic("demand", self.period, self.work)) else {
            // `new` has made a task from the same numbers.
            return ResponseTime::Unbounded;
        };
        let load = CpuLoad::new([&task], [], Service::ZERO);
        response_times_inside(&load, supply, steps)[0]
    }

    /// Returns the least sufficient X with Y = `period`: the lower edge of the region. Returns
    /// `None` if there is none, or none is proven within `steps_a_trial`.
    ///
    /// All three conditions hold for X + 1 if they hold for X, so the search bisects, and the
    /// result was itself tested.
    pub fn least_budget(
        &self,
        period: Duration,
        guarantee: Guarantee,
        steps_a_trial: u64,
    ) -> Option<Reservation> {
        let trial = |budget| {
            let reservation = Reservation::new(Service::from_nanos(budget), period).ok()?;
            let supply = Supply::new(reservation, guarantee);
            self.sufficient(&supply, &mut Steps::new(steps_a_trial)).ok().map(|()| reservation)
        };
        let mut best = trial(period.as_nanos())?;
        let (mut low, mut high) = (0, period.as_nanos());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match trial(middle) {
                Some(reservation) => (high, best) = (middle, reservation),
                None => low = middle,
            }
        }
        Some(best)
    }

    /// Returns the least X with `X/Y ≥ C/P`.
    fn least_share(&self, period: Duration) -> Service {
        let area = u128::from(self.work.as_nanos()) * u128::from(period.as_nanos());
        // C ≤ P, so at most Y.
        Service::from_nanos(area.div_ceil(u128::from(self.period.as_nanos())) as u64)
    }
}
