//! Entries that leave while others run, and the time at which their capacity is free.
//!
//! The jobs of a task that has left still have an effect: a job that waited for them has less time
//! left. If another task gets the capacity at once, that job waits for both. Take 5 ms every 10 ms
//! above 10 ms every 20 ms on one CPU. The first task may leave at 5 ms, after its job, and an
//! equal task join then. The second one waits for jobs at 0, 5 and 15 ms and is late, though either
//! pair is schedulable. So [`System::retire`] keeps counting an entry that left for as long as it
//! can have an effect, and [`System::exchange`] does the same for changes.
//!
//! # The time at which it is free
//! This is the first *idle instant* at or after the leave: an instant at which every job that is
//! known on the CPU is complete. No busy period is affected by anything from before it (Tindell &
//! Alonso, "A Very Simple Protocol for Mode Changes in Priority Preemptive Systems", 1996; Real &
//! Crespo, Real-Time Systems 26, 2004, §3). This holds under every policy that does not idle while
//! there is work. To wait for the deadline or the next release of the last job is not enough. Under
//! fixed priorities a window may hold many jobs of the old task and then many of the new one (Pedro
//! & Burns, "Schedulability Analysis for Mode Changes in Flexible Real-Time Systems", 1998). Under
//! earliest deadline first it is enough only if every deadline equals its period.
//!
//! If no component observes the idle instant, it has passed after the longest possible busy period.
//! At the leave, at time t, at most `⌈D_j/T_j⌉` jobs of each task are pending, because none is
//! late. So the CPU has been idle by t + w, for any
//!
//! ```text
//! w ≥ wake-up + Σ_all ⌈D_j/T_j⌉·C_j + Σ_stays ⌈(w + J_j)/T_j⌉·C_j + Σ_r I_r(w)
//! ```
//!
//! # Why no admitted job is late
//! Take a busy period of a CPU, and the last admission in it. That admission counted every task
//! with a job in the busy period: a task that left earlier in it is counted until an idle instant,
//! and the busy period contains none. So all of these tasks passed the test together. The jobs of
//! the busy period form a schedule that the test covers, in which some tasks have their first
//! release later than others, and some have no more releases from some instant on. The bound above
//! may be used, because no job was late up to then.
//!
//! A reservation of the kernel that leaves is counted until that instant on every CPU, and for at
//! least one period. The kernel, too, counts it up to its last deadline, and the bound on shares
//! holds for the reservations whose deadlines have not passed (Goossens, Funk & Baruah, Real-Time
//! Systems 25, 2003).
//!
//! # Channels
//! Thread and link are one resource under earliest deadline first ([`crate::channel::egress`]), so
//! the same holds for the messages of the channels that send: they are its jobs, each released when
//! it counts as arrived. 5 ms every 20 ms with a delay bound of 6 ms beside 29.5 ms every 40 ms fit.
//! If the first channel closes after a message, and at 20 ms another one opens that sends 10 ms
//! every 100 ms within 11 ms, the long message is late, though either pair fits. That a message of
//! the closed channel would have been due by then does not help.
//!
//! The threads of the channels also take processor time from everything below them. The test counts
//! messages that wait for the link, so this has ended only when the sender was idle, and each CPU
//! after that. A sender that goes to sleep because there is nothing to do reports that instant
//! ([`System::sender_idle`]). A message that it had not seen by then counts as one that came then:
//! its bound includes the time until the sender looks, and the end of a block that has begun.
//!
//! # Changes
//! Until that instant, a task that keeps its period counts with the larger work, and a reservation
//! with the larger budget and the larger share. A task with another period counts twice, as the old
//! one and as the new one. A channel counts with the larger messages, the shorter spacing and the
//! shorter delay bound, or twice if that does not fit. So a reduction is never refused.
//!
//! # Assumptions
//! An entry that left has no more releases, and its pending jobs are completed or dropped. Slots of
//! a timetable are free at once: the other reservations in it keep their own slots, and no
//! component has tasks or channels beneath a timetable that changes while it is followed.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

use punctual_model::channel::{Channel, LinearBounded};
use punctual_model::{Duration, Instant, Reservation, Service};

use super::cpu::Cpu;
use super::{CarrierLoad, Entry, Executed, System};
use crate::load::TaskLoad;
use crate::reservation::{ReservedLoad, interference_of};
use crate::steps::Steps;
use crate::verdict::Refusal;

/// The plain rounds of the search for the end of a busy period, before it doubles each step. In the
/// unit tests there are so many that it always finds the least.
const ROUNDS: u32 = if cfg!(test) { 1_000_000 } else { 24 };

/// A rough bound on a busy period of at most this many times the pending work is good enough: the
/// search for a better one looks at every task of the CPU.
const ROUGH: u64 = 8;

/// A bound on a busy period.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    /// The rough one if it is near enough, or else one that holds for an older leave too.
    Near,
    /// The one that a search finds, if one for an older leave has not passed.
    Searched,
}

/// By position of a CPU: the busy period that a search found after a leave. After a later leave it
/// is no longer, because fewer entries stay that have left, and so it is while some become free.
type OlderBusy = BTreeMap<usize, u64>;

/// An entry that has left or shrunk and is still counted.
#[derive(Clone, Debug)]
pub(super) struct Leaving<Id> {
    /// A number that grows by one for each.
    pub(super) number: u32,
    at: Instant,
    /// The capacity is not free before this time.
    not_before: Instant,
    /// For a channel: an instant at or after `at` at which the sender was idle, once it is known.
    sender_idle: Option<Instant>,
    what: Counted<Id>,
}

#[derive(Clone, Debug)]
enum Counted<Id> {
    Tasks {
        id: Id,
        cpu: usize,
        tasks: Box<[TaskLoad]>,
    },
    /// A reservation of the kernel.
    Reservation(Reservation),
    /// A channel, sending or receiving.
    Channel(Executed),
    /// The difference between what an entry is counted for and what it has, after it had more.
    Excess {
        id: Id,
    },
}

impl<Id> Leaving<Id> {
    /// Returns the channel that has left, if it is one.
    pub(super) fn channel(&self) -> Option<&Executed> {
        match &self.what {
            Counted::Channel(channel) => Some(channel),
            _ => None,
        }
    }
}

impl<Id: Copy + Ord> System<Id> {
    /// Removes an entry whose last job was released before `now`. Returns whether it was in force.
    /// Its capacity is free once its jobs can have no more effect, which [`Self::settle`]
    /// determines. The last message of a channel counts as arrived no later than at `now`.
    ///
    /// The capacity in a timetable is free at once.
    pub fn retire(&mut self, id: Id, now: Instant) -> bool {
        if let Some(Executed::Executor { .. }) = self.entries.get(&id).map(|one| &one.executed) {
            self.retire_executor(id, now);
            return true;
        }
        let Some(entry) = self.take_out(id) else { return false };
        self.linger(id, &entry, now);
        true
    }

    /// Retires the executor `id`, whose tasks stay as they are.
    fn retire_executor(&mut self, id: Id, now: Instant) {
        self.counts_no_more(id);
        let Some(Entry { share_ppm, executed }) = self.entries.remove(&id) else { return };
        self.granted_ppm -= share_ppm;
        let Executed::Executor { cpu, tasks, .. } = executed else { return };
        let number = self.next_leaving();
        self.cpus[cpu].leave(id, &tasks, share_ppm, number);
        if !tasks.is_empty() {
            self.push(number, now, Counted::Tasks { id, cpu, tasks });
        }
    }

    /// Advances the time to `now`, and frees capacity whose entry left long enough ago. Returns
    /// whether any became free since the last call, here or in a request. Call it before a request,
    /// because nothing becomes free without it.
    pub fn settle(&mut self, now: Instant) -> bool {
        self.now = self.now.max(now);
        let mut older = OlderBusy::new();
        let freed = self.free_where(|system, leaving| match leaving.not_before {
            // Without an end at the last look, and perhaps with one once others have left.
            later if later > now && later < Instant::MAX => later,
            _ if system.is_surely_free(leaving, now) => now,
            _ => system.free_at(leaving, Bound::Near, &mut older),
        });
        core::mem::take(&mut self.freed_since) || freed
    }

    /// Answers a request by `attempt`, which is tried again after a closer look if it is refused
    /// for what may be free. The reason is sought only once.
    pub(super) fn looking_closely<T>(
        &mut self,
        steps: &mut Steps,
        attempt: impl Fn(&mut Self, &mut Steps) -> Result<T, Box<Refusal>>,
    ) -> Result<T, Box<Refusal>> {
        if self.leaving.is_empty() || self.looked_closely == Some(self.now) {
            return attempt(self, steps);
        }
        let mut brief = steps.half().briefly();
        let answer = attempt(self, &mut brief);
        steps.put_back(brief);
        match answer {
            Err(refusal) if !self.settle_closely() && steps.is_brief() => Err(refusal),
            Err(_) => attempt(self, steps),
            admitted => admitted,
        }
    }

    /// Frees capacity that a closer look proves to be free, and returns whether there was any. Looks
    /// once at each instant.
    pub fn settle_closely(&mut self) -> bool {
        if self.leaving.is_empty() || self.looked_closely.replace(self.now) == Some(self.now) {
            return false;
        }
        let mut older = OlderBusy::new();
        let freed =
            self.free_where(|system, leaving| system.free_at(leaving, Bound::Searched, &mut older));
        self.freed_since |= freed;
        freed
    }

    /// Frees capacity that is free now, by the answers of `free_at`. Returns whether there was any.
    fn free_where(&mut self, mut free_at: impl FnMut(&Self, &Leaving<Id>) -> Instant) -> bool {
        let before = self.leaving.len();
        let mut at = 0;
        while let Some(leaving) = self.leaving.get(at) {
            let not_before = free_at(self, leaving);
            if not_before <= self.now {
                let leaving = self.leaving.remove(at);
                self.free(leaving);
            } else {
                self.leaving[at].not_before = not_before;
                at += 1;
            }
        }
        self.leaving.len() < before
    }

    /// Removes a reservation that [`Self::reserve_above`] added, as [`Self::retire`] removes an
    /// entry.
    pub fn retire_above(&mut self, reservation: Reservation, now: Instant) {
        let number = self.next_leaving();
        self.push(number, now, Counted::Reservation(reservation));
    }

    /// Frees the capacity of executors that left the CPU at position `cpu` no later than `at`, an
    /// instant at which every known job of its executors was complete.
    pub fn idle(&mut self, cpu: u16, at: Instant) {
        let is_over = |leaving: &Leaving<Id>| {
            leaving.at <= at
                && match &leaving.what {
                    Counted::Tasks { cpu: other, .. } => *other == usize::from(cpu),
                    Counted::Excess { id } => self.is_executor_on(*id, cpu.into()),
                    Counted::Reservation(_) | Counted::Channel(_) => false,
                }
        };
        let over: Vec<bool> = self.leaving.iter().map(is_over).collect();
        let mut over = over.into_iter();
        let (gone, rest) = core::mem::take(&mut self.leaving)
            .into_iter()
            .partition(|_| over.next().unwrap_or(false));
        self.leaving = rest;
        Vec::into_iter(gone).for_each(|leaving| self.free(leaving));
    }

    /// Notes that every message that the sender knew at `at` was handed over. What waits for the
    /// sender then waits for each CPU alone.
    pub fn sender_idle(&mut self, at: Instant) {
        for leaving in &mut self.leaving {
            let waits = leaving.sender_idle.is_none() && leaving.at <= at;
            if waits && !matches!(leaving.what, Counted::Tasks { .. } | Counted::Reservation(_)) {
                leaving.sender_idle = Some(at);
                // To be determined anew.
                leaving.not_before = leaving.at;
            }
        }
    }

    /// Moves the time of all leaves and changes at `from` to the later time `to`.
    pub fn postpone(&mut self, from: Instant, to: Instant) {
        for leaving in self.leaving.iter_mut().filter(|leaving| leaving.at == from) {
            leaving.at = to;
        }
    }

    /// Returns the time of each leave or change that still counts.
    pub fn leaving(&self) -> impl Iterator<Item = Instant> + '_ {
        self.leaving.iter().map(|leaving| leaving.at)
    }

    /// Returns the time by which all capacity is certainly free, if nothing more is admitted;
    /// `None` if it is free already.
    pub fn free_by(&self) -> Option<Instant> {
        let mut older = OlderBusy::new();
        self.leaving.iter().map(|leaving| self.free_at(leaving, Bound::Near, &mut older)).max()
    }

    /// Returns the bandwidth of reservations that have left and still count, in parts per million.
    pub(super) fn leaving_ppm(&self) -> u64 {
        let ppm = |leaving: &Leaving<Id>| match &leaving.what {
            Counted::Reservation(reservation) => reservation.utilisation_ppm(),
            Counted::Tasks { .. } | Counted::Channel(_) | Counted::Excess { .. } => 0,
        };
        self.leaving.iter().map(ppm).sum()
    }

    /// Keeps counting the capacity of `entry`, which was removed at `now`.
    pub(super) fn linger(&mut self, id: Id, entry: &Entry, now: Instant) {
        let number = self.next_leaving();
        let what = match &entry.executed {
            Executed::Executor { cpu, tasks, .. } if !tasks.is_empty() => {
                self.cpus[*cpu].put_back_leaving(id, tasks, number);
                Counted::Tasks { id, cpu: *cpu, tasks: tasks.clone() }
            }
            Executed::Deadline { counted, .. } => {
                self.put_back_of_the_kernel(*counted);
                Counted::Reservation(*counted)
            }
            channel @ (Executed::Sending { .. } | Executed::Receiving(_)) => {
                self.carry_again(channel);
                Counted::Channel(channel.clone())
            }
            _ => return,
        };
        self.push(number, now, what);
    }

    /// Notes that the entry `id`, which changed at `now`, is counted for more than it has.
    pub(super) fn counts_more(&mut self, id: Id, now: Instant) {
        let number = self.next_leaving();
        self.push(number, now, Counted::Excess { id });
    }

    /// Forgets that `id` is counted for more than it has, because it leaves or changes again.
    /// Returns what was known about it.
    pub(super) fn counts_no_more(&mut self, id: Id) -> Option<Leaving<Id>> {
        self.entries.get(&id).filter(|entry| entry.counts_more())?;
        let is_its =
            |one: &Leaving<Id>| matches!(one.what, Counted::Excess { id: other } if other == id);
        let at = self.leaving.iter().position(is_its)?;
        Some(self.leaving.remove(at))
    }

    /// Restores the list of leaves to when `last` was the last number: frees the capacity of later
    /// leaves, and adds the `excesses` that [`Self::counts_no_more`] returned. Entries that changed
    /// later must have been removed already.
    pub(super) fn leave_as(&mut self, last: u32, excesses: Vec<Leaving<Id>>) {
        self.last_leaving = last;
        while let Some(leaving) = self.leaving.pop_if(|leaving| leaving.number > last) {
            self.free(leaving);
        }
        for excess in excesses {
            let at = self.leaving.partition_point(|one| one.number < excess.number);
            self.leaving.insert(at, excess);
        }
    }

    /// Adds to `refusal` how much longer capacity of entries that left may count, if there is any.
    pub(super) fn with_what_left(&self, refusal: Box<Refusal>) -> Box<Refusal> {
        let Some(by) = self.free_by().filter(|by| *by > self.now && *by < Instant::MAX) else {
            return refusal;
        };
        let why = format!("{}; what has left counts for up to {} more", refusal.why, by - self.now);
        Box::new(Refusal { why, ..*refusal })
    }

    fn next_leaving(&mut self) -> u32 {
        self.last_leaving += 1;
        self.last_leaving
    }

    fn push(&mut self, number: u32, at: Instant, what: Counted<Id>) {
        let not_before = at.saturating_add(Duration::from_nanos(self.pending(&what)));
        self.leaving.push(Leaving { number, at, not_before, sender_idle: None, what });
    }

    /// Frees capacity that can have no more effect.
    fn free(&mut self, leaving: Leaving<Id>) {
        match leaving.what {
            Counted::Tasks { id, cpu, tasks } => {
                self.cpus[cpu].remove_leaving(id, &tasks, leaving.number);
            }
            Counted::Reservation(reservation) => self.unreserve_above(reservation),
            Counted::Channel(channel) => self.carry_no_longer(&channel),
            Counted::Excess { id } => {
                let Some(mut entry) = self.take_out_as_counted(id) else { return };
                match &mut entry.executed {
                    Executed::Executor { tasks, own, .. } => {
                        if let Some(own) = own.take() {
                            *tasks = own;
                        }
                    }
                    Executed::Deadline { counted, reservation, .. } => *counted = *reservation,
                    Executed::Sending { channel, own, bps } => {
                        if let Some((own, carried)) = own.take().zip(self.carried.as_ref()) {
                            // At most that of what was counted.
                            *bps = carried.bps_of(&own).unwrap_or(*bps);
                            *channel = own;
                        }
                    }
                    _ => {}
                }
                self.put_back(id, entry);
            }
        }
    }

    fn is_executor_on(&self, id: Id, cpu: usize) -> bool {
        let executed = self.entries.get(&id).map(|entry| &entry.executed);
        matches!(executed, Some(Executed::Executor { cpu: other, .. }) if *other == cpu)
    }

    /// Returns whether even a rough bound on the busy periods has passed by `now`.
    fn is_surely_free(&self, leaving: &Leaving<Id>, now: Instant) -> bool {
        let passed = |time| leaving.at.saturating_add(Duration::from_nanos(time)) <= now;
        self.busy_roughly(&leaving.what).is_some_and(passed)
    }

    /// Returns a rough bound on the busy period after a leave, found without a look at each task and
    /// channel; `None` where there is none.
    fn busy_roughly(&self, what: &Counted<Id>) -> Option<u64> {
        let idle_within = |cpu: &Cpu<Id>| cpu.idle_within(self.host.wake_up.as_nanos());
        let any = |more: u64| {
            let within = self.host.wake_up.as_nanos().checked_add(more)?;
            let mut cpus = self.cpus.iter().filter(|cpu| cpu.has_tasks());
            cpus.try_fold(0, |most, cpu| Some(cpu.idle_within(within)?.max(most)))
        };
        let carried = self.carried.as_ref();
        let sender =
            || carried.map_or(Some(0), |carried| carried.idle_within(&self.above_carrier()));
        let beneath = |reservation: &Reservation| {
            Some(any(0)?.max(sender()?).max(reservation.period().as_nanos()))
        };
        // The sender, and then each CPU, as in the search.
        let with_channels = || {
            let threads = carried?.carrier().egress.cpu();
            let cpus = match self.cpus.iter().any(Cpu::has_tasks) {
                true => any(threads.budget().as_nanos())?.max(threads.period().as_nanos()),
                false => 0,
            };
            sender()?.checked_add(cpus)
        };
        match what {
            Counted::Tasks { cpu, .. } => idle_within(&self.cpus[*cpu]),
            Counted::Reservation(reservation) => beneath(reservation),
            Counted::Channel(_) => with_channels(),
            Counted::Excess { id } => match &self.entries.get(id)?.executed {
                Executed::Executor { cpu, .. } => idle_within(&self.cpus[*cpu]),
                Executed::Deadline { counted, .. } => beneath(counted),
                Executed::Sending { .. } => with_channels(),
                _ => None,
            },
        }
    }

    /// Returns the work that can be pending at a leave: no busy period after it is shorter.
    fn pending(&self, what: &Counted<Id>) -> u64 {
        let sender = self.carried.as_ref().map_or(0, CarrierLoad::pending);
        let beneath = |reservation: &Reservation| {
            let pending = self.cpus.iter().map(Cpu::pending).max();
            pending.unwrap_or(0).max(sender).max(reservation.period().as_nanos())
        };
        match what {
            Counted::Tasks { cpu, .. } => self.cpus[*cpu].pending(),
            Counted::Reservation(reservation) => beneath(reservation),
            Counted::Channel(_) => sender,
            Counted::Excess { id } => match self.entries.get(id).map(|entry| &entry.executed) {
                Some(Executed::Executor { cpu, .. }) => self.cpus[*cpu].pending(),
                Some(Executed::Deadline { counted, .. }) => beneath(counted),
                Some(Executed::Sending { .. }) => sender,
                _ => 0,
            },
        }
    }

    /// Returns a time by which the capacity of a leave is free. `older` is from leaves no later than
    /// this one; what is found here is added to it.
    fn free_at(&self, leaving: &Leaving<Id>, bound: Bound, older: &mut OlderBusy) -> Instant {
        let entry = |id| self.entries.get(id).map(|entry: &Entry| &entry.executed);
        let with_channels = match &leaving.what {
            Counted::Channel(_) => true,
            Counted::Excess { id } => matches!(entry(id), Some(Executed::Sending { .. })),
            _ => false,
        };
        if let (true, Some(idle)) = (with_channels, leaving.sender_idle) {
            let length = self.busy_beneath_channels(leaving.number);
            return length
                .map_or(Instant::MAX, |length| idle.saturating_add(Duration::from_nanos(length)));
        }
        let is_near = |rough: &u64| rough / ROUGH <= self.pending(&leaving.what);
        if bound == Bound::Near
            && let Some(rough) = self.busy_roughly(&leaving.what).filter(is_near)
        {
            return leaving.at.saturating_add(Duration::from_nanos(rough));
        }
        let pending = leaving.at.saturating_add(Duration::from_nanos(self.pending(&leaving.what)));
        if bound == Bound::Searched && pending > self.now {
            return pending;
        }
        let since = self.now.saturating_since(leaving.at).as_nanos();
        let mut on_cpu = |cpu| {
            let known = older.get(&cpu).copied();
            known.filter(|known| bound == Bound::Near || *known <= since).or_else(|| {
                let found = self.longest_busy(cpu, 0, leaving.number)?;
                older.insert(cpu, found);
                Some(found)
            })
        };
        let length = self.busy_exactly(leaving, &mut on_cpu);
        length
            .map_or(Instant::MAX, |length| leaving.at.saturating_add(Duration::from_nanos(length)))
    }

    /// Returns the busy period after a leave, by a search that looks at each task and channel;
    /// `None` if it has no end. `on_cpu` returns that of the CPU at a position.
    fn busy_exactly(
        &self,
        leaving: &Leaving<Id>,
        on_cpu: &mut dyn FnMut(usize) -> Option<u64>,
    ) -> Option<u64> {
        let mut beneath = |reservation: &Reservation| {
            let cpus = longest((0..self.cpus.len()).map(&mut *on_cpu))?;
            Some(self.sender_busy(leaving.number)?.max(cpus).max(reservation.period().as_nanos()))
        };
        match &leaving.what {
            Counted::Tasks { cpu, .. } => on_cpu(*cpu),
            Counted::Reservation(reservation) => beneath(reservation),
            Counted::Channel(_) => self.busy_with_channels(leaving.number),
            Counted::Excess { id } => match self.entries.get(id).map(|entry| &entry.executed) {
                Some(Executed::Executor { cpu, .. }) => on_cpu(*cpu),
                Some(Executed::Deadline { counted, .. }) => beneath(counted),
                Some(Executed::Sending { .. }) => self.busy_with_channels(leaving.number),
                _ => Some(0),
            },
        }
    }

    /// Returns the longest time until the sender has been idle, and then each CPU.
    fn busy_with_channels(&self, number: u32) -> Option<u64> {
        self.sender_busy(number)?.checked_add(self.busy_beneath_channels(number)?)
    }

    /// Returns the longest time until each CPU has been idle since the sender was.
    fn busy_beneath_channels(&self, number: u32) -> Option<u64> {
        let Some(carried) = &self.carried else { return Some(0) };
        if !self.cpus.iter().any(Cpu::has_tasks) {
            return Some(0);
        }
        let threads = carried.carrier().egress.cpu();
        // The threads may have a budget of work pending.
        let pending = threads.budget().as_nanos();
        let cpus = 0..self.cpus.len();
        let cpus = longest(cpus.map(|cpu| self.longest_busy(cpu, pending, number)))?;
        Some(cpus.max(threads.period().as_nanos()))
    }

    /// Returns the longest time for which thread and link can stay busy with channels.
    fn sender_busy(&self, number: u32) -> Option<u64> {
        let Some(carrier) = self.carried.as_ref().map(CarrierLoad::carrier) else {
            return Some(0);
        };
        let egress = carrier.egress;
        let looks_within = egress.looks_within().as_nanos();
        let (mut pending, mut stays) = (0_u64, Vec::new());
        let mut count = |channel: &Channel, still: Option<&Channel>| {
            let task = egress.task(channel);
            let jobs = task.deadline.checked_add(looks_within)?.div_ceil(task.period);
            pending = pending.checked_add(jobs.checked_mul(task.work)?)?;
            stays.extend(still.map(|still| egress.task(still)));
            Some(())
        };
        let more = self.more_than_own_by(number);
        for (id, entry) in &self.entries {
            if let Executed::Sending { channel, own, .. } = &entry.executed {
                let own = own.as_ref().filter(|_| more.binary_search(id).is_ok());
                count(channel, Some(own.unwrap_or(channel)))?;
            }
        }
        for other in &self.leaving {
            if let Some(Executed::Sending { channel, .. }) = other.channel() {
                count(channel, (other.number > number).then_some(&**channel))?;
            }
        }
        if pending == 0 {
            return Some(0);
        }
        let mut above = self.above_carrier();
        for gone in self.reservations_left_by(number) {
            if let Some(at) = above.reservations.iter().position(|one| *one == gone) {
                above.reservations.swap_remove(at);
            }
        }
        let at_once = pending.checked_add(looks_within)?.checked_add(egress.once().as_nanos())?;
        end(at_once, &stays, &above.loads(carrier.change))
    }

    /// Returns the reservations that left no later than as the one with this number.
    fn reservations_left_by(&self, number: u32) -> impl Iterator<Item = Reservation> + '_ {
        self.leaving.iter().filter(move |one| one.number <= number).filter_map(|one| {
            match one.what {
                Counted::Reservation(reservation) => Some(reservation),
                _ => None,
            }
        })
    }

    /// Returns the longest time, in nanoseconds, for which a CPU can stay busy after the leave with
    /// this number, if so much work of threads above the tasks was `pending`. Returns `None` if it
    /// is unbounded.
    fn longest_busy(&self, cpu: usize, mut pending: u64, number: u32) -> Option<u64> {
        let mut stays = Vec::new();
        let mut count = |tasks: &[TaskLoad], still: &[TaskLoad]| {
            for task in tasks {
                let jobs = task.deadline.div_ceil(task.period);
                pending = pending.checked_add(jobs.checked_mul(task.most())?)?;
            }
            stays.extend_from_slice(still);
            Some(())
        };
        let more = self.more_than_own_by(number);
        for (id, entry) in &self.entries {
            if let Executed::Executor { cpu: on, tasks, own } = &entry.executed
                && *on == cpu
            {
                let still = own.as_ref().filter(|_| more.binary_search(id).is_ok());
                count(tasks, still.unwrap_or(tasks))?;
            }
        }
        for other in &self.leaving {
            if let Counted::Tasks { cpu: on, tasks, .. } = &other.what
                && *on == cpu
            {
                count(tasks, if other.number > number { tasks } else { &[] })?;
            }
        }
        if pending == 0 {
            return Some(0);
        }
        let mut above = self.cpus[cpu].above().to_vec();
        for reservation in self.reservations_left_by(number) {
            let gone = self.load_of(reservation);
            if let Some(at) = above.iter().position(|one| one.is_alike(&gone)) {
                above.swap_remove(at);
            }
        }
        end(pending.checked_add(self.host.wake_up.as_nanos())?, &stays, &above)
    }

    /// Returns the entries that shrank no later than the leave with this number, in order.
    fn more_than_own_by(&self, number: u32) -> Vec<Id> {
        let of = |one: &Leaving<Id>| match one.what {
            Counted::Excess { id } if one.number <= number => Some(id),
            _ => None,
        };
        let mut all: Vec<Id> = self.leaving.iter().filter_map(of).collect();
        all.sort_unstable();
        all
    }
}

/// Returns the longest of busy periods; `None` if one has no end.
fn longest(mut all: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    all.try_fold(0, |most, one| Some(one?.max(most)))
}

/// Returns some `w ≥ at_once + Σ ⌈(w + J)/T⌉·C + Σ I_r(w)`: the least one if the search finds it
/// soon, or else at most about twice as much.
fn end(at_once: u64, tasks: &[TaskLoad], above: &[ReservedLoad]) -> Option<u64> {
    let mut length = at_once;
    for round in 0.. {
        let of_tasks = tasks.iter().try_fold(at_once, |sum, task| {
            sum.checked_add(task.arrivals_in(length)?.checked_mul(task.most())?)
        })?;
        let next = of_tasks.checked_add(interference_of(above, length)?)?;
        if next <= length {
            break;
        }
        // Doubling ends, because 64 bits overflow.
        length = if round < ROUNDS { next } else { next.checked_mul(2)? };
    }
    Some(length)
}

/// Returns the tasks for which an executor counts while it changes from `old` to `new`; `None` if
/// these are `new` alone.
pub(super) fn in_between(old: &[TaskLoad], new: &[TaskLoad]) -> Option<Box<[TaskLoad]>> {
    let mut old: Vec<Option<TaskLoad>> = old.iter().copied().map(Some).collect();
    let mut both: Vec<Option<TaskLoad>> = new.iter().map(|_| None).collect();
    let same: [fn(&TaskLoad, &TaskLoad) -> bool; 2] =
        [|old, new| old == new, |old, new| old.period == new.period];
    for is_same in same {
        for (both, new) in both.iter_mut().zip(new).filter(|(both, _)| both.is_none()) {
            let same = old.iter_mut().find(|old| old.is_some_and(|old| is_same(&old, new)));
            *both = same.and_then(Option::take).map(|old| larger(old, *new));
        }
    }
    let kept = both.iter().zip(new).map(|(both, new)| both.unwrap_or(*new));
    let all: Box<[TaskLoad]> = kept.chain(old.into_iter().flatten()).collect();
    (*all != *new).then_some(all)
}

/// Returns a task of the same period that covers every job of both.
fn larger(one: TaskLoad, other: TaskLoad) -> TaskLoad {
    TaskLoad {
        work: one.work.max(other.work),
        wcet: one.wcet.max(other.wcet),
        high: one.high.max(other.high),
        period: one.period,
        deadline: one.deadline.min(other.deadline),
        jitter: one.jitter.max(other.jitter),
        quantum: one.quantum.max(other.quantum),
        // The least work with which both end.
        last: one.last.min(other.last),
    }
}

/// Returns a channel of which any sequence of messages of `old` and then of `new` could be.
pub(super) fn larger_channel(old: &Channel, new: &Channel) -> Channel {
    let (one, other) = (old.arrivals(), new.arrivals());
    let least = one.min_message().min(other.min_message());
    let most = one.max_message().max(other.max_message());
    let spacing = one.min_inter_arrival().min(other.min_inter_arrival());
    let burst = one.max_burst().max(other.max_burst());
    let delay = old.delay_bound().min(new.delay_bound());
    let both = LinearBounded::new(least, most, spacing, burst).expect("both are valid");
    if (both, delay) == (new.arrivals(), new.delay_bound()) {
        return new.clone();
    }
    Channel::new(new.name(), &both.into(), delay).expect("both are valid")
}

/// Returns a reservation that interferes with the layers below at least as much as one that is
/// `old` and then `new`. It has the larger share and the larger budget.
pub(super) fn larger_reservation(old: Reservation, new: Reservation) -> Reservation {
    let nanos = |one: Reservation| (one.budget().as_nanos(), one.period().as_nanos());
    let ((x, y), (other_x, other_y)) = (nanos(old), nanos(new));
    let budget = x.max(other_x);
    let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
    let (share_x, share_y) =
        if product(x, other_y) >= product(other_x, y) { (x, y) } else { (other_x, other_y) };
    let period = product(budget, share_y) / u128::from(share_x);
    let period = u64::try_from(period).unwrap_or(u64::MAX);
    // The share is at most one, so the budget is at most the period.
    Reservation::new(Service::from_nanos(budget), Duration::from_nanos(period)).unwrap_or(new)
}

#[cfg(test)]
mod tests;
