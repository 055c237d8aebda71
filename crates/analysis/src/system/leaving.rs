//! Entries that leave while the others run, and when what they took is free.
//!
//! What a task did before it left can still be felt: a job that waited for it has so much less time left. If another
//! task gets its place at once, that job waits for both. With 5 ms every 10 ms above 10 ms every 20 ms on one CPU, the
//! first may leave at 5 ms, after its job, and one like it join: the second waits for jobs at 0, 5 and 15 ms, and is late,
//! though either pair is in time for ever. So [`System::retire`] keeps counting what left until it cannot be felt any
//! more, and [`System::exchange`] does the same with what is changed.
//!
//! # When it is free
//! At the first *idle instant* at or after the leaving: one at which no job on the CPU is known and not complete. No busy
//! period sees anything from before it (Tindell & Alonso, "A Very Simple Protocol for Mode Changes in Priority
//! Preemptive Systems", 1996; Real & Crespo, Real-Time Systems 26, 2004, §3). It holds under every policy that does not
//! idle while there is work. To wait for the deadline or the next release of the last job is not enough: under fixed
//! priorities a window may hold many jobs of the old task and then many of the new one (Pedro & Burns, "Schedulability
//! Analysis for Mode Changes in Flexible Real-Time Systems", 1998), and under earliest deadlines first it is enough only
//! if every deadline is its period.
//!
//! Where nobody sees the idle instant, there has been one once time has passed that no busy period outlasts. At the
//! leaving, at t, at most `⌈D_j/T_j⌉` jobs of each task are pending, because none is late. So the CPU has been idle at
//! t + w, for any
//!
//! ```text
//! w ≥ wake-up + Σ_all ⌈D_j/T_j⌉·C_j + Σ_stays ⌈(w + J_j)/T_j⌉·C_j + Σ_r I_r(w)
//! ```
//!
//! # Why nothing admitted is late
//! Take a busy period of a CPU, and the last admission in it. Everything with a job in it was counted at that admission:
//! what left before it, in the busy period, is counted until an idle instant, and there is none. So all of these tasks
//! passed the test together, and each job of the busy period is one of a schedule that the test covers, with some
//! tasks released for the first time later than others, and no more from some instant on. The bound above may be used,
//! because up to then no job was late.
//!
//! A reservation of the kernel's that leaves is counted until that instant on every CPU, and at least for a period: the
//! kernel too counts it up to its last deadline, and the bound on shares holds for the reservations whose deadlines are
//! not over (Goossens, Funk & Baruah, Real-Time Systems 25, 2003).
//!
//! # What is changed
//! Until then a task that keeps its period counts with the larger work, and a reservation with the larger budget and the
//! larger share; a task that does not counts twice, as the old one and as the new one. So what shrinks is never refused.
//!
//! # Assumptions
//! What left has no more releases, and what it had pending is done or dropped. Channels do not wait: their capacity on
//! the link is free at once.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use punctual_model::{Duration, Instant, Reservation, Service};

use super::{Entry, Executed, System};
use crate::load::TaskLoad;
use crate::reservation::{ReservedLoad, interference_of};
use crate::verdict::Refusal;

/// Plain rounds of the search for the end of a busy period, before it doubles what it tries.
const ROUNDS: u32 = 24;

/// Something that is counted and is no more.
#[derive(Clone, Debug)]
pub(super) struct Leaving<Id> {
    /// One more for each.
    pub(super) number: u32,
    at: Instant,
    /// It is not free before this.
    not_before: Instant,
    what: Left<Id>,
}

#[derive(Clone, Debug)]
enum Left<Id> {
    Tasks {
        id: Id,
        cpu: usize,
        tasks: Box<[TaskLoad]>,
    },
    /// Of the kernel's.
    Reservation(Reservation),
    /// Of an entry that counts for more than it has, because it had more.
    More {
        id: Id,
    },
}

impl<Id: Copy + Ord> System<Id> {
    /// Takes an entry out whose last job was released before `now`, and says whether it was there. What it took is free
    /// once none of its jobs can be felt any more, which [`Self::settle`] finds out.
    ///
    /// Of a channel, and of what a timetable holds, it is free at once.
    pub fn retire(&mut self, id: Id, now: Instant) -> bool {
        let Some(entry) = self.take_out(id) else { return false };
        self.linger(id, &entry, now);
        true
    }

    /// Has time come to `now`: what left long enough ago is free. Says whether there was any. To be called before a
    /// request, because nothing is free without it.
    pub fn settle(&mut self, now: Instant) -> bool {
        self.now = self.now.max(now);
        let before = self.leaving.len();
        let mut at = 0;
        while let Some(leaving) = self.leaving.get(at) {
            let not_before = match leaving.not_before {
                early if early <= now => self.free_at(leaving),
                later => later,
            };
            if not_before <= now {
                let leaving = self.leaving.remove(at);
                self.free(leaving);
            } else {
                self.leaving[at].not_before = not_before;
                at += 1;
            }
        }
        self.leaving.len() < before
    }

    /// Takes out what [`Self::reserve_above`] put there, as [`Self::retire`] does with an entry.
    pub fn retire_above(&mut self, reservation: Reservation, now: Instant) {
        let number = self.next_leaving();
        self.push(number, now, Left::Reservation(reservation));
    }

    /// Frees what left executors of the CPU at a position not after `at`, when no job of any of its executors was known
    /// and not complete.
    pub fn idle(&mut self, cpu: u16, at: Instant) {
        let is_over = |leaving: &Leaving<Id>| {
            leaving.at <= at
                && match &leaving.what {
                    Left::Tasks { cpu: other, .. } => *other == usize::from(cpu),
                    Left::More { id } => self.is_executor_on(*id, cpu.into()),
                    Left::Reservation(_) => false,
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

    /// What left or changed as of `from` has done so only at `to`.
    pub fn postpone(&mut self, from: Instant, to: Instant) {
        for leaving in self.leaving.iter_mut().filter(|leaving| leaving.at == from) {
            leaving.at = to;
        }
    }

    /// Returns when each that still counts has left or changed.
    pub fn leaving(&self) -> impl Iterator<Item = Instant> + '_ {
        self.leaving.iter().map(|leaving| leaving.at)
    }

    /// Returns by when all that has left is surely free, if nothing more is admitted; `None`: it is free.
    pub fn free_by(&self) -> Option<Instant> {
        self.leaving.iter().map(|leaving| self.free_at(leaving)).max()
    }

    /// Returns what reservations still take that are no more, in parts per million.
    pub(super) fn leaving_ppm(&self) -> u64 {
        let ppm = |leaving: &Leaving<Id>| match &leaving.what {
            Left::Reservation(reservation) => reservation.utilisation_ppm(),
            Left::Tasks { .. } | Left::More { .. } => 0,
        };
        self.leaving.iter().map(ppm).sum()
    }

    /// Counts on what `entry` took, which was taken out at `now`.
    pub(super) fn linger(&mut self, id: Id, entry: &Entry, now: Instant) {
        self.counts_no_more(id);
        let number = self.next_leaving();
        let what = match &entry.executed {
            Executed::Executor { cpu, tasks, .. } if !tasks.is_empty() => {
                self.cpus[*cpu].put_back_leaving(id, tasks, number);
                Left::Tasks { id, cpu: *cpu, tasks: tasks.clone() }
            }
            Executed::Deadline { counted, .. } => {
                self.put_back_of_the_kernel(*counted);
                Left::Reservation(*counted)
            }
            _ => return,
        };
        self.push(number, now, what);
    }

    /// The entry `id`, which has changed at `now`, counts for more than it has.
    pub(super) fn counts_more(&mut self, id: Id, now: Instant) {
        let number = self.next_leaving();
        self.push(number, now, Left::More { id });
    }

    /// Forgets that `id` counts for more than it has: it goes, or changes again.
    pub(super) fn counts_no_more(&mut self, id: Id) {
        self.leaving.retain(|one| !matches!(one.what, Left::More { id: other } if other == id));
    }

    /// Has left what had left `before`, and counts nothing that has left since. What has changed since is taken out
    /// already.
    pub(super) fn leave_as(&mut self, before: Vec<Leaving<Id>>) {
        let since = before.last().map_or(0, |last| last.number);
        for leaving in core::mem::replace(&mut self.leaving, before) {
            if leaving.number > since && !matches!(leaving.what, Left::More { .. }) {
                self.free(leaving);
            }
        }
    }

    /// Says in `refusal` for how long what has left may count, if anything does.
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

    fn push(&mut self, number: u32, at: Instant, what: Left<Id>) {
        self.leaving.push(Leaving { number, at, not_before: at, what });
    }

    /// Takes out what cannot be felt any more.
    fn free(&mut self, leaving: Leaving<Id>) {
        match leaving.what {
            Left::Tasks { id, cpu, tasks } => {
                self.cpus[cpu].remove_leaving(id, &tasks, leaving.number);
            }
            Left::Reservation(reservation) => self.unreserve_above(reservation),
            Left::More { id } => {
                let Some(mut entry) = self.take_out(id) else { return };
                match &mut entry.executed {
                    Executed::Executor { tasks, own, .. } => {
                        if let Some(own) = own.take() {
                            *tasks = own;
                        }
                    }
                    Executed::Deadline { counted, reservation, .. } => *counted = *reservation,
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

    fn free_at(&self, leaving: &Leaving<Id>) -> Instant {
        let length = match &leaving.what {
            Left::Tasks { cpu, .. } => self.longest_busy(*cpu, leaving.number),
            Left::Reservation(reservation) => self.busy_beneath(*reservation, leaving.number),
            Left::More { id } => match self.entries.get(id).map(|entry| &entry.executed) {
                Some(Executed::Executor { cpu, .. }) => self.longest_busy(*cpu, leaving.number),
                Some(Executed::Deadline { counted, .. }) => {
                    self.busy_beneath(*counted, leaving.number)
                }
                _ => Some(0),
            },
        };
        length
            .map_or(Instant::MAX, |length| leaving.at.saturating_add(Duration::from_nanos(length)))
    }

    fn busy_beneath(&self, reservation: Reservation, number: u32) -> Option<u64> {
        let busy = (0..self.cpus.len()).map(|cpu| self.longest_busy(cpu, number));
        busy.chain([Some(reservation.period().as_nanos())])
            .try_fold(0, |most, one| Some(one?.max(most)))
    }

    /// Returns for how long a CPU can be busy without a break from the instant on at which what has this number left;
    /// `None`: for ever.
    fn longest_busy(&self, cpu: usize, number: u32) -> Option<u64> {
        let (mut pending, mut stays) = (0_u64, Vec::new());
        let mut count = |tasks: &[TaskLoad], still: &[TaskLoad]| {
            for task in tasks {
                let jobs = task.deadline.div_ceil(task.period);
                pending = pending.checked_add(jobs.checked_mul(most(task))?)?;
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
            if let Left::Tasks { cpu: on, tasks, .. } = &other.what
                && *on == cpu
            {
                count(tasks, if other.number > number { tasks } else { &[] })?;
            }
        }
        if pending == 0 {
            return Some(0);
        }
        let mut above = self.cpus[cpu].above().to_vec();
        for other in self.leaving.iter().filter(|other| other.number <= number) {
            if let Left::Reservation(reservation) = &other.what {
                let gone = self.load_of(*reservation);
                if let Some(at) = above.iter().position(|one| one.is_alike(&gone)) {
                    above.swap_remove(at);
                }
            }
        }
        end(pending.checked_add(self.host.wake_up.as_nanos())?, &stays, &above)
    }

    /// Returns the entries that have had less than they count for since what has this number left, in order.
    fn more_than_own_by(&self, number: u32) -> Vec<Id> {
        let of = |one: &Leaving<Id>| match one.what {
            Left::More { id } if one.number <= number => Some(id),
            _ => None,
        };
        let mut all: Vec<Id> = self.leaving.iter().filter_map(of).collect();
        all.sort_unstable();
        all
    }
}

/// The most that a job of `task` may take.
fn most(task: &TaskLoad) -> u64 {
    task.work.max(task.high)
}

/// Returns some `w ≥ at_once + Σ ⌈(w + J)/T⌉·C + Σ I_r(w)`: the least one if that is found soon, else at most about twice
/// as much.
fn end(at_once: u64, tasks: &[TaskLoad], above: &[ReservedLoad]) -> Option<u64> {
    let mut length = at_once;
    for round in 0.. {
        let of_tasks = tasks.iter().try_fold(at_once, |sum, task| {
            sum.checked_add(task.arrivals_in(length)?.checked_mul(most(task))?)
        })?;
        let next = of_tasks.checked_add(interference_of(above, length)?)?;
        if next <= length {
            break;
        }
        // Doubling ends by 64 bits.
        length = if round < ROUNDS { next } else { next.checked_mul(2)? };
    }
    Some(length)
}

/// Returns what an executor that had `old` and has `new` counts for in between; `None`: `new` alone.
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

/// Returns a task of the same period of which the jobs of both are jobs.
fn larger(one: TaskLoad, other: TaskLoad) -> TaskLoad {
    TaskLoad {
        work: one.work.max(other.work),
        wcet: one.wcet.max(other.wcet),
        high: one.high.max(other.high),
        period: one.period,
        deadline: one.deadline.min(other.deadline),
        jitter: one.jitter.max(other.jitter),
        quantum: one.quantum.max(other.quantum),
        // No more than both end with.
        last: one.last.min(other.last),
    }
}

/// Returns a reservation that takes, of whatever runs below it, no less than one that is `old` and then `new`: its share
/// and its budget are the larger ones.
pub(super) fn larger_reservation(old: Reservation, new: Reservation) -> Reservation {
    let nanos = |one: Reservation| (one.budget().as_nanos(), one.period().as_nanos());
    let ((x, y), (other_x, other_y)) = (nanos(old), nanos(new));
    let budget = x.max(other_x);
    let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
    let (share_x, share_y) =
        if product(x, other_y) >= product(other_x, y) { (x, y) } else { (other_x, other_y) };
    let period = product(budget, share_y) / u128::from(share_x);
    let period = u64::try_from(period).unwrap_or(u64::MAX);
    // Its share is at most one, so its budget is at most its period.
    Reservation::new(Service::from_nanos(budget), Duration::from_nanos(period)).unwrap_or(new)
}
