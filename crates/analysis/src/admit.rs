//! Does this contract fit on this host?

use alloc::string::ToString;

use punctual_model::{Contract, HostProfile};

use crate::counter_offer;
use crate::examination::{BOUNDS, Entry, Examination, Failure, examine};
use crate::steps::Steps;
use crate::verdict::{Grant, GrantedReservation, GrantedTask, Refusal, TaskBound};

/// Admits `contract` on `host` with a proven bound for every task, or refuses it with the numbers
/// and a counter-offer.
///
/// The sum of the reservations on each CPU must be within `host.reservable_ppm`. The tasks must
/// pass the deciding test of the policy on each CPU: exact response times under `rmdp`, `rm` and
/// `fp`, processor demand under `edf`. Several CPUs are filled first fit, largest share first. What
/// cannot be decided within [`Steps::ADMISSION`] is refused.
pub fn admit(contract: &Contract, host: &HostProfile) -> Result<Grant, Refusal> {
    let mut examination = examine(contract, host, &mut Steps::default(), BOUNDS);
    match examination.failure.take() {
        None => Ok(examination.grant(contract)),
        Some(failure) => Err(examination.refuse(contract, host, failure)),
    }
}

impl Examination {
    fn grant(self, contract: &Contract) -> Grant {
        let cpus = &self.placement.task_cpus;
        let tasks = contract.tasks.iter().zip(cpus).zip(&self.bounds);
        let reservations = contract.reservations.iter().zip(&self.placement.reservation_cpus);
        Grant {
            // Without a failure every entry has a CPU and every task a bound.
            tasks: tasks
                .filter_map(|((task, &cpu), &bound)| {
                    let (response_time_bound, relative_deadline) =
                        (bound?, task.relative_deadline());
                    Some(GrantedTask {
                        name: task.name().into(),
                        cpu: cpu?,
                        response_time_bound,
                        relative_deadline,
                        slack: relative_deadline.saturating_sub(response_time_bound),
                    })
                })
                .collect(),
            reservations: reservations
                .filter_map(|(named, &cpu)| {
                    let (name, reservation) = (named.name.clone(), named.reservation);
                    Some(GrantedReservation { name, cpu: cpu?, reservation })
                })
                .collect(),
            tests: self.tests,
        }
    }

    fn refuse(self, contract: &Contract, host: &HostProfile, failure: Failure) -> Refusal {
        let Failure { test, entry, shortfall, why } = failure;
        let counter_offer = entry.and_then(|entry| counter_offer::find(contract, host, entry));
        let name = |entry| match entry {
            Entry::Task(at) => contract.tasks[at].name().to_string(),
            Entry::Reservation(at) => contract.reservations[at].name.clone(),
        };
        let tasks = contract.tasks.iter().zip(self.bounds);
        Refusal {
            test,
            entry: entry.map(name),
            shortfall,
            why,
            counter_offer: counter_offer.map(Into::into),
            tasks: tasks
                .map(|(task, response_time_bound)| TaskBound {
                    name: task.name().into(),
                    response_time_bound,
                    relative_deadline: task.relative_deadline(),
                })
                .collect(),
            tests: self.tests.into(),
        }
    }
}
