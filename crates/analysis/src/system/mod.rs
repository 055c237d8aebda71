//! The admission state of a host, updated entry by entry.
//!
//! [`System`] answers requests one at a time: [`System::admit`], [`System::release`],
//! [`System::change`], and [`System::would_admit`] for queries. Each entry is proven for the back
//! end that will execute it, which is part of the answer ([`BackEnd`]). A refusal changes nothing.
//!
//! An entry that leaves while others run affects them for a while: [`System::retire`] says how long it
//! counts, and `leaving` why.
//!
//! [`crate::admit()`] enters a contract, the broker its users' requests, and the runtime the
//! upcalls of a process.
//!
//! # The tests, in this order
//! 1. `reservable-bandwidth`: all entries together, with the [withheld](System::withhold)
//!    bandwidth, are within `reservable_ppm` of all CPUs; the tasks of executors on one CPU are
//!    within that of one; and each of the kernel's reservations is served in time on any CPU
//!    ([`crate::sched_deadline::Shares`]).
//! 2. `sched-deadline`: the kernel's limits on one reservation, and on all of them
//!    ([`crate::sched_deadline`]).
//! 3. `timetable`: there is a table for each command ([`crate::supply::together`]). While it is
//!    followed, there is a new table for each joining or changed reservation, and a handover to it
//!    that takes nothing from the others ([`crate::supply::followed`]).
//! 4. `response-time`: on each CPU the tasks of every executor are in time beneath all of the
//!    kernel's reservations on the host, because the kernel may run those on any CPU, and beneath
//!    the slots of the CPU's timetable ([`crate::incremental`]).
//! 5. `channels`: beneath a new reservation every channel is in time, and the threads of the
//!    channels stay within the reservation that is set aside for them.
//!
//! A channel needs a [`Carrier`], which [`System::carry`] sets up. It takes nothing of the CPUs
//! beyond the share set aside then, so it has other tests: `link`, `processor` and `channel-delay`
//! ([`CarrierLoad`] says how much is left). The relation holds both ways: a reservation that would
//! make a channel late is refused, and so is a channel that would be late beneath the reservations.
//! Upcalls run below all channels and are proven beneath the share that is set aside.
//!
//! # Assumptions
//! Executors run rate monotonic with delayed preemption, over all executors of a CPU
//! ([`UpcallOrder`]). The longest quantum below a task is charged to it as blocking. Two context
//! switches are charged to each job and to each period of a reservation. The reservation that is
//! set aside for channels does not delay them, because their threads run in it.
//!
//! # Costs
//! While bands prove the tasks of a CPU (see [`crate::incremental::Bands`]) a request costs O(log
//! n) for n tasks there. Beyond that it costs O(n), and O(n) more for each task whose spare it
//! exceeds. A reservation costs that on every CPU, and an examination of all sending channels. A
//! channel costs O(log n) for n channels while no reservation is admitted, and otherwise such an
//! examination.

mod channels;
mod commands;
mod cpu;
mod exchange;
mod following;
mod kernel;
mod leaving;
mod partition;
mod request;
mod sums;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

use punctual_model::channel::{Channel, Direction, ReadLimit};
use punctual_model::command::Backend;
use punctual_model::units::percent;
use punctual_model::{HostProfile, Instant, Policy, Reservation, Task};

pub(crate) use self::channels::PROCESSOR;
pub use self::channels::{Carrier, CarrierLoad};
pub(crate) use self::commands::{Slots, rules};
use self::cpu::{Cpu, TaskOrder};
use self::exchange::Attempt;
pub use self::exchange::Exchange;
use self::kernel::OfTheKernel;
use self::leaving::Leaving;
pub(crate) use self::partition::{Fit, How, Spread};
pub use self::request::{BackEnd, Joining, Request, UpcallOrder};
use crate::incremental::Denial;
use crate::load::{CpuLoad, TaskLoad};
use crate::reservation::ReservedLoad;
use crate::steps::Steps;
use crate::supply::followed::Followed;
use crate::supply::together::Tables;
use crate::verdict::{Refusal, Resource, Shortfall};

pub(crate) const BANDWIDTH: &str = "reservable-bandwidth";
pub(crate) const SCHED_DEADLINE: &str = "sched-deadline";

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
/// let mut system = System::new(HostProfile::ideal(2), UpcallOrder::LevelOrder);
/// let steps = &mut Steps::default();
/// let audio = system.admit("audio", Request::Executor(&[task(10, 6)]), steps).expect("alone");
/// assert_eq!(audio, BackEnd::Executor { cpu: 0 });
/// let video = system.admit("video", Request::Executor(&[task(20, 10)]), steps).expect("beside");
/// assert_eq!(video, BackEnd::Executor { cpu: 1 });
///
/// let modem = Request::Deadline("3ms/8ms".parse().expect("valid"));
/// let refused = system.admit("modem", modem, steps).expect_err("audio could wait too long");
/// assert_eq!(refused.test, "response-time");
/// system.release("audio");
/// let admitted = system.admit("modem", modem, steps).expect("beneath it there is room");
/// assert_eq!(admitted, BackEnd::Deadline);
/// ```
#[derive(Clone, Debug)]
pub struct System<Id> {
    host: HostProfile,
    cpus: Vec<Cpu<Id>>,
    /// The kernel's number of the CPU at the same position.
    numbers: Vec<u16>,
    /// Whether tasks are bounded by their deadlines alone.
    unbounded: bool,
    entries: BTreeMap<Id, Entry>,
    granted_ppm: u64,
    withheld_ppm: u64,
    carried: Option<CarrierLoad>,
    /// The kernel's reservations, which run above everything on any CPU.
    of_the_kernel: OfTheKernel,
    /// The tables that are not followed yet.
    tables: Tables<Id>,
    /// The followed timetables, by the kernel's number of their CPU.
    followed: BTreeMap<u16, Followed<Id>>,
    /// What counts and is no more, in the order in which it left.
    leaving: Vec<Leaving<Id>>,
    /// How much has left so far.
    last_leaving: u32,
    /// The instant up to which it is known what is free.
    now: Instant,
    /// Whether capacity has become free since the last call of `settle`.
    freed_since: bool,
    /// The instant of the last search for what is free.
    looked_closely: Option<Instant>,
}

#[derive(Clone, Debug)]
struct Entry {
    share_ppm: u64,
    executed: Executed,
}

#[derive(Clone, Debug)]
enum Executed {
    Executor {
        cpu: usize,
        /// What counts.
        tasks: Box<[TaskLoad]>,
        /// What there is; `None`: the same.
        own: Option<Box<[TaskLoad]>>,
    },
    Deadline {
        reservation: Reservation,
        /// What counts.
        counted: Reservation,
        is_command: bool,
    },
    Timetable {
        cpu: u16,
    },
    Unproven,
    /// A sending channel, with its rate on the link in bits a second.
    Sending {
        /// What counts.
        channel: Box<Channel>,
        /// What there is; `None`: the same.
        own: Option<Box<Channel>>,
        bps: u64,
    },
    Receiving(ReadLimit),
    BestEffort(Direction),
}

impl Entry {
    fn back_end(&self) -> BackEnd {
        match self.executed {
            // A host has at most 2¹⁶ CPUs.
            Executed::Executor { cpu, .. } => BackEnd::Executor { cpu: cpu as u16 },
            Executed::Deadline { .. } => BackEnd::Deadline,
            Executed::Timetable { cpu } => BackEnd::Timetable { cpu },
            Executed::Unproven => BackEnd::Unproven,
            Executed::Sending { .. } | Executed::BestEffort(Direction::Send) => BackEnd::Egress,
            Executed::Receiving(_) | Executed::BestEffort(Direction::Receive) => BackEnd::Ingress,
        }
    }

    /// Returns whether it is counted for more than it has.
    fn counts_more(&self) -> bool {
        match &self.executed {
            Executed::Executor { own, .. } => own.is_some(),
            Executed::Deadline { reservation, counted, .. } => counted != reservation,
            Executed::Sending { own, .. } => own.is_some(),
            _ => false,
        }
    }

    fn is_command_of_the_kernel(&self) -> bool {
        matches!(self.executed, Executed::Deadline { is_command: true, .. })
    }

    fn reservation(&self) -> Option<Reservation> {
        match self.executed {
            Executed::Deadline { reservation, .. } => Some(reservation),
            _ => None,
        }
    }
}

impl<Id: Copy + Ord> System<Id> {
    /// Creates the state of a host without entries.
    pub fn new(host: HostProfile, order: UpcallOrder) -> Self {
        Self::with(host, TaskOrder::Upcalls(order), (0..host.cpus).collect())
    }

    /// Creates the state of the last `cpus` CPUs of a host, the last one first, with tasks under
    /// `policy` on each. Only their deadlines bound the tasks' load.
    pub(crate) fn under(policy: Policy, cpus: u16, host: HostProfile) -> Self {
        let numbers = (0..cpus).filter_map(|at| host.cpus.checked_sub(1 + at)).collect();
        Self { unbounded: true, ..Self::with(host, TaskOrder::By(policy), numbers) }
    }

    fn with(host: HostProfile, order: TaskOrder, numbers: Vec<u16>) -> Self {
        Self {
            host,
            cpus: numbers.iter().map(|_| Cpu::new(order, &host)).collect(),
            numbers,
            unbounded: false,
            entries: BTreeMap::new(),
            granted_ppm: 0,
            withheld_ppm: 0,
            carried: None,
            of_the_kernel: OfTheKernel::default(),
            tables: Tables::new(rules(&host)),
            followed: BTreeMap::new(),
            leaving: Vec::new(),
            last_leaving: 0,
            now: Instant::ZERO,
            freed_since: false,
            looked_closely: None,
        }
    }

    /// Sets up `carrier` for channels and sets aside its share of the CPUs, above all tasks. It is
    /// not an entry, and stays. There must be no carrier yet.
    ///
    /// # Errors
    /// Fails like a reservation in [`Self::admit`].
    pub fn carry(&mut self, carrier: Carrier, steps: &mut Steps) -> Result<(), Box<Refusal>> {
        let cpu = carrier.egress.cpu();
        let share_ppm = cpu.utilisation_ppm();
        self.within_limits(share_ppm)?;
        self.put_above_tasks(cpu, steps)?;
        self.granted_ppm += share_ppm;
        self.carry_with_nothing_set_aside(carrier);
        Ok(())
    }

    /// Sets up a carrier like [`Self::carry`] on a host that has no room for it: nothing is set
    /// aside, so the channels may make tasks late.
    pub fn carry_with_nothing_set_aside(&mut self, carrier: Carrier) {
        debug_assert!(self.carried.is_none(), "there is no carrier yet");
        self.carried = Some(CarrierLoad::new(carrier));
    }

    /// Returns the load of the channels on their carrier, or `None` if there is no carrier.
    pub fn carried(&self) -> Option<&CarrierLoad> {
        self.carried.as_ref()
    }

    /// Returns the host profile that admission uses.
    pub fn host(&self) -> &HostProfile {
        &self.host
    }

    /// Returns the share of all entries together, with that set aside for channels, in parts per
    /// million of a CPU.
    pub fn granted_ppm(&self) -> u64 {
        self.granted_ppm
    }

    /// Returns the share of all CPUs together that may be granted, in parts per million of one.
    pub fn capacity_ppm(&self) -> u64 {
        self.host.reservable_ppm.saturating_mul(self.cpus.len() as u64)
    }

    /// Returns the load above all tasks of the CPU at a position.
    pub(crate) fn above_tasks(&self, cpu: u16) -> &[ReservedLoad] {
        self.cpus[usize::from(cpu)].above()
    }

    /// Returns the load of the CPU at a position, in the order of the policy if its tasks were
    /// admitted at once.
    pub(crate) fn work_of(&self, cpu: u16) -> &CpuLoad {
        self.cpus[usize::from(cpu)].load()
    }

    /// Returns the kernel's number of the CPU at a position.
    pub(crate) fn number_of(&self, cpu: u16) -> Option<u16> {
        self.numbers.get(usize::from(cpu)).copied()
    }

    /// Puts `load` above all tasks of the CPU at a position, which must have none yet.
    pub(crate) fn put_above_tasks_of(&mut self, cpu: u16, load: &[ReservedLoad]) {
        load.iter().for_each(|load| self.cpus[usize::from(cpu)].put_back_above(*load));
    }

    /// Returns the back end of an entry, or `None` if there is no such entry.
    pub fn back_end(&self, id: Id) -> Option<BackEnd> {
        self.entries.get(&id).map(Entry::back_end)
    }

    /// Returns the kernel reservation of an entry, if it is one.
    pub fn reservation(&self, id: Id) -> Option<Reservation> {
        self.entries.get(&id)?.reservation()
    }

    /// Counts `ppm` of a CPU as in use besides the entries: bandwidth that the kernel still holds
    /// for reservations that have ended. It replaces the amount withheld before.
    pub fn withhold(&mut self, ppm: u64) {
        self.withheld_ppm = ppm;
    }

    /// Admits `request` as `id`, which must be free, if everything admitted keeps its proof, and
    /// returns the back end.
    ///
    /// Tasks of an executor go to the fullest CPU that has room for all of them, so that the
    /// remaining room stays in one piece. A request that is not decided within `steps` is refused.
    ///
    /// # Errors
    /// Returns the refusal of the first test that failed; if several CPUs were tried, that of the CPU
    /// with the least shortfall.
    pub fn admit(
        &mut self,
        id: Id,
        request: Request<'_>,
        steps: &mut Steps,
    ) -> Result<BackEnd, Box<Refusal>> {
        match self.admit_in(&mut Attempt::default(), id, request, steps) {
            Err(_) if self.settle_closely() => {
                self.admit_in(&mut Attempt::default(), id, request, steps)
            }
            answer => answer,
        }
    }

    /// Admits like [`Self::admit`], and adds to `attempt` the timetables that this replaces.
    fn admit_in(
        &mut self,
        attempt: &mut Attempt<Id>,
        id: Id,
        request: Request<'_>,
        steps: &mut Steps,
    ) -> Result<BackEnd, Box<Refusal>> {
        debug_assert!(!self.entries.contains_key(&id), "the name is free");
        let executed = self.execute(attempt, id, request, steps);
        let executed = executed.map_err(|refusal| self.with_what_left(refusal))?;
        Ok(self.enter(id, request, executed))
    }

    fn execute(
        &mut self,
        attempt: &mut Attempt<Id>,
        id: Id,
        request: Request<'_>,
        steps: &mut Steps,
    ) -> Result<Executed, Box<Refusal>> {
        let share_ppm = self.counted_ppm(request);
        Ok(match request {
            Request::Executor(tasks) => {
                self.within_limits(share_ppm)?;
                let loads = self.loads_of(tasks);
                let cpu = self.place(id, tasks, &loads, share_ppm, steps)?;
                Executed::Executor { cpu, tasks: loads, own: None }
            }
            Request::Deadline(reservation) => {
                self.reserve(reservation, reservation, false, steps)?
            }
            Request::Command { reservation, backend: Some(Backend::Kernel), .. } => {
                self.refuse_both_back_ends(true)?;
                self.reserve(reservation, reservation, true, steps)?
            }
            Request::Command { reservation, enforcement, cpu, .. } => {
                let replaced = self.hold(id, reservation, enforcement, cpu, steps)?;
                let cpu = replaced.cpu;
                attempt.replaced.push(replaced);
                Executed::Timetable { cpu }
            }
            Request::Joining(joining) => {
                attempt.replaced.push(self.seat(id, joining, steps)?);
                Executed::Timetable { cpu: joining.cpu }
            }
            Request::Share(_) => {
                self.within_limits(share_ppm)?;
                Executed::Unproven
            }
            Request::Sending(channel) => {
                self.send_one(attempt.is_brief, channel, channel, steps)?
            }
            Request::Receiving(limit) => {
                let above = self.above_carrier();
                self.carried.as_mut().ok_or_else(no_carrier)?.receive(limit, &above)?;
                Executed::Receiving(limit)
            }
            Request::BestEffort(direction) => {
                self.carried.as_ref().ok_or_else(no_carrier)?;
                Executed::BestEffort(direction)
            }
        })
    }

    /// Takes out an entry that has not run yet, or that affects no job any more, and returns whether it
    /// was there. The others keep their proofs.
    pub fn release(&mut self, id: Id) -> bool {
        self.take_out(id).is_some()
    }

    fn enter(&mut self, id: Id, request: Request<'_>, executed: Executed) -> BackEnd {
        let entry = Entry { share_ppm: self.counted_ppm(request), executed };
        let back_end = entry.back_end();
        self.granted_ppm += entry.share_ppm;
        self.entries.insert(id, entry);
        back_end
    }

    /// Returns the share of `request` that counts against the limit on grants.
    fn counted_ppm(&self, request: Request<'_>) -> u64 {
        match request {
            Request::Executor(_) if self.unbounded => 0,
            _ => request.share_ppm(),
        }
    }

    fn within_limits(&self, wanted: u64) -> Result<(), Box<Refusal>> {
        let most = self.host.reservable_ppm;
        within(wanted, most, || {
            let (wanted, most) = (percent(wanted), percent(most));
            format!("{wanted} of a CPU is more than the {most} of one CPU that may be promised")
        })?;
        let taken = self.granted_ppm + self.leaving_ppm() + self.withheld_ppm + self.slots_ppm();
        let left = self.capacity_ppm().saturating_sub(taken);
        within(wanted, left, || {
            let (wanted, left) = (percent(wanted), percent(left));
            format!("{wanted} of a CPU is wanted and {left} is left on all CPUs together")
        })
    }

    fn loads_of(&self, tasks: &[Task]) -> Box<[TaskLoad]> {
        tasks.iter().map(|task| TaskLoad::new(task, self.host.context_switch)).collect()
    }

    fn place(
        &mut self,
        id: Id,
        tasks: &[Task],
        loads: &[TaskLoad],
        share_ppm: u64,
        steps: &mut Steps,
    ) -> Result<usize, Box<Refusal>> {
        let mut order: Vec<usize> = (0..self.cpus.len()).collect();
        order.sort_by_key(|&cpu| Reverse(self.cpus[cpu].share_ppm()));
        let mut refusals = Vec::with_capacity(order.len());
        for cpu in order {
            match self.place_on(cpu, id, tasks, loads, share_ppm, steps) {
                Ok(()) => return Ok(cpu),
                Err(refusal) => refusals.push((cpu, refusal)),
            }
        }
        Err(self.on_no_cpu(tasks, refusals))
    }

    /// Refuses tasks that fit on no CPU, with the numbers of the CPU with the least shortfall.
    fn on_no_cpu(&self, tasks: &[Task], refusals: Vec<(usize, Box<Refusal>)>) -> Box<Refusal> {
        let short = |refusal: &Refusal| match refusal.shortfall {
            Some(Shortfall::Time(time)) => (0, time.as_nanos()),
            Some(Shortfall::Share(ppm)) => (1, ppm),
            _ => (2, 0),
        };
        // Of equal ones the fullest.
        let nearest = refusals.into_iter().min_by_key(|(_, refusal)| short(refusal));
        let Some((cpu, refusal)) = nearest else {
            let why = "the host promises no CPU".into();
            return Box::new(Refusal::new("cpus", Resource::Cpus, why));
        };
        let cpus = self.cpus.len();
        if cpus == 1 {
            return refusal;
        }
        let what = match tasks {
            [task] => format!("task \"{}\" fits", task.name()),
            _ => format!("{} tasks of one executor fit", tasks.len()),
        };
        let why = &refusal.why;
        let why = format!("{what} on none of the {cpus} CPUs; nearest on CPU {cpu}, where {why}");
        Box::new(Refusal { why, ..*refusal })
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
            format!("{wanted} beside {has} is more than the {most} of one CPU")
        })?;
        self.cpus[cpu]
            .admit(id, loads, share_ppm, steps)
            .map_err(|(at, denial): (_, Denial)| late(denial, tasks.get(at)))
    }

    fn take_out(&mut self, id: Id) -> Option<Entry> {
        self.counts_no_more(id);
        self.take_out_as_counted(id)
    }

    /// Takes out an entry, and leaves it noted that it is counted for more than it has.
    fn take_out_as_counted(&mut self, id: Id) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        self.granted_ppm -= entry.share_ppm;
        match &entry.executed {
            Executed::Executor { cpu, tasks, .. } => {
                self.cpus[*cpu].remove(id, tasks, entry.share_ppm);
            }
            Executed::Deadline { counted, .. } => self.unreserve_above(*counted),
            Executed::Timetable { .. } => self.hold_no_longer(id),
            Executed::Unproven | Executed::BestEffort(_) => {}
            channel @ (Executed::Sending { .. } | Executed::Receiving(_)) => {
                self.carry_no_longer(channel);
            }
        }
        Some(entry)
    }

    /// Restores an entry that was taken out. Everything was proven beside it, so nothing is
    /// examined.
    fn put_back(&mut self, id: Id, entry: Entry) {
        match &entry.executed {
            Executed::Executor { cpu, tasks, .. } => {
                self.cpus[*cpu].put_back(id, tasks, entry.share_ppm);
            }
            Executed::Deadline { counted, .. } => self.put_back_of_the_kernel(*counted),
            // The tables are restored separately.
            Executed::Timetable { .. } | Executed::Unproven | Executed::BestEffort(_) => {}
            channel @ (Executed::Sending { .. } | Executed::Receiving(_)) => {
                self.carry_again(channel);
            }
        }
        self.granted_ppm += entry.share_ppm;
        self.entries.insert(id, entry);
    }
}

fn no_carrier() -> Box<Refusal> {
    Box::new(Refusal::new("link", Resource::Link, "this host carries no channels".into()))
}

fn within(wanted: u64, most: u64, why: impl FnOnce() -> String) -> Result<(), Box<Refusal>> {
    match wanted.checked_sub(most) {
        None | Some(0) => Ok(()),
        Some(short) => Err(Box::new(Refusal {
            shortfall: Some(Shortfall::Share(short)),
            ..Refusal::new(BANDWIDTH, Resource::Bandwidth, why())
        })),
    }
}

/// Refuses a request that makes a task late. Names the task if it is `asked`, because the tasks of
/// other holders are private.
fn late(denial: Denial, asked: Option<&Task>) -> Box<Refusal> {
    let own = asked.map_or_else(|| "a task".into(), |task| format!("task \"{}\"", task.name()));
    let named = asked.filter(|_| denial.is_of_own());
    Box::new(Refusal {
        entry: named.map(|task| task.name().into()),
        shortfall: denial.shortfall().map(Shortfall::Time),
        ..Refusal::new("response-time", Resource::Cpu, denial.said_of(&own))
    })
}
