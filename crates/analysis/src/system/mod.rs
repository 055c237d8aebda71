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
//! 4. `server`: the jobs of each deferrable server are in time, beneath the kernel's reservations and
//!    the servers of shorter periods ([`crate::supply::deferrable`]).
//! 5. `response-time`: on each CPU the tasks of every executor are in time beneath all of the
//!    kernel's reservations on the host, because the kernel may run those on any CPU, and beneath
//!    the slots of the CPU's timetable or its servers ([`crate::incremental`]).
//! 6. `processor` and `channel-delay`: beneath a new reservation the threads of the channels stay
//!    within the reservation that is set aside for them, and every channel is in time.
//!
//! Memory that a program keeps has a test of its own, `memory`, and takes nothing else.
//!
//! A channel needs a [`Carrier`], which [`System::carry`] sets up. It takes nothing of the CPUs
//! beyond the share set aside then, so it has tests of its own: `link`, `channel-delay` and `processor`
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
mod cover;
mod cpu;
mod entry;
mod exchange;
mod following;
mod kernel;
mod leaving;
mod memory;
mod partition;
mod place;
mod request;
mod served;
mod sums;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use punctual_model::command::Backend;
use punctual_model::{HostProfile, Instant, Policy};

pub(crate) use self::channels::PROCESSOR;
pub use self::channels::{Carrier, CarrierLoad};
pub(crate) use self::commands::{Slots, rules};
use self::cpu::{Cpu, TaskOrder};
use self::entry::{Entry, Executed};
pub use self::exchange::Exchange;
use self::exchange::Timetables;
use self::kernel::OfTheKernel;
use self::leaving::Leaving;
pub(crate) use self::memory::MEMORY;
pub(crate) use self::partition::{Fit, How, Spread};
use self::place::late;
pub use self::request::{BackEnd, Joining, Request, UpcallOrder};
pub(crate) use self::served::SERVER;
use self::served::Server;
use crate::load::CpuLoad;
use crate::reservation::ReservedLoad;
use crate::steps::Steps;
use crate::supply::followed::Followed;
use crate::supply::together::Tables;
use crate::verdict::{Refusal, Resource};

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
    /// The deferrable servers, by CPU and from the highest level to the lowest.
    servers: Vec<Server<Id>>,
    /// What counts and is no more, in the order in which it left.
    leaving: Vec<Leaving<Id>>,
    /// How much has left so far.
    last_leaving: u32,
    /// The instant up to which it is known what is free.
    now: Instant,
    /// Whether capacity has become free since the last call of `settle`.
    freed_since: bool,
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
            servers: Vec::new(),
            leaving: Vec::new(),
            last_leaving: 0,
            now: Instant::ZERO,
            freed_since: false,
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
        self.admit_in(&mut Vec::new(), id, request, steps)
    }

    /// Admits like [`Self::admit`], and adds to `replaced` the timetables that this replaces.
    fn admit_in(
        &mut self,
        replaced: &mut Vec<Timetables<Id>>,
        id: Id,
        request: Request<'_>,
        steps: &mut Steps,
    ) -> Result<BackEnd, Box<Refusal>> {
        debug_assert!(!self.entries.contains_key(&id), "the name is free");
        let executed = self.execute(replaced, id, request, steps);
        let executed = executed.map_err(|refusal| self.with_what_left(refusal))?;
        Ok(self.enter(id, request, executed))
    }

    fn execute(
        &mut self,
        replaced: &mut Vec<Timetables<Id>>,
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
            Request::Command { reservation, backend: Backend::Kernel, .. } => {
                self.refuse_both_back_ends(true)?;
                self.reserve(reservation, reservation, true, steps)?
            }
            Request::Command { reservation, enforcement, backend: Backend::Server, cpu } => {
                self.serve(id, reservation, enforcement, cpu, steps)?
            }
            Request::Command { reservation, enforcement, cpu, .. } => {
                let before = self.hold(id, reservation, enforcement, cpu, steps)?;
                let cpu = before.cpu;
                replaced.push(before);
                Executed::Timetable { cpu }
            }
            Request::Joining(joining) => {
                replaced.push(self.seat(id, joining, steps)?);
                Executed::Timetable { cpu: joining.cpu }
            }
            Request::Share(_) => {
                self.within_limits(share_ppm)?;
                Executed::Unproven
            }
            Request::Memory(wanted) => self.keep(wanted)?,
            Request::Sending(channel) => self.send_one(channel, channel, steps)?,
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
}

fn no_carrier() -> Box<Refusal> {
    Box::new(Refusal::new("link", Resource::Link, "this host carries no channels".into()))
}
