//! Everything that is admitted on a host, entry by entry.
//!
//! [`System`] answers requests one at a time: [`System::admit`], [`System::release`], [`System::change`], and
//! [`System::would_admit`] for those who only ask. Each entry is proven for the back end that will execute it, which
//! is part of the answer ([`BackEnd`]). A refusal changes nothing.
//!
//! # The tests, in this order
//! 1. `limits`: what the kernel takes at all of a reservation ([`crate::sched_deadline`]).
//! 2. `bandwidth`: all entries together, and what is [withheld](System::withhold), within `reservable_ppm` of all
//!    CPUs; the tasks of executors on one CPU within that of one.
//! 3. `response-time`: on each CPU the tasks of every executor in time beneath all reservations of the host, because
//!    the kernel may run those on any CPU ([`crate::incremental`]).
//! 4. `channels`: beneath a new reservation every channel in time, and the threads of the channels within what is set
//!    aside for them.
//!
//! A channel needs a [`Carrier`], which [`System::carry`] sets up. It takes nothing of the CPUs beside what was set
//! aside then, so its tests are others: `link`, `processor` and `delay-bound` ([`CarrierLoad`] says what is left).
//! Both ways the relation is kept: a reservation is refused beneath which a channel would be late, and a channel that
//! would be late beneath the reservations. Upcalls run below all channels and are proven beneath what is set aside.
//!
//! # Assumptions
//! Executors run rate monotonic with delayed preemption, over all executors of a CPU ([`UpcallOrder`]). The longest
//! quantum below a task is charged to it as blocking. Two context switches are charged to each job and to each period
//! of a reservation. The reservation that is set aside for channels does not delay them: their threads run in it.
//!
//! # Costs
//! While bands prove the tasks of a CPU (see [`crate::incremental::Bands`]) a request costs O(log n) for n tasks there.
//! Beyond that it costs O(n), and O(n) more for each task whose spare it exceeds. A reservation costs that on every CPU,
//! and an examination of all channels that send. A channel costs O(log n) for n channels while no reservation is
//! admitted, and such an examination else.

mod channels;
mod cpu;
mod request;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

use punctual_model::channel::{BitRate, Channel, Direction, LinearBounded};
use punctual_model::units::percent;
use punctual_model::{HostProfile, Reservation, Task};

pub use self::channels::{Carrier, CarrierLoad};
use self::cpu::Cpu;
pub use self::request::{BackEnd, Request, UpcallOrder};
use crate::incremental::Denial;
use crate::load::TaskLoad;
use crate::sched_deadline;
use crate::steps::Steps;
use crate::verdict::{Refusal, Resource, Shortfall};

/// Everything that is admitted on a host, under names that the caller chooses.
///
/// ```
/// use punctual_analysis::{BackEnd, Request, Steps, System, UpcallOrder};
/// use punctual_model::{Duration, HostProfile, Service, Task, TaskSpec};
///
/// let task = |period, wcet| {
///     let (period, wcet) = (Duration::from_millis(period), Service::from_millis(wcet));
///     Task::new(TaskSpec::periodic("line", period, wcet)).expect("valid")
/// };
/// let mut system = System::new(HostProfile::ideal(2), UpcallOrder::Ceiling);
/// let steps = &mut Steps::default();
/// let audio = system.admit("audio", Request::Executor(&[task(10, 6)]), steps).expect("alone");
/// assert_eq!(audio, BackEnd::Executor { cpu: 0 });
/// let video = system.admit("video", Request::Executor(&[task(20, 10)]), steps).expect("beside it");
/// assert_eq!(video, BackEnd::Executor { cpu: 1 });
///
/// let modem = Request::Deadline("3ms/8ms".parse().expect("valid"));
/// let refused = system.admit("modem", modem, steps).expect_err("audio could wait too long");
/// assert_eq!(refused.test, "response-time");
/// system.release("audio");
/// assert_eq!(system.admit("modem", modem, steps).expect("beneath it there is room"), BackEnd::Deadline);
/// ```
#[derive(Clone, Debug)]
pub struct System<Id> {
    host: HostProfile,
    cpus: Vec<Cpu<Id>>,
    entries: BTreeMap<Id, Entry>,
    granted_ppm: u64,
    withheld_ppm: u64,
    carried: Option<CarrierLoad>,
    /// The reservations that the kernel runs before the threads of the channels, by period and budget.
    above_channels: Vec<Reservation>,
}

#[derive(Clone, Debug)]
struct Entry {
    share_ppm: u64,
    executed: Executed,
}

#[derive(Clone, Debug)]
enum Executed {
    Executor { cpu: usize, tasks: Box<[TaskLoad]> },
    Deadline(Reservation),
    Unproven,
    Sending { channel: Box<Channel>, rate: BitRate },
    Receiving(LinearBounded),
    BestEffort(Direction),
}

impl Entry {
    fn back_end(&self) -> BackEnd {
        match self.executed {
            // A host has at most 2¹⁶ CPUs.
            Executed::Executor { cpu, .. } => BackEnd::Executor { cpu: cpu as u16 },
            Executed::Deadline(_) => BackEnd::Deadline,
            Executed::Unproven => BackEnd::Unproven,
            Executed::Sending { .. } | Executed::BestEffort(Direction::Send) => BackEnd::Egress,
            Executed::Receiving(_) | Executed::BestEffort(Direction::Receive) => BackEnd::Ingress,
        }
    }

    fn reservation(&self) -> Option<Reservation> {
        match self.executed {
            Executed::Deadline(reservation) => Some(reservation),
            _ => None,
        }
    }
}

impl<Id: Copy + Ord> System<Id> {
    /// Nothing is admitted yet.
    pub fn new(host: HostProfile, order: UpcallOrder) -> Self {
        let cpus = (0..host.cpus).map(|_| Cpu::new(order, &host)).collect();
        Self {
            host,
            cpus,
            entries: BTreeMap::new(),
            granted_ppm: 0,
            withheld_ppm: 0,
            carried: None,
            above_channels: Vec::new(),
        }
    }

    /// Has channels carried from here on: sets aside what `carrier` may take of the CPUs, above all tasks. It is no
    /// entry, and stays. There must be no carrier yet.
    ///
    /// # Errors
    /// As for a reservation in [`Self::admit`].
    pub fn carry(&mut self, carrier: Carrier, steps: &mut Steps) -> Result<(), Box<Refusal>> {
        let cpu = carrier.egress.cpu();
        let share_ppm = cpu.utilisation_ppm();
        self.within_limits(Request::Deadline(cpu), share_ppm)?;
        self.put_above_tasks(cpu, steps)?;
        self.granted_ppm += share_ppm;
        self.carry_with_nothing_set_aside(carrier);
        Ok(())
    }

    /// As [`Self::carry`], on a host that has no room for it any more: nothing is set aside, so tasks may be late
    /// because of the channels.
    pub fn carry_with_nothing_set_aside(&mut self, carrier: Carrier) {
        debug_assert!(self.carried.is_none(), "there is no carrier yet");
        self.carried = Some(CarrierLoad::new(carrier));
    }

    /// Returns what the channels take of their carrier; `None` if there is no carrier.
    pub fn carried(&self) -> Option<&CarrierLoad> {
        self.carried.as_ref()
    }

    /// Returns the host as admission sees it.
    pub fn host(&self) -> &HostProfile {
        &self.host
    }

    /// Returns what all entries take together, and what is set aside for channels, in parts per million of a CPU.
    pub fn granted_ppm(&self) -> u64 {
        self.granted_ppm
    }

    /// Returns what may be granted of all CPUs together, in parts per million of one.
    pub fn capacity_ppm(&self) -> u64 {
        self.host.reservable_ppm.saturating_mul(self.host.cpus.into())
    }

    /// Returns what executes an entry; `None` if there is no such entry.
    pub fn back_end(&self, id: Id) -> Option<BackEnd> {
        self.entries.get(&id).map(Entry::back_end)
    }

    /// Returns the reservation of the kernel's that an entry is.
    pub fn reservation(&self, id: Id) -> Option<Reservation> {
        self.entries.get(&id)?.reservation()
    }

    /// Counts `ppm` of a CPU as in use besides the entries: bandwidth that the kernel still holds of reservations that
    /// have ended. It replaces what was withheld before.
    pub fn withhold(&mut self, ppm: u64) {
        self.withheld_ppm = ppm;
    }

    /// Admits `request` as `id`, which must be free, if everything admitted keeps its proof; says what executes it.
    ///
    /// Tasks of an executor go to the fullest CPU that has room for all of them: what is left in one piece is worth
    /// more. What is not decided within `steps` is refused.
    ///
    /// # Errors
    /// The first test that failed, of several CPUs that of the fullest.
    pub fn admit(
        &mut self,
        id: Id,
        request: Request<'_>,
        steps: &mut Steps,
    ) -> Result<BackEnd, Box<Refusal>> {
        debug_assert!(!self.entries.contains_key(&id), "the name is free");
        let share_ppm = request.share_ppm();
        self.within_limits(request, share_ppm)?;
        let executed = match request {
            Request::Executor(tasks) => self.place(id, tasks, share_ppm, steps)?,
            Request::Deadline(reservation) => {
                self.reserve_above(reservation, steps)?;
                Executed::Deadline(reservation)
            }
            Request::Share(_) => Executed::Unproven,
            Request::Sending(channel) => self.send(channel, steps)?,
            Request::Receiving(arrivals) => {
                self.carried
                    .as_mut()
                    .ok_or_else(no_carrier)?
                    .receive(arrivals, &self.above_channels)?;
                Executed::Receiving(arrivals)
            }
            Request::BestEffort(direction) => {
                self.carried.as_ref().ok_or_else(no_carrier)?;
                Executed::BestEffort(direction)
            }
        };
        let entry = Entry { share_ppm, executed };
        let back_end = entry.back_end();
        self.granted_ppm += share_ppm;
        self.entries.insert(id, entry);
        Ok(back_end)
    }

    /// Returns what [`Self::admit`] would say. Nothing is admitted; what was found out on the way is kept.
    ///
    /// # Errors
    /// As [`Self::admit`].
    pub fn would_admit(
        &mut self,
        id: Id,
        request: Request<'_>,
        steps: &mut Steps,
    ) -> Result<BackEnd, Box<Refusal>> {
        let answer = self.admit(id, request, steps)?;
        self.release(id);
        Ok(answer)
    }

    /// Takes an entry out, and says whether it was there. The others keep their proofs.
    pub fn release(&mut self, id: Id) -> bool {
        self.take_out(id).is_some()
    }

    /// Admits `request` in place of what `id` has; a refusal leaves it what it has.
    ///
    /// # Errors
    /// As [`Self::admit`].
    pub fn change(
        &mut self,
        id: Id,
        request: Request<'_>,
        steps: &mut Steps,
    ) -> Result<BackEnd, Box<Refusal>> {
        let answers = self.exchange(&[id], &[(id, request)], steps)?;
        Ok(answers[0])
    }

    /// Admits all of `entering` in place of all of `leaving`, or changes nothing; says what executes each.
    ///
    /// # Errors
    /// As [`Self::admit`].
    pub fn exchange(
        &mut self,
        leaving: &[Id],
        entering: &[(Id, Request<'_>)],
        steps: &mut Steps,
    ) -> Result<Vec<BackEnd>, Box<Refusal>> {
        let left: Vec<(Id, Entry)> =
            leaving.iter().filter_map(|&id| Some((id, self.take_out(id)?))).collect();
        let mut answers = Vec::with_capacity(entering.len());
        for &(id, request) in entering {
            match self.admit(id, request, steps) {
                Ok(answer) => answers.push(answer),
                Err(refusal) => {
                    let entered = &entering[..answers.len()];
                    entered.iter().for_each(|(id, _)| _ = self.release(*id));
                    left.into_iter().for_each(|(id, entry)| self.put_back(id, entry));
                    return Err(refusal);
                }
            }
        }
        Ok(answers)
    }

    /// Puts `reservation` above the tasks of all CPUs and all channels, because the kernel may run it on any CPU, or
    /// above none. It is no entry, and its bandwidth is not counted.
    ///
    /// # Errors
    /// Some task or channel would be late beneath it.
    pub fn reserve_above(
        &mut self,
        reservation: Reservation,
        steps: &mut Steps,
    ) -> Result<(), Box<Refusal>> {
        self.put_above_tasks(reservation, steps)?;
        self.put_above_channels(reservation);
        let Some(carried) = &self.carried else { return Ok(()) };
        let beneath = carried.run_beneath(&sending(&self.entries), &self.above_channels, steps);
        beneath.inspect_err(|_| self.unreserve_above(reservation))
    }

    /// Takes out what [`Self::reserve_above`] put there.
    pub fn unreserve_above(&mut self, reservation: Reservation) {
        self.cpus.iter_mut().for_each(|cpu| cpu.unreserve(reservation));
        let found = self.above_channels.binary_search_by_key(&key(reservation), |one| key(*one));
        debug_assert!(found.is_ok(), "it was put in");
        found.into_iter().for_each(|at| _ = self.above_channels.remove(at));
    }

    fn put_above_tasks(
        &mut self,
        reservation: Reservation,
        steps: &mut Steps,
    ) -> Result<(), Box<Refusal>> {
        for at in 0..self.cpus.len() {
            if let Err(denial) = self.cpus[at].reserve(reservation, steps) {
                self.cpus[..at].iter_mut().for_each(|cpu| cpu.unreserve(reservation));
                // Of whom is nobody's business but its holder's.
                let why = format!("beneath it an upcall granted before would be late: {denial}");
                return Err(late(why));
            }
        }
        Ok(())
    }

    fn put_above_channels(&mut self, reservation: Reservation) {
        let at = self.above_channels.partition_point(|one| key(*one) < key(reservation));
        self.above_channels.insert(at, reservation);
    }

    fn send(&mut self, channel: &Channel, steps: &mut Steps) -> Result<Executed, Box<Refusal>> {
        let carried = self.carried.as_mut().ok_or_else(no_carrier)?;
        let others = || sending(&self.entries);
        let rate = carried.send(channel, others, &self.above_channels, steps)?;
        Ok(Executed::Sending { channel: Box::new(channel.clone()), rate })
    }

    fn within_limits(&self, request: Request<'_>, wanted: u64) -> Result<(), Box<Refusal>> {
        if let Request::Deadline(reservation) = request {
            sched_deadline::check(&self.host.deadline_limits, reservation.into()).map_err(
                |objection| {
                    let why = format!("it {objection}");
                    Box::new(Refusal::new("limits", Resource::Bandwidth, why))
                },
            )?;
        }
        let most = self.host.reservable_ppm;
        within(wanted, most, || {
            let (wanted, most) = (percent(wanted), percent(most));
            format!("{wanted} of a CPU is more than the {most} of one CPU that may be promised")
        })?;
        let left = self.capacity_ppm().saturating_sub(self.granted_ppm + self.withheld_ppm);
        within(wanted, left, || {
            let (wanted, left) = (percent(wanted), percent(left));
            format!("{wanted} of a CPU is wanted and {left} is left on all CPUs together")
        })
    }

    fn place(
        &mut self,
        id: Id,
        tasks: &[Task],
        share_ppm: u64,
        steps: &mut Steps,
    ) -> Result<Executed, Box<Refusal>> {
        let switch = self.host.context_switch;
        let loads: Box<[TaskLoad]> = tasks.iter().map(|task| TaskLoad::new(task, switch)).collect();
        let mut order: Vec<usize> = (0..self.cpus.len()).collect();
        order.sort_by_key(|&cpu| Reverse(self.cpus[cpu].share_ppm()));
        let mut first = None;
        for cpu in order {
            match self.place_on(cpu, id, tasks, &loads, share_ppm, steps) {
                Ok(()) => return Ok(Executed::Executor { cpu, tasks: loads }),
                Err(refusal) => _ = first.get_or_insert(refusal),
            }
        }
        Err(first.unwrap_or_else(|| {
            Box::new(Refusal::new("cpus", Resource::Cpus, "the host promises no CPU".into()))
        }))
    }

    fn place_on(
        &mut self,
        cpu: usize,
        id: Id,
        tasks: &[Task],
        loads: &[TaskLoad],
        share_ppm: u64,
        steps: &mut Steps,
    ) -> Result<(), Box<Refusal>> {
        let (has, most) = (self.cpus[cpu].share_ppm(), self.host.reservable_ppm);
        within(has + share_ppm, most, || {
            let (wanted, has, most) = (percent(share_ppm), percent(has), percent(most));
            format!("{wanted} beside {has} is more than the {most} of one CPU, on every CPU")
        })?;
        self.cpus[cpu].admit(id, loads, share_ppm, steps).map_err(|(at, denial): (_, Denial)| {
            let name = tasks.get(at).map_or("", Task::name);
            late(format!("with upcall \"{name}\", {denial}"))
        })
    }

    fn take_out(&mut self, id: Id) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        self.granted_ppm -= entry.share_ppm;
        match &entry.executed {
            Executed::Executor { cpu, tasks } => {
                self.cpus[*cpu].remove(id, tasks, entry.share_ppm);
            }
            Executed::Deadline(reservation) => self.unreserve_above(*reservation),
            Executed::Unproven | Executed::BestEffort(_) => {}
            Executed::Sending { channel, rate } => {
                self.carried.iter_mut().for_each(|carried| carried.sends_no_longer(channel, *rate));
            }
            Executed::Receiving(arrivals) => {
                self.carried.iter_mut().for_each(|carried| carried.receives_no_longer(*arrivals));
            }
        }
        Some(entry)
    }

    /// Puts back an entry that was taken out. Everything was proven beside it, so nothing is examined.
    fn put_back(&mut self, id: Id, entry: Entry) {
        match &entry.executed {
            Executed::Executor { cpu, tasks } => {
                self.cpus[*cpu].put_back(id, tasks, entry.share_ppm);
            }
            Executed::Deadline(reservation) => {
                self.cpus.iter_mut().for_each(|cpu| cpu.put_back_reservation(*reservation));
                self.put_above_channels(*reservation);
            }
            Executed::Unproven | Executed::BestEffort(_) => {}
            Executed::Sending { channel, rate } => {
                self.carried.iter_mut().for_each(|carried| carried.put_back(channel, *rate));
            }
            Executed::Receiving(arrivals) => {
                self.carried.iter_mut().for_each(|carried| carried.put_back_receiving(*arrivals));
            }
        }
        self.granted_ppm += entry.share_ppm;
        self.entries.insert(id, entry);
    }
}

/// Returns the channels among `entries` that send and are promised something.
fn sending<Id>(entries: &BTreeMap<Id, Entry>) -> Vec<Channel> {
    let channel = |entry: &Entry| match &entry.executed {
        Executed::Sending { channel, .. } => Some(Channel::clone(channel)),
        _ => None,
    };
    entries.values().filter_map(channel).collect()
}

/// Returns the place of a reservation among others.
fn key(reservation: Reservation) -> (u64, u64) {
    (reservation.period().as_nanos(), reservation.budget().as_nanos())
}

fn no_carrier() -> Box<Refusal> {
    Box::new(Refusal::new("link", Resource::Link, "this host carries no channels".into()))
}

fn within(wanted: u64, most: u64, why: impl FnOnce() -> String) -> Result<(), Box<Refusal>> {
    match wanted.checked_sub(most) {
        None | Some(0) => Ok(()),
        Some(short) => Err(Box::new(Refusal {
            shortfall: Some(Shortfall::Share(short)),
            ..Refusal::new("bandwidth", Resource::Bandwidth, why())
        })),
    }
}

fn late(why: String) -> Box<Refusal> {
    Box::new(Refusal::new("response-time", Resource::Cpu, why))
}
