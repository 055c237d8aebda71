//! The reservations that the kernel serves, above everything else.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

use punctual_model::units::percent;
use punctual_model::{HostProfile, Reservation};

use super::{BANDWIDTH, Executed, SCHED_DEADLINE, System, late};
use crate::reservation::ReservedLoad;
use crate::sched_deadline::{self, Objection, Shares, to_ratio};
use crate::steps::Steps;
use crate::verdict::{Refusal, Resource, Shortfall};

/// All kernel reservations on a host, with their sums.
#[derive(Clone, Debug, Default)]
pub(super) struct OfTheKernel {
    /// Sorted by period and budget.
    all: Vec<Reservation>,
    /// The number of reservations with each share in parts per million.
    shares: BTreeMap<u64, u64>,
    sum_ppm: u64,
    /// The sum of their bandwidths, as the kernel counts it.
    bandwidth: u64,
}

impl OfTheKernel {
    pub(super) fn all(&self) -> &[Reservation] {
        &self.all
    }

    pub(super) fn add(&mut self, reservation: Reservation) {
        let at = self.all.partition_point(|one| key(*one) < key(reservation));
        self.all.insert(at, reservation);
        let ppm = reservation.utilisation_ppm();
        *self.shares.entry(ppm).or_default() += 1;
        self.sum_ppm += ppm;
        self.bandwidth += bandwidth_of(reservation);
    }

    /// Removes a reservation that was added.
    pub(super) fn remove(&mut self, reservation: Reservation) {
        let Ok(at) = self.all.binary_search_by_key(&key(reservation), |one| key(*one)) else {
            debug_assert!(false, "it was added");
            return;
        };
        self.all.remove(at);
        let ppm = reservation.utilisation_ppm();
        if let Some(count) = self.shares.get_mut(&ppm) {
            *count -= 1;
            if *count == 0 {
                self.shares.remove(&ppm);
            }
        }
        self.sum_ppm -= ppm;
        self.bandwidth -= bandwidth_of(reservation);
    }

    /// Checks that the kernel accepts `reservation` beside the others on `cpus` CPUs of `host`.
    pub(super) fn takes(
        &self,
        reservation: Reservation,
        cpus: u16,
        host: &HostProfile,
    ) -> Result<(), Box<Refusal>> {
        let limits = &host.deadline_limits;
        let all = sched_deadline::bandwidth(limits, cpus).unwrap_or(u64::MAX);
        let (left, wanted) = (all.saturating_sub(self.bandwidth), bandwidth_of(reservation));
        let within =
            if wanted <= left { Ok(()) } else { Err(Objection::Bandwidth { wanted, left }) };
        let taken = sched_deadline::check(limits, reservation.into()).and(within);
        taken.map_err(|objection| {
            let shortfall = objection.shortfall(reservation).map(Shortfall::Time);
            let why = format!("it {objection}");
            Box::new(Refusal {
                shortfall,
                ..Refusal::new(SCHED_DEADLINE, Resource::Bandwidth, why)
            })
        })
    }

    /// Checks that the kernel serves all reservations, including `reservation`, in time on `cpus`
    /// CPUs of `host`.
    pub(super) fn serves_in_time(
        &self,
        reservation: Reservation,
        cpus: u16,
        host: &HostProfile,
    ) -> Result<(), Box<Refusal>> {
        let largest = self.shares.last_key_value().map_or(0, |(ppm, _)| *ppm);
        let shares = Shares { count: self.all.len() as u64, sum: self.sum_ppm, largest };
        let (with, most_ppm) = (shares.with(reservation), host.reservable_ppm);
        if with.are_served_in_time(cpus.into(), most_ppm) {
            return Ok(());
        }
        let most = with.most(cpus.into(), most_ppm);
        let (all, up_to) = (percent(with.sum), percent(most));
        let (of_each, largest) = (percent(most_ppm), percent(with.largest));
        let why = format!(
            "with it the kernel's reservations are {all} of a CPU, and each is surely served in time only up to {up_to}: \
             {of_each} of each of {cpus} CPUs, less the largest, {largest}, for all but one"
        );
        let shortfall = Some(Shortfall::Share(with.sum.saturating_sub(most)));
        Err(Box::new(Refusal { shortfall, ..Refusal::new(BANDWIDTH, Resource::Bandwidth, why) }))
    }
}

impl<Id: Copy + Ord> System<Id> {
    /// Puts `reservation` above the tasks of all CPUs and all channels, because the kernel may run
    /// it on any CPU, or changes nothing. It is not an entry, and its bandwidth is not counted.
    ///
    /// # Errors
    /// Fails if some task, channel or server would be late beneath it.
    pub fn reserve_above(
        &mut self,
        reservation: Reservation,
        steps: &mut Steps,
    ) -> Result<(), Box<Refusal>> {
        self.put_above_tasks(reservation, steps)?;
        self.of_the_kernel.add(reservation);
        self.channels_in_time(steps)
            .and_then(|()| self.servers_in_time(None, steps))
            .inspect_err(|_| self.unreserve_above(reservation))
    }

    /// Removes a reservation that [`Self::reserve_above`] added.
    pub fn unreserve_above(&mut self, reservation: Reservation) {
        let load = self.load_of(reservation);
        self.cpus.iter_mut().for_each(|cpu| cpu.take_from_above(&load));
        self.of_the_kernel.remove(reservation);
    }

    /// Puts back what was taken out while everything beneath it stayed as it is.
    pub(super) fn put_back_of_the_kernel(&mut self, reservation: Reservation) {
        let load = self.load_of(reservation);
        self.cpus.iter_mut().for_each(|cpu| cpu.put_back_above(load));
        self.of_the_kernel.add(reservation);
    }

    pub(super) fn load_of(&self, reservation: Reservation) -> ReservedLoad {
        ReservedLoad::new(reservation, self.host.context_switch)
    }

    pub(super) fn put_above_tasks(
        &mut self,
        reservation: Reservation,
        steps: &mut Steps,
    ) -> Result<(), Box<Refusal>> {
        let load = self.load_of(reservation);
        for at in 0..self.cpus.len() {
            if let Err(denial) = self.cpus[at].put_above(load, steps) {
                self.cpus[..at].iter_mut().for_each(|cpu| cpu.take_from_above(&load));
                return Err(late(denial, None));
            }
        }
        Ok(())
    }

    /// Adds a kernel reservation, which for now counts as `counted`, above everything here.
    pub(super) fn reserve(
        &mut self,
        reservation: Reservation,
        counted: Reservation,
        is_command: bool,
        steps: &mut Steps,
    ) -> Result<Executed, Box<Refusal>> {
        self.within_limits(reservation.utilisation_ppm())?;
        // At most the 2¹⁶ CPUs of a host.
        let cpus = self.cpus.len() as u16;
        self.of_the_kernel.serves_in_time(counted, cpus, &self.host)?;
        self.of_the_kernel.takes(reservation, cpus, &self.host)?;
        self.of_the_kernel.takes(counted, cpus, &self.host)?;
        self.reserve_above(counted, steps)?;
        Ok(Executed::Deadline { reservation, counted, is_command })
    }
}

/// Returns the sort key of a reservation.
fn key(reservation: Reservation) -> (u64, u64) {
    (reservation.period().as_nanos(), reservation.budget().as_nanos())
}

fn bandwidth_of(reservation: Reservation) -> u64 {
    to_ratio(reservation.period(), reservation.budget().at_full_speed())
}
