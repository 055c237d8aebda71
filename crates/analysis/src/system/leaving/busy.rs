//! The busy period after a leave: the time until what it affects has been idle.
//!
//! With `f(w)` the right side of the inequality of the module above, every w with `f(w) ≤ w` is a
//! bound, and so is `f(w)` then, because f never falls. So one look at all tasks answers whether a
//! bound has passed: whether `f(t) ≤ t`, t after the leave. If not, none lies between t and `f(t)`.
//!
//! A bound for a leave serves each later one: fewer of the entries that have left stay there, so
//! its f is no larger.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use punctual_model::{Duration, Instant, Reservation};

use super::{Counted, Leaving};
use crate::load::TaskLoad;
use crate::reservation::{ReservedLoad, interference_of};
use crate::system::cpu::Cpu;
use crate::system::{CarrierLoad, Executed, System};

/// The plain rounds of the search for the end of a busy period, before it doubles each step. In the
/// unit tests there are so many that it always finds the least.
const ROUNDS: usize = if cfg!(test) { 1_000_000 } else { 24 };

/// With fewer entries than this a look begins with a search for the least bound, in up to so many
/// rounds. With more of them f is so smooth that `f(t) ≤ t` nearly always decides.
const FEW: usize = 256;
const ROUNDS_AMONG_FEW: usize = 24;

/// The rounds in which a bound for the sender is made shorter.
const SHORTER: u32 = 8;

/// A leave is not looked at again before its age has grown by one part in so many, so it takes few
/// looks, however slowly `f(t)` approaches t.
const OLDER: u64 = 8;

/// The looks in vain of one pass. More leaves that are due wait for the next pass: the oldest are
/// looked at first, and are nearly always free first.
pub(super) const IN_VAIN: usize = 4;

/// A rough bound of at most this many times the pending work is good enough to be stated: the
/// search for a better one looks at every task of the CPU.
pub(super) const ROUGH: u64 = 8;

/// A part of a host that is busy with what has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Resource {
    /// The CPU at a position, if threads above its tasks can have so much `pending`.
    Cpu { cpu: usize, pending: u64 },
    /// The thread and the link of the channels.
    Sender,
}

/// The bounds found so far in one pass over the leaves, from the oldest on.
pub(super) type Known = BTreeMap<Resource, u64>;

/// The longest time for which a resource is busy, in nanoseconds, or else a time before which it may
/// be.
type Busy = Result<u64, u64>;

impl<Id: Copy + Ord> System<Id> {
    /// Returns whether the capacity of a leave is certainly free now, without a look at each task and
    /// channel.
    pub(super) fn is_surely_free(&self, leaving: &Leaving<Id>) -> bool {
        let passed = |busy| leaving.since().saturating_add(Duration::from_nanos(busy)) <= self.now;
        self.roughly_after(leaving).is_ok_and(passed)
    }

    /// Returns the time at which the capacity of a leave is free, if that is now, or else the time of
    /// the next look at it.
    pub(super) fn look(&self, leaving: &Leaving<Id>, known: &mut Known) -> Instant {
        let since = leaving.since();
        let age = self.now.saturating_since(since).as_nanos();
        let found = self.busy(leaving, &mut |resource, before| {
            let within = age.saturating_sub(before);
            let found = self.shortest_found(resource, leaving.number, within, known);
            if found <= within { Ok(found) } else { Err(before.saturating_add(found)) }
        });
        match found {
            Ok(busy) if busy <= age => self.now,
            Ok(next) | Err(next) => {
                let next = next.max(age.saturating_add(age / OLDER));
                let rough = self.roughly_after(leaving).unwrap_or(u64::MAX);
                since.saturating_add(Duration::from_nanos(next.min(rough)))
            }
        }
    }

    /// Returns a time by which the capacity of a leave is certainly free.
    pub(super) fn free_at(&self, leaving: &Leaving<Id>, known: &mut Known) -> Instant {
        let is_near = |rough: &u64| rough / ROUGH <= self.pending_after(leaving);
        let busy = self
            .roughly_after(leaving)
            .ok()
            .filter(is_near)
            .or_else(|| self.searched(leaving, known).ok());
        busy.map_or(Instant::MAX, |busy| leaving.since().saturating_add(Duration::from_nanos(busy)))
    }

    /// Returns the time after a leave at which the first look at it is worth it. Among many entries
    /// that is halfway between the pending work and the rough bound, where the busy period about
    /// ends.
    pub(super) fn first_look(&self, leaving: &Leaving<Id>) -> u64 {
        let pending = self.pending_after(leaving);
        match self.roughly_after(leaving) {
            Ok(rough) if !self.are_few() => pending.midpoint(rough),
            _ => pending,
        }
    }

    fn are_few(&self) -> bool {
        self.entries.len() + self.leaving.len() < FEW
    }

    /// Returns the work that can be pending at a leave: no busy period after it is shorter.
    pub(super) fn pending_after(&self, leaving: &Leaving<Id>) -> u64 {
        let (Ok(pending) | Err(pending)) =
            self.busy(leaving, &mut |resource, _| Ok(self.pending_of(resource)));
        pending
    }

    /// Returns a bound on the busy period after a leave, found without a look at each task and
    /// channel.
    pub(super) fn roughly_after(&self, leaving: &Leaving<Id>) -> Busy {
        self.busy(leaving, &mut |resource, _| self.roughly(resource))
    }

    /// Returns the busy period after a leave, by a search that looks at each task and channel, or
    /// one that was found for an older leave.
    pub(super) fn searched(&self, leaving: &Leaving<Id>, known: &mut Known) -> Busy {
        self.busy(leaving, &mut |resource, _| match known.get(&resource) {
            Some(known) => Ok(*known),
            None => {
                let found = end(|window| self.work_by(resource, leaving.number, window))?;
                known.insert(resource, found);
                Ok(found)
            }
        })
    }

    /// Returns the busy period after a leave, where `of` returns that of a resource: it is given the
    /// time that has passed before the resource is waited for.
    fn busy(&self, leaving: &Leaving<Id>, of: &mut dyn FnMut(Resource, u64) -> Busy) -> Busy {
        let on_cpu = |cpu| Resource::Cpu { cpu, pending: 0 };
        let beneath = |reservation: &Reservation, of: &mut dyn FnMut(Resource, u64) -> Busy| {
            let all = (0..self.cpus.len()).map(on_cpu).chain([Resource::Sender]);
            let servers = self.servers.iter().map(|one| one.period());
            let least = servers.fold(reservation.period().as_nanos(), u64::max);
            all.map(|resource| of(resource, 0)).try_fold(least, |most, one| Ok(most.max(one?)))
        };
        let beneath_server = |cpu: u16, of: &mut dyn FnMut(Resource, u64) -> Busy| {
            let least = self.longest_period_of_servers(cpu);
            match self.position_of(cpu) {
                Some(cpu) => Ok(least.max(of(on_cpu(cpu), 0)?)),
                None => Ok(least),
            }
        };
        match &leaving.what {
            Counted::Tasks { cpu, .. } => of(on_cpu(*cpu), 0),
            Counted::Reservation(reservation) => beneath(reservation, of),
            Counted::Server { cpu, .. } => beneath_server(*cpu, of),
            Counted::Channel(_) => self.busy_with_channels(leaving, of),
            Counted::Excess { id } => match self.entries.get(id).map(|entry| &entry.executed) {
                Some(Executed::Executor { cpu, .. }) => of(on_cpu(*cpu), 0),
                Some(Executed::Deadline { counted, .. }) => beneath(counted, of),
                Some(Executed::Server { cpu, .. }) => beneath_server(*cpu, of),
                Some(Executed::Sending { .. }) => self.busy_with_channels(leaving, of),
                _ => Ok(0),
            },
        }
    }

    /// Returns the time until the sender has been idle, if that is not known, and then each CPU.
    fn busy_with_channels(
        &self,
        leaving: &Leaving<Id>,
        of: &mut dyn FnMut(Resource, u64) -> Busy,
    ) -> Busy {
        let sender = if leaving.sender_idle.is_some() { 0 } else { of(Resource::Sender, 0)? };
        let Some(carried) = self.carried.as_ref().filter(|_| self.cpus.iter().any(Cpu::has_tasks))
        else {
            return Ok(sender);
        };
        let threads = carried.carrier().egress.cpu();
        // The threads may have a budget of work pending.
        let pending = threads.budget().as_nanos();
        let mut cpus = threads.period().as_nanos();
        for cpu in 0..self.cpus.len() {
            cpus = cpus.max(of(Resource::Cpu { cpu, pending }, sender)?);
        }
        sender.checked_add(cpus).ok_or(u64::MAX)
    }

    /// Returns a bound from sums: up to about twice the longest busy period, and more where entries
    /// that have left are a large part.
    fn roughly(&self, resource: Resource) -> Busy {
        if self.pending_of(resource) == 0 {
            return Ok(0);
        }
        let bound = match resource {
            Resource::Cpu { cpu, pending } => {
                let more = self.host.wake_up.as_nanos().checked_add(pending);
                more.and_then(|more| self.cpus[cpu].idle_within(more))
            }
            Resource::Sender => {
                self.carried.as_ref().and_then(|all| all.idle_within(&self.above_carrier()))
            }
        };
        bound.ok_or(u64::MAX)
    }

    fn pending_of(&self, resource: Resource) -> u64 {
        match resource {
            Resource::Cpu { cpu, pending } => self.cpus[cpu].pending().saturating_add(pending),
            Resource::Sender => self.carried.as_ref().map_or(0, CarrierLoad::pending),
        }
    }

    /// Returns a bound of at most `within`, if one look finds it, or else a longer time: no bound lies
    /// between.
    fn shortest_found(
        &self,
        resource: Resource,
        number: u32,
        within: u64,
        known: &mut Known,
    ) -> u64 {
        if let Some(known) = known.get(&resource).filter(|known| **known <= within) {
            return *known;
        }
        let work_by = |window| self.work_by(resource, number, window);
        let searched = if self.are_few() { least(work_by, ROUNDS_AMONG_FEW).ok() } else { None };
        let next = work_by(within).unwrap_or(u64::MAX);
        let found = searched.or(Some(next)).filter(|bound| *bound <= within);
        let Some(mut bound) = found else { return next };
        if resource == Resource::Sender {
            // The CPUs are waited for after it.
            for _ in 0..SHORTER {
                bound = work_by(bound).unwrap_or(bound);
            }
        }
        known.insert(resource, bound);
        bound
    }

    /// Returns the load above the tasks of a CPU that stays after the leave with this number.
    fn stays_above(&self, cpu: usize, number: u32) -> Vec<ReservedLoad> {
        let gone = self.reservations_left_by(number).map(|gone| self.load_of(gone));
        without(self.cpus[cpu].above(), gone, ReservedLoad::is_alike)
    }

    /// Returns the load above the sender that stays after the leave with this number.
    fn stays_above_sender(&self, carried: &CarrierLoad, number: u32) -> Vec<ReservedLoad> {
        let mut above = self.above_carrier();
        let gone = self.reservations_left_by(number);
        above.reservations = without(&above.reservations, gone, Reservation::eq);
        above.loads(carried.carrier().change)
    }

    /// Returns the right side of the inequality for a window after the leave with this number.
    fn work_by(&self, resource: Resource, number: u32, window: u64) -> Option<u64> {
        if self.pending_of(resource) == 0 {
            return Some(0);
        }
        match resource {
            Resource::Cpu { cpu, pending } => self.work_on(cpu, pending, number, window),
            Resource::Sender => self.work_of_sender(number, window),
        }
    }

    fn work_on(&self, cpu: usize, pending: u64, number: u32, window: u64) -> Option<u64> {
        let on = &self.cpus[cpu];
        let at_once = on.pending().checked_add(pending)?;
        let at_once = at_once.checked_add(self.host.wake_up.as_nanos())?;
        let most = |tasks: &[TaskLoad]| {
            tasks.iter().map(|task| task.most_in(window)).fold(0, u128::saturating_add)
        };
        let mut stays = on.most_in(window)?;
        for gone in self.left_by(number) {
            let gone = match gone {
                Counted::Tasks { cpu: other, tasks, .. } if *other == cpu => most(tasks),
                Counted::Excess { id } => match self.entries.get(id).map(|one| &one.executed) {
                    Some(Executed::Executor { cpu: other, tasks, own: Some(own) })
                        if *other == cpu =>
                    {
                        most(tasks).saturating_sub(most(own))
                    }
                    _ => 0,
                },
                _ => 0,
            };
            stays = stays.saturating_sub(gone);
        }
        let above = interference_of(&self.stays_above(cpu, number), window)?;
        at_once.checked_add(u64::try_from(stays).ok()?)?.checked_add(above)
    }

    fn work_of_sender(&self, number: u32, window: u64) -> Option<u64> {
        let carried = self.carried.as_ref()?;
        let carrier = carried.carrier();
        let egress = carrier.egress;
        let mut work = carried.pending().checked_add(egress.looks_within().as_nanos())?;
        work = work.checked_add(egress.once().as_nanos())?;
        let mut count = |channel| {
            work = work.checked_add(u64::try_from(egress.task(channel).most_in(window)).ok()?)?;
            Some(())
        };
        let mut shrunk: Vec<Id> = self
            .left_by(number)
            .filter_map(|what| match what {
                Counted::Excess { id } => Some(*id),
                _ => None,
            })
            .collect();
        shrunk.sort_unstable();
        for (id, entry) in &self.entries {
            if let Executed::Sending { channel, own, .. } = &entry.executed {
                let own = own.as_ref().filter(|_| shrunk.binary_search(id).is_ok());
                count(own.unwrap_or(channel))?;
            }
        }
        for other in self.leaving.iter().filter(|other| other.number > number) {
            if let Some(Executed::Sending { channel, .. }) = other.channel() {
                count(channel)?;
            }
        }
        work.checked_add(interference_of(&self.stays_above_sender(carried, number), window)?)
    }

    /// Returns what had left or shrunk when the leave with this number did, itself included.
    fn left_by(&self, number: u32) -> impl Iterator<Item = &Counted<Id>> {
        self.leaving.iter().take_while(move |one| one.number <= number).map(|one| &one.what)
    }

    fn reservations_left_by(&self, number: u32) -> impl Iterator<Item = Reservation> + '_ {
        self.left_by(number).filter_map(|what| match what {
            Counted::Reservation(reservation) => Some(*reservation),
            _ => None,
        })
    }
}

/// Returns the least `w` with `work_by(w) ≤ w`, or a lower bound on it if `rounds` do not find it.
fn least(work_by: impl Fn(u64) -> Option<u64>, rounds: usize) -> Busy {
    let (mut least, overflow) = (0, u64::MAX);
    for _ in 0..=rounds {
        let next = work_by(least).ok_or(overflow)?;
        if next <= least {
            return Ok(least);
        }
        least = next;
    }
    Err(least)
}

/// Returns some `w` with `work_by(w) ≤ w`: the least one if the search finds it soon, or else at
/// most about twice as much. Fails if there is none in 64 bits.
fn end(work_by: impl Fn(u64) -> Option<u64>) -> Busy {
    let mut bound = match least(&work_by, ROUNDS) {
        Err(least) => least,
        found => return found,
    };
    // Doubling ends, because 64 bits overflow.
    while work_by(bound).ok_or(u64::MAX)? > bound {
        bound = bound.checked_mul(2).ok_or(u64::MAX)?;
    }
    Ok(bound)
}

/// Returns `all` without one like each of `gone`.
fn without<T: Copy>(
    all: &[T],
    gone: impl Iterator<Item = T>,
    is_alike: impl Fn(&T, &T) -> bool,
) -> Vec<T> {
    let mut rest = all.to_vec();
    for gone in gone {
        if let Some(at) = rest.iter().position(|one| is_alike(one, &gone)) {
            rest.swap_remove(at);
        }
    }
    rest
}
