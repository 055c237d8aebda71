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
//! A server that leaves is counted in the same way on its CPU, and for at least the longest period
//! of the servers there: by then no window in which one of them was to be served has seen both.
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

mod busy;

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use punctual_model::{Duration, Instant, Reservation};

use self::busy::{IN_VAIN, Known};
use super::served::Server;
use super::{Entry, Executed, System};
use crate::load::TaskLoad;
use crate::verdict::Refusal;

/// An entry that has left or shrunk and is still counted.
#[derive(Clone, Debug)]
pub(super) struct Leaving<Id> {
    /// A number that grows by one for each.
    pub(super) number: u32,
    at: Instant,
    /// The next look is not before this time.
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
    /// A deferrable server.
    Server {
        id: Id,
        cpu: u16,
        reservation: Reservation,
    },
    /// A channel, sending or receiving.
    Channel(Executed),
    /// The difference between what an entry is counted for and what it has, after it had more.
    Excess {
        id: Id,
    },
}

impl<Id> Leaving<Id> {
    /// Returns the instant from which its busy period is counted.
    fn since(&self) -> Instant {
        self.sender_idle.unwrap_or(self.at)
    }

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
        let (before, mut known) = (self.leaving.len(), Known::new());
        let (mut at, mut in_vain) = (0, 0);
        while let Some(leaving) = self.leaving.get(at) {
            let next = match leaving.not_before {
                later if later > self.now => None,
                _ if self.is_surely_free(leaving) => Some(self.now),
                _ if in_vain == IN_VAIN => None,
                _ => Some(self.look(leaving, &mut known)),
            };
            match next {
                Some(next) if next <= self.now => {
                    let leaving = self.leaving.remove(at);
                    self.free(leaving);
                }
                next => {
                    in_vain += usize::from(next.is_some());
                    let leaving = &mut self.leaving[at];
                    leaving.not_before = next.unwrap_or(leaving.not_before);
                    at += 1;
                }
            }
        }
        core::mem::take(&mut self.freed_since) || self.leaving.len() < before
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
                    Counted::Reservation(_) | Counted::Server { .. } | Counted::Channel(_) => false,
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
            let of_channel = match &leaving.what {
                Counted::Channel(_) => true,
                Counted::Excess { id } => self.entries.get(id).is_some_and(Entry::is_sending),
                Counted::Tasks { .. } | Counted::Reservation(_) | Counted::Server { .. } => false,
            };
            if of_channel && leaving.sender_idle.is_none() && leaving.at <= at {
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
        let mut known = Known::new();
        self.leaving.iter().map(|leaving| self.free_at(leaving, &mut known)).max()
    }

    /// Returns the bandwidth of reservations that have left and still count, in parts per million.
    pub(super) fn leaving_ppm(&self) -> u64 {
        let ppm = |leaving: &Leaving<Id>| match &leaving.what {
            Counted::Reservation(reservation) | Counted::Server { reservation, .. } => {
                reservation.utilisation_ppm()
            }
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
            &Executed::Server { cpu, counted: reservation, .. } => {
                self.serve_again(Server::new(id, cpu, reservation, Some(number)));
                Counted::Server { id, cpu, reservation }
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
        let mut leaving = Leaving { number, at, not_before: at, sender_idle: None, what };
        leaving.not_before = at.saturating_add(Duration::from_nanos(self.first_look(&leaving)));
        self.leaving.push(leaving);
    }

    /// Frees capacity that can have no more effect.
    fn free(&mut self, leaving: Leaving<Id>) {
        match leaving.what {
            Counted::Tasks { id, cpu, tasks } => {
                self.cpus[cpu].remove_leaving(id, &tasks, leaving.number);
            }
            Counted::Reservation(reservation) => self.unreserve_above(reservation),
            Counted::Server { id, cpu, reservation } => {
                self.serve_no_longer(Server::new(id, cpu, reservation, Some(leaving.number)));
            }
            Counted::Channel(channel) => self.carry_no_longer(&channel),
            Counted::Excess { id } => {
                let Some(mut entry) = self.take_out_as_counted(id) else { return };
                match &mut entry.executed {
                    Executed::Executor { tasks, own, .. } => {
                        if let Some(own) = own.take() {
                            *tasks = own;
                        }
                    }
                    Executed::Deadline { counted, reservation, .. }
                    | Executed::Server { counted, reservation, .. } => *counted = *reservation,
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
}

#[cfg(test)]
mod tests;
