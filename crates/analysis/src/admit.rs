//! Admission of a whole contract on a host.

use alloc::boxed::Box;
use alloc::vec::Vec;

use punctual_model::{Contract, Duration, HostProfile};

use crate::counter_offer;
use crate::entry::Entry;
use crate::examination::{
    BOUNDS, Examination, Failure, cpus_of_reservations, examine, rank_of_each,
};
use crate::offer::Offers;
use crate::policies;
use crate::steps::Steps;
use crate::supply::timetable::Table;
use crate::system::System;
use crate::verdict::{EntryBound, Grant, GrantedChannel, GrantedReservation, GrantedTask, Refusal};

/// Admits `contract` on `host` with a proven bound for every task and channel, or refuses it with
/// the numbers and counter-offers.
///
/// CPUs, link and buffers are decided together. The buffers of all channels must fit the memory of
/// `[sending]`. The sum of the reservations on each CPU must be within `host.reservable_ppm`, and
/// the kernel must accept them. Channels must pass [`crate::channel::egress`] beneath the
/// reservations. Beneath reservations and channels, the tasks must pass the deciding test of the
/// policy on each CPU: exact response times under `rmdp`, `rm`, `fp` and `fifo`, processor demand
/// under `edf`, and virtual deadlines under `edf-vd`. Several CPUs are filled by the rules of
/// `partition`. A contract that is not decided within [`Steps::ADMISSION`] is refused.
pub fn admit(contract: &Contract, host: &HostProfile) -> Result<Grant, Box<Refusal>> {
    let mut examination =
        examine(contract, host, &mut Steps::for_tasks(contract.tasks.len()), BOUNDS);
    match examination.failure.take() {
        None => Ok(examination.grant(host)),
        Some(failure) => {
            let offers = counter_offer::find(contract, host, failure.entry);
            Err(Box::new(examination.refuse(contract, failure, offers)))
        }
    }
}

/// Admits like [`admit`], but within `steps` and without counter-offers, which cost more than the
/// verdict. Use it to ask about many contracts.
pub fn admit_within(
    contract: &Contract,
    host: &HostProfile,
    steps: &mut Steps,
) -> Result<Grant, Box<Refusal>> {
    let mut for_verdict = steps.half();
    let mut examination = examine(contract, host, &mut for_verdict, steps.left());
    match examination.failure.take() {
        None => Ok(examination.grant(host)),
        Some(failure) => Err(Box::new(examination.refuse(contract, failure, Offers::default()))),
    }
}

impl Examination {
    fn grant(self, host: &HostProfile) -> Grant {
        let contract = &self.contract;
        let virtual_deadlines = self.virtual_deadlines(host);
        let entered = self.entered.as_ref();
        let task_cpus = entered.map_or(&[][..], |(_, placed)| &placed.cpus);
        let reservations = entered.map_or_else(Vec::new, |(system, _)| {
            let of_entry = |at| {
                let entry = Entry::Reservation(at);
                (system.command_cpu(entry), system.job_within(entry))
            };
            let cpus = cpus_of_reservations(contract, host, system).into_iter();
            cpus.enumerate().map(|(at, cpu)| (cpu, of_entry(at))).collect()
        });
        let tables = entered.map_or_else(Vec::new, |(system, _)| tables_of(system, host));
        let tasks = contract.tasks.iter().zip(task_cpus).zip(&self.bounds).zip(virtual_deadlines);
        let ranks = rank_of_each(&contract.channels);
        let channels = contract.channels.iter().zip(&self.delays).zip(ranks).zip(&self.buffers);
        Grant {
            // Without a failure every entry has a CPU and every task and channel a bound.
            tasks: tasks
                .filter_map(|(((task, &cpu), &bound), virtual_deadline)| {
                    let (response_time_bound, relative_deadline) =
                        (bound?, task.relative_deadline());
                    Some(GrantedTask {
                        name: task.name().into(),
                        cpu: cpu?,
                        response_time_bound,
                        relative_deadline,
                        slack: relative_deadline.saturating_sub(response_time_bound),
                        virtual_deadline,
                    })
                })
                .collect(),
            reservations: contract
                .reservations
                .iter()
                .zip(reservations)
                .map(|(named, (cpu, (host_cpu, job_within)))| {
                    let (name, reservation) = (named.name.clone(), named.reservation);
                    GrantedReservation { name, cpu, host_cpu, job_within, reservation }
                })
                .collect(),
            channels: channels
                .filter_map(|(((channel, &delay), rank), &buffer)| {
                    Some(GrantedChannel {
                        name: channel.name().into(),
                        cpu: contract.cpus - 1,
                        rank,
                        proven_delay: delay?,
                        delay_bound: channel.delay_bound(),
                        buffer,
                    })
                })
                .collect(),
            timetables: tables,
            streams: self.mappings,
            tests: self.tests,
        }
    }

    /// Returns the virtual deadline of each task that has one.
    fn virtual_deadlines(&self, host: &HostProfile) -> Vec<Option<Duration>> {
        let contract = &self.contract;
        let mut all = Vec::from_iter(contract.tasks.iter().map(|_| None));
        let Some((system, placed)) = &self.entered else { return all };
        for cpu in 0..contract.cpus {
            let load = placed.load(contract, host, system, cpu);
            let found = policies::of(contract.policy).virtual_deadlines(&load);
            for (at, deadline) in placed.on(cpu).zip(found) {
                // A task of low criticality keeps its own deadline.
                all[at] = Some(deadline).filter(|_| contract.tasks[at].wcet_high().is_some());
            }
        }
        all
    }

    fn refuse(self, declared: &Contract, failure: Failure, offers: Offers) -> Refusal {
        let Failure { test, resource, entry, shortfall, why } = failure;
        let tasks = self.contract.tasks.iter().zip(self.bounds);
        let channels = self.contract.channels.iter().zip(self.delays);
        Refusal {
            test,
            resource,
            entry: entry.map(|entry| entry.name(declared)),
            shortfall,
            why,
            offers,
            tasks: tasks
                .map(|(task, bound)| EntryBound {
                    name: task.name().into(),
                    bound,
                    asked: task.relative_deadline(),
                })
                .collect(),
            channels: channels
                .map(|(channel, bound)| EntryBound {
                    name: channel.name().into(),
                    bound,
                    asked: channel.delay_bound(),
                })
                .collect(),
            streams: self.mappings.into(),
            tests: self.tests.into(),
        }
    }
}

/// Returns the timetables, with CPUs and reservations by their positions in the contract.
fn tables_of(system: &System<Entry>, host: &HostProfile) -> Vec<Table> {
    let position = |entry: &Entry| match *entry {
        Entry::Reservation(at) => Some(at),
        _ => None,
    };
    let table = |table: &Table<Entry>| Table {
        cpu: host.cpus - 1 - table.cpu,
        holds: table.holds.iter().filter_map(position).collect(),
        table: table.table.clone(),
    };
    system.timetables().iter().map(table).collect()
}
