//! Commands in timetables, and the load of their slots on the tasks of their CPUs.
//!
//! `punctual run` finds the same tables by the same rules ([`Tables`]) before it starts any
//! command, so it can run every command admitted here.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use punctual_model::reservation::Enforcement;
use punctual_model::{HostProfile, Instant, Reservation, Service, Timetable};

use super::exchange::Timetables;
use super::{Entry, System, late};
use crate::reservation::ReservedLoad;
use crate::steps::Steps;
use crate::supply::followed::{self, Followed};
use crate::supply::timetable::Table;
use crate::supply::together::NotPlaced;
use crate::supply::{Limits, Rules};
use crate::verdict::{Refusal, Resource, Shortfall};

/// The load of one reservation's slots on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slots {
    /// The CPU, by the kernel's number.
    pub(crate) cpu: u16,
    /// The load in each of its periods, with the switches to and from the slots.
    pub(crate) taken: Reservation,
    /// The number of slots in each of its periods, rounded up.
    pub(crate) count: u64,
}

impl Slots {
    fn of(
        cpu: u16,
        table: &Timetable,
        owner: u32,
        reservation: Reservation,
        switch: Service,
    ) -> Self {
        let (budget, count) = taken(table, owner, reservation, switch);
        // A budget of at most the period.
        let taken = Reservation::new(budget, reservation.period()).unwrap_or(reservation);
        Self { cpu, taken, count }
    }

    pub(crate) fn load(&self) -> ReservedLoad {
        ReservedLoad::slots(self.taken)
    }
}

/// Returns the limits on a timetable on this host.
pub(crate) fn rules(host: &HostProfile) -> Rules {
    let limits = Limits::of(host);
    // At most a million.
    let most_ppm = u32::try_from(host.deadline_limits.timetable_ppm()).unwrap_or(1_000_000);
    Rules { limits, most_ppm }
}

impl<Id: Copy + Ord> System<Id> {
    /// Returns the timetables of commands, with the kernel's numbers of the CPUs.
    pub(crate) fn timetables(&self) -> &[Table<Id>] {
        self.tables.all()
    }

    /// Returns the load of each command's slots.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (Id, Slots)> + '_ {
        self.slots_of_those(|_| true)
    }

    /// Returns the load of each command's slots on `cpu`.
    pub(crate) fn slots_on(&self, cpu: u16) -> impl Iterator<Item = Slots> + '_ {
        self.slots_of_those(move |other| other == cpu).map(|(_, slots)| slots)
    }

    fn slots_of_those<'a>(
        &'a self,
        is_asked: impl Fn(u16) -> bool + Copy + 'a,
    ) -> impl Iterator<Item = (Id, Slots)> + 'a {
        let switch = self.host.context_switch;
        let held = self.tables.held(is_asked).map(move |(id, table, owner, reservation)| {
            (id, Slots::of(table.cpu, &table.table, owner, reservation, switch))
        });
        let followed = self.followed.iter().filter(move |(cpu, _)| is_asked(**cpu));
        held.chain(
            followed.flat_map(move |(&cpu, followed)| slots_of_followed(cpu, followed, switch)),
        )
    }

    /// Returns the load of all slots, in parts per million of a CPU.
    pub(crate) fn slots_ppm(&self) -> u64 {
        self.slots().map(|(_, slots)| slots.taken.utilisation_ppm()).sum()
    }

    /// Adds `reservation` to a timetable, on `cpu` or on any, and returns the CPU as it was before.
    pub(super) fn hold(
        &mut self,
        id: Id,
        reservation: Reservation,
        enforcement: Enforcement,
        cpu: Option<u16>,
        steps: &mut Steps,
    ) -> Result<Timetables<Id>, Box<Refusal>> {
        self.refuse_both_back_ends(false)?;
        cpu.map_or(Ok(()), |cpu| self.has_cpu(cpu))?;
        let hold = self.tables.rules().limits.hold(reservation, enforcement);
        hold.map_err(|coarse| {
            no_timetable(Resource::Bandwidth, Some(coarse.shortfall()), coarse.to_string())
        })?;
        let candidates: Vec<u16> = cpu.map_or_else(|| self.numbers.clone(), |cpu| Vec::from([cpu]));
        let idle = |cpu: &u16| self.followed.get(cpu).is_none_or(|followed| followed.is_empty());
        let mut beside_server = None;
        let candidates: Vec<u16> = candidates
            .into_iter()
            .filter(idle)
            .filter(|&cpu| match self.refuse_beside_timetables(cpu) {
                Ok(()) => true,
                Err(refusal) => {
                    beside_server.get_or_insert(refusal);
                    false
                }
            })
            .collect();
        if let (true, Some(refusal)) = (candidates.is_empty(), beside_server) {
            return Err(refusal);
        }
        if candidates.is_empty() {
            let why = "it is to begin with others, and the timetable is followed already".into();
            return Err(no_timetable(Resource::Cpu, None, why));
        }
        let found = self.tables.find(reservation, &candidates, steps).map_err(
            |NotPlaced { cpu, refusal }| {
                let why = format!("it has no place in the timetable of CPU {cpu}: {}", refusal.why);
                no_timetable(refusal.resource, refusal.shortfall, why)
            },
        )?;
        let cpu = found.cpu;
        let before = self.timetables_of(cpu);
        let old = self.loads_on(cpu);
        self.tables.put(id, found);
        let new = self.loads_on(cpu);
        if let Some(at) = self.position_of(cpu)
            && let Err(denial) = self.cpus[at].exchange_above(&old, &new, steps)
        {
            self.tables.restore(cpu, before.table);
            return Err(late(denial, None));
        }
        match self.channels_in_time(steps) {
            Ok(()) => Ok(before),
            Err(refusal) => {
                self.restore(before);
                Err(refusal)
            }
        }
    }

    /// Returns the load of all slots on the tasks of `cpu`.
    pub(super) fn loads_on(&self, cpu: u16) -> Vec<ReservedLoad> {
        self.slots_on(cpu).map(|slots| slots.load()).collect()
    }

    /// Removes a command from its timetable. The slots of the others stay in place.
    pub(super) fn hold_no_longer(&mut self, id: Id) {
        if self.unseat(id, Instant::ZERO).is_none()
            && let Some(cpu) = self.tables.of(id).map(|table| table.cpu)
        {
            self.take_slots_from_above(id, cpu);
            self.tables.remove(id);
        }
    }

    pub(super) fn take_slots_from_above(&mut self, id: Id, cpu: u16) {
        let of_id = self.slots_of_those(|other| other == cpu).find(|(other, _)| *other == id);
        if let Some((_, slots)) = of_id
            && let Some(at) = self.position_of(cpu)
        {
            self.cpus[at].take_from_above(&slots.load());
        }
    }

    /// Refuses a CPU that the host does not have.
    pub(super) fn has_cpu(&self, cpu: u16) -> Result<(), Box<Refusal>> {
        let cpus = self.host.cpus;
        if cpu < cpus {
            return Ok(());
        }
        let why = format!("it is to be on CPU {cpu}, and the host has {cpus}");
        Err(no_timetable(Resource::Cpus, None, why))
    }

    /// Returns the position of the CPU with this kernel number.
    pub(super) fn position_of(&self, cpu: u16) -> Option<usize> {
        self.numbers.iter().position(|&other| other == cpu)
    }

    /// Refuses commands of both back ends beside each other: the threads of kernel reservations
    /// preempt every dispatcher, and they are not pinned to a CPU.
    pub(super) fn refuse_both_back_ends(&self, by_kernel: bool) -> Result<(), Box<Refusal>> {
        let beside_others = match by_kernel {
            true => self.slots().next().is_some() || !self.servers.is_empty(),
            false => self.entries.values().any(Entry::is_command_of_the_kernel),
        };
        if !beside_others {
            return Ok(());
        }
        let (one, other) = if by_kernel {
            ("the kernel", "timetables or servers")
        } else {
            ("a timetable", "the kernel")
        };
        let why = format!(
            "{one} is to hold it and {other} to hold others, but threads that the kernel holds go before every \
             timetable and server, on whichever CPU; write backend = \"kernel\" for all commands, or for none"
        );
        Err(no_timetable(Resource::Cpu, None, why))
    }
}

pub(super) fn no_timetable(
    resource: Resource,
    shortfall: Option<Shortfall>,
    why: String,
) -> Box<Refusal> {
    Box::new(Refusal { shortfall, ..Refusal::new(followed::TEST, resource, why) })
}

/// Returns the load of each reservation's slots in the timetable that `cpu` follows.
pub(super) fn slots_of_followed<Id: Copy + Eq>(
    cpu: u16,
    followed: &Followed<Id>,
    switch: Service,
) -> impl Iterator<Item = (Id, Slots)> + '_ {
    followed.table().into_iter().flat_map(move |table| {
        followed.held().map(move |(id, promise)| {
            (id, Slots::of(cpu, table, promise.owner, promise.reservation, switch))
        })
    })
}

/// Returns the load of the slots of `owner` in one of its periods, and their number. It includes
/// the switch back to the interrupted work; the switch to the slot is in the slot.
fn taken(table: &Timetable, owner: u32, of: Reservation, switch: Service) -> (Service, u64) {
    let own = table.slots().iter().filter(|slot| slot.owner == owner);
    let (mut count, mut length) = (0_u128, 0_u128);
    for slot in own {
        count += 1;
        length += u128::from(slot.length.as_nanos()) + u128::from(switch.as_nanos());
    }
    let (period, cycle) = (u128::from(of.period().as_nanos()), table.cycle().as_nanos());
    let in_a_period = |amount: u128| {
        let amount = (amount * period).div_ceil(u128::from(cycle));
        u64::try_from(amount).unwrap_or(u64::MAX)
    };
    let most = of.period().as_nanos();
    (Service::from_nanos(in_a_period(length).clamp(1, most)), in_a_period(count))
}

#[cfg(test)]
mod tests;
