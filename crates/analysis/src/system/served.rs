//! Commands in deferrable servers, and the load of their budgets on the tasks of their CPUs.
//!
//! The servers of a CPU run above its tasks and below the kernel's reservations. So they are proven
//! beneath those, each beneath the servers of shorter periods, and everything below is proven
//! beneath them ([`deferrable`]). A CPU has servers or a timetable: a slot knows nothing of a
//! server's wake-ups.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use punctual_model::reservation::Enforcement;
use punctual_model::units::percent;
use punctual_model::{Duration, Reservation, Service};

use super::{Entry, Executed, System, late};
use crate::reservation::{ReservedLoad, settle};
use crate::steps::Steps;
use crate::supply::deferrable::{self, MOST_SERVERS, NotServed};
use crate::supply::followed::{largest, offers};
use crate::verdict::{Refusal, Resource, Shortfall};

pub(crate) const SERVER: &str = "server";

/// A server in force, or one that has left and still counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Server<Id> {
    /// The CPU, by the kernel's number.
    cpu: u16,
    /// The period, in nanoseconds: the shorter one has the higher level.
    period: u64,
    /// Of equal periods, the smaller name. A change of the budget alone changes no levels.
    id: Id,
    /// The number of its leave; `None` if it is in force.
    left: Option<u32>,
    /// In nanoseconds.
    budget: u64,
}

impl<Id> Server<Id> {
    pub(super) fn new(id: Id, cpu: u16, of: Reservation, left: Option<u32>) -> Self {
        let (period, budget) = (of.period().as_nanos(), of.budget().as_nanos());
        Self { cpu, period, id, left, budget }
    }

    /// Returns its period, in nanoseconds.
    pub(super) fn period(&self) -> u64 {
        self.period
    }

    fn reservation(&self) -> Reservation {
        let period = Duration::from_nanos(self.period);
        Reservation::new(Service::from_nanos(self.budget), period).expect("it was one")
    }
}

impl<Id: Copy + Ord> System<Id> {
    /// Returns the entries that servers of `cpu` hold, by the kernel's number, from the highest
    /// level to the lowest.
    pub fn served_on(&self, cpu: u16) -> impl Iterator<Item = (Id, Reservation)> + '_ {
        let here = self.servers.iter().filter(move |one| one.cpu == cpu && one.left.is_none());
        here.map(|one| (one.id, one.reservation()))
    }

    /// Returns the time within which each job of the holder of a server is done, as long as nothing
    /// more comes above it; `None` if `id` has no server. Jobs need at most the budget, and are at
    /// least a period apart.
    pub fn job_within(&self, id: Id) -> Option<Duration> {
        let own = self.servers.iter().find(|one| one.id == id && one.left.is_none())?;
        let mut bounds = self.bounds_on(own.cpu, &mut Steps::default()).into_iter();
        bounds.find(|(one, _)| one == own)?.1.ok()
    }

    /// Adds `reservation` to the servers of `cpu`, or of the first CPU that has room.
    pub(super) fn serve(
        &mut self,
        id: Id,
        reservation: Reservation,
        enforcement: Enforcement,
        cpu: Option<u16>,
        steps: &mut Steps,
    ) -> Result<Executed, Box<Refusal>> {
        self.ends_in_time(reservation, enforcement)?;
        cpu.map_or(Ok(()), |cpu| self.has_cpu(cpu))?;
        let cpus = cpu.map_or_else(|| self.numbers.clone(), |cpu| Vec::from([cpu]));
        let mut refused = None;
        for &cpu in &cpus {
            match self.serve_on(cpu, id, reservation, steps) {
                Ok(()) => return Ok(Executed::Server { cpu, reservation, counted: reservation }),
                Err(refusal) => refused = refused.or(Some(refusal)),
            }
        }
        let Some(refusal) = refused else {
            return Err(no_server(Resource::Cpus, None, "the host promises no CPU".into()));
        };
        if steps.is_brief() {
            return Err(refusal);
        }
        let offer = largest(reservation, |trial| {
            let steps = &mut Steps::new(Steps::ADMISSION / 16).briefly();
            self.ends_in_time(trial, enforcement).is_ok()
                && cpus.iter().any(|&cpu| {
                    let fits = self.serve_on(cpu, id, trial, steps).is_ok();
                    if fits {
                        self.serve_no_longer(Server::new(id, cpu, trial, None));
                    }
                    fits
                })
        });
        Err(Box::new(Refusal { offers: offers(reservation, offer), ..*refusal }))
    }

    /// Serves the entry `id`, which `had` a server on `cpu`, with another budget. Until what it had can
    /// no longer be felt it counts with the larger of both.
    pub(super) fn serve_again_with(
        &mut self,
        id: Id,
        (cpu, had): (u16, Reservation),
        reservation: Reservation,
        enforcement: Enforcement,
        steps: &mut Steps,
    ) -> Result<Executed, Box<Refusal>> {
        self.ends_in_time(reservation, enforcement)?;
        let counted = if had.budget() > reservation.budget() { had } else { reservation };
        self.serve_on(cpu, id, counted, steps)?;
        Ok(Executed::Server { cpu, reservation, counted })
    }

    /// Checks that what budgets end late is little beside this one.
    fn ends_in_time(
        &self,
        reservation: Reservation,
        enforcement: Enforcement,
    ) -> Result<(), Box<Refusal>> {
        let hold = self.tables.rules().limits.hold(reservation, enforcement);
        hold.map_err(|coarse| {
            no_server(Resource::Bandwidth, Some(coarse.shortfall()), coarse.to_string())
        })
    }

    fn serve_on(
        &mut self,
        cpu: u16,
        id: Id,
        reservation: Reservation,
        steps: &mut Steps,
    ) -> Result<(), Box<Refusal>> {
        self.refuse_beside_servers(cpu)?;
        self.within_limits(reservation.utilisation_ppm())?;
        let here = || self.servers.iter().filter(|one| one.cpu == cpu);
        if here().count() >= MOST_SERVERS {
            let why = format!("CPU {cpu} has {MOST_SERVERS} servers, and no more levels for them");
            return Err(no_server(Resource::Slots, None, why));
        }
        let share = |one: &Server<Id>| one.reservation().utilisation_ppm();
        let all = here().map(share).sum::<u64>() + reservation.utilisation_ppm();
        let most = self.tables.rules().most_ppm.into();
        if all > most {
            let (wanted, most_of_it) = (percent(all), percent(most));
            let why = format!("the servers of CPU {cpu} would take {wanted} of its {most_of_it}");
            let short = Some(Shortfall::Share(all - most));
            return Err(no_server(Resource::Bandwidth, short, why));
        }
        let server = Server::new(id, cpu, reservation, None);
        self.put_in(server);
        if let Err(refusal) = self.servers_in_time(Some(cpu), steps) {
            self.take_out_of_servers(server);
            return Err(refusal);
        }
        if let Some(at) = self.position_of(cpu) {
            let new = deferrable::loads(reservation, &self.host);
            let outcome = self.cpus[at].exchange_above(&[], &new, steps);
            outcome.map_err(|denial| {
                self.take_out_of_servers(server);
                late(denial, None)
            })?;
        }
        Ok(())
    }

    /// Refuses a server on a CPU with a timetable or with the channels' threads, and anywhere beside
    /// commands of the kernel.
    fn refuse_beside_servers(&self, cpu: u16) -> Result<(), Box<Refusal>> {
        let carried = self.carried.as_ref().map(|carried| carried.carrier().cpu);
        let why: String = if self.has_timetable(cpu) {
            format!("CPU {cpu} has a timetable, whose slots know nothing of a server's wake-ups")
        } else if carried.is_some_and(|of| of.is_none_or(|of| of == cpu)) {
            format!(
                "the threads of the channels may run on CPU {cpu}, and no level is set for both"
            )
        } else if self.entries.values().any(Entry::is_command_of_the_kernel) {
            "the kernel is to hold another command, and its threads go before every server".into()
        } else {
            return Ok(());
        };
        Err(no_server(Resource::Cpu, None, why))
    }

    fn has_timetable(&self, cpu: u16) -> bool {
        self.tables.all().iter().any(|table| table.cpu == cpu)
            || self.followed.get(&cpu).is_some_and(|followed| !followed.is_empty())
    }

    /// Refuses a timetable on a CPU with servers.
    pub(super) fn refuse_beside_timetables(&self, cpu: u16) -> Result<(), Box<Refusal>> {
        if self.servers.iter().all(|one| one.cpu != cpu) {
            return Ok(());
        }
        let why = format!("CPU {cpu} has a server, which runs whenever its program wakes");
        Err(super::commands::no_timetable(Resource::Cpu, None, why))
    }

    /// Checks that the jobs of each server of `cpu`, or of every CPU, are done within a period.
    pub(super) fn servers_in_time(
        &self,
        cpu: Option<u16>,
        steps: &mut Steps,
    ) -> Result<(), Box<Refusal>> {
        let mut cpus: Vec<u16> = self.servers.iter().map(|one| one.cpu).collect();
        cpus.dedup();
        for on in cpus.into_iter().filter(|on| cpu.is_none_or(|cpu| cpu == *on)) {
            for (one, bound) in self.bounds_on(on, steps) {
                let (short, why) = match bound {
                    Ok(_) => continue,
                    Err(NotServed::Late(by)) => {
                        let period = Duration::from_nanos(one.period);
                        let why =
                            format!("surely end only {by} or more after their period of {period}");
                        (Some(Shortfall::Time(by)), why)
                    }
                    Err(NotServed::Undecided) => (None, "were not decided within the steps".into()),
                };
                return Err(no_server(
                    Resource::Cpu,
                    short,
                    format!("jobs in a server of CPU {on} {why}"),
                ));
            }
        }
        Ok(())
    }

    /// Returns the servers of `cpu`, from the highest level on, each with the time within which the
    /// jobs of its holder are done.
    fn bounds_on(
        &self,
        cpu: u16,
        steps: &mut Steps,
    ) -> Vec<(Server<Id>, Result<Duration, NotServed>)> {
        let kernel = self.of_the_kernel.all().iter();
        let mut above: Vec<ReservedLoad> = kernel.map(|one| self.load_of(*one)).collect();
        settle(&mut above);
        let bound = |one: &Server<Id>| {
            let own = one.reservation();
            let bound = deferrable::job_within(own, &above, &self.host, steps);
            above.extend(deferrable::loads(own, &self.host));
            (*one, bound)
        };
        self.servers.iter().filter(|one| one.cpu == cpu).map(bound).collect()
    }

    /// Puts a server in, above the tasks of its CPU too, while everything below it stays as it was
    /// proven beneath it.
    pub(super) fn serve_again(&mut self, server: Server<Id>) {
        self.put_in(server);
        if let Some(at) = self.position_of(server.cpu) {
            let loads = deferrable::loads(server.reservation(), &self.host);
            loads.into_iter().for_each(|load| self.cpus[at].put_back_above(load));
        }
    }

    /// Takes a server out, and its load from above the tasks of its CPU.
    pub(super) fn serve_no_longer(&mut self, server: Server<Id>) {
        self.take_out_of_servers(server);
        if let Some(at) = self.position_of(server.cpu) {
            let loads = deferrable::loads(server.reservation(), &self.host);
            loads.iter().for_each(|load| self.cpus[at].take_from_above(load));
        }
    }

    /// Returns the longest period of the servers of `cpu`, in nanoseconds.
    pub(super) fn longest_period_of_servers(&self, cpu: u16) -> u64 {
        self.servers.iter().filter(|one| one.cpu == cpu).map(|one| one.period).max().unwrap_or(0)
    }

    fn put_in(&mut self, server: Server<Id>) {
        let at = self.servers.partition_point(|one| *one < server);
        self.servers.insert(at, server);
    }

    fn take_out_of_servers(&mut self, server: Server<Id>) {
        match self.servers.binary_search(&server) {
            Ok(at) => _ = self.servers.remove(at),
            Err(_) => debug_assert!(false, "it was put in"),
        }
    }
}

fn no_server(resource: Resource, shortfall: Option<Shortfall>, why: String) -> Box<Refusal> {
    Box::new(Refusal { shortfall, ..Refusal::new(SERVER, resource, why) })
}

#[cfg(test)]
mod tests;
