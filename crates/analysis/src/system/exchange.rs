//! Entries that take the place of others, and the way back.
//!
//! An exchange goes entry by entry, and each step can be undone: what was taken in can be taken out,
//! and what was taken out can be put back while everything else is as it was. So a refused exchange
//! leaves the state as it was, and so does [`System::undo`] after an admitted one, at a cost that
//! does not depend on the other entries. Only a timetable is built anew, so the former one is kept.

use alloc::boxed::Box;
use alloc::vec::Vec;

use punctual_model::Instant;
use punctual_model::command::Backend;

use super::cover::{in_between, larger_channel, larger_reservation};
use super::leaving::Leaving;
use super::{BackEnd, Entry, Executed, Request, System};
use crate::steps::Steps;
use crate::supply::followed::Followed;
use crate::supply::together::Place;
use crate::verdict::Refusal;

/// An admitted exchange, which [`System::undo`] undoes.
#[derive(Clone, Debug)]
pub struct Exchange<Id> {
    back_ends: Vec<BackEnd>,
    before: Before<Id>,
}

impl<Id> Exchange<Id> {
    /// Returns the back end of each entry that entered.
    pub fn back_ends(&self) -> &[BackEnd] {
        &self.back_ends
    }
}

/// What there was before an exchange.
#[derive(Clone, Debug)]
struct Before<Id> {
    last_leaving: u32,
    left: Vec<(Id, Entry)>,
    /// The notes about entries of `left` that were counted for more than they had.
    excesses: Vec<Leaving<Id>>,
    entered: Vec<Id>,
    /// The replaced timetables, in the order in which they were replaced.
    replaced: Vec<Timetables<Id>>,
}

/// The timetables of a CPU.
#[derive(Clone, Debug)]
pub(super) struct Timetables<Id> {
    pub(super) cpu: u16,
    /// The one that is not followed yet.
    pub(super) table: Option<Place<Id>>,
    pub(super) followed: Option<Followed<Id>>,
}

impl<Id: Copy + Ord> System<Id> {
    /// Returns the answer that [`Self::admit`] would give. Nothing is admitted, but proofs found on
    /// the way are kept.
    ///
    /// # Errors
    /// Fails like [`Self::admit`].
    pub fn would_admit(
        &mut self,
        id: Id,
        request: Request<'_>,
        steps: &mut Steps,
    ) -> Result<BackEnd, Box<Refusal>> {
        let exchange = self.try_exchange(&[], &[(id, request)], None, steps)?;
        let back_end = exchange.back_ends[0];
        self.undo(exchange);
        Ok(back_end)
    }

    /// Admits `request` in place of the entry `id`. A refusal leaves the entry unchanged. The old entry
    /// counts as long as it affects others; `now` is `None` if it has not run.
    ///
    /// # Errors
    /// Fails like [`Self::admit`].
    pub fn change(
        &mut self,
        id: Id,
        request: Request<'_>,
        now: Option<Instant>,
        steps: &mut Steps,
    ) -> Result<BackEnd, Box<Refusal>> {
        Ok(self.try_change(id, request, now, steps)?.back_ends[0])
    }

    /// Changes an entry like [`Self::change`], for a caller that may [`undo`](Self::undo) it.
    ///
    /// # Errors
    /// Fails like [`Self::admit`].
    pub fn try_change(
        &mut self,
        id: Id,
        request: Request<'_>,
        now: Option<Instant>,
        steps: &mut Steps,
    ) -> Result<Exchange<Id>, Box<Refusal>> {
        if let Request::Joining(joining) = request
            && self.is_seated(id, joining.cpu)
        {
            // The reservation changes in place, so that its windows over the change keep the weaker
            // of both.
            let mut before = self.begin();
            before.replaced.push(self.seat(id, joining, steps)?);
            let back_ends = Vec::from([BackEnd::Timetable { cpu: joining.cpu }]);
            return Ok(Exchange { back_ends, before });
        }
        self.try_exchange(&[id], &[(id, request)], now, steps)
    }

    /// Returns the answer that [`Self::change`] would give at `now`. Nothing is changed, but proofs
    /// found on the way are kept.
    ///
    /// # Errors
    /// Fails like [`Self::admit`].
    pub fn would_change(
        &mut self,
        id: Id,
        request: Request<'_>,
        now: Instant,
        steps: &mut Steps,
    ) -> Result<BackEnd, Box<Refusal>> {
        let exchange = self.try_change(id, request, Some(now), steps)?;
        let back_end = exchange.back_ends[0];
        self.undo(exchange);
        Ok(back_end)
    }

    /// Admits all of `entering` in place of all of `leaving`, or changes nothing. Returns the back
    /// end of each. The entries that leave at `now` count as long as they affect others; `None` means
    /// that none of them has run.
    ///
    /// # Errors
    /// Fails like [`Self::admit`].
    pub fn exchange(
        &mut self,
        leaving: &[Id],
        entering: &[(Id, Request<'_>)],
        now: Option<Instant>,
        steps: &mut Steps,
    ) -> Result<Vec<BackEnd>, Box<Refusal>> {
        Ok(self.try_exchange(leaving, entering, now, steps)?.back_ends)
    }

    /// Exchanges entries like [`Self::exchange`], for a caller that may [`undo`](Self::undo) it.
    ///
    /// # Errors
    /// Fails like [`Self::admit`].
    pub fn try_exchange(
        &mut self,
        leaving: &[Id],
        entering: &[(Id, Request<'_>)],
        now: Option<Instant>,
        steps: &mut Steps,
    ) -> Result<Exchange<Id>, Box<Refusal>> {
        if let Some(now) = now {
            // The next call of `settle` reports it.
            self.freed_since = self.settle(now);
        }
        let mut before = self.begin();
        for &id in leaving {
            if let Some(BackEnd::Timetable { cpu }) = self.back_end(id) {
                before.replaced.push(self.timetables_of(cpu));
            }
            before.excesses.extend(self.counts_no_more(id));
            before.left.extend(self.take_out(id).map(|entry| (id, entry)));
        }
        let changes = |id: Id| entering.iter().any(|(other, _)| *other == id);
        if let Some(now) = now {
            let gone = before.left.iter().filter(|(id, _)| !changes(*id));
            gone.for_each(|(id, entry)| self.linger(*id, entry, now));
        }
        let mut back_ends = Vec::with_capacity(entering.len());
        for &(id, request) in entering {
            let old = before.left.iter().find(|(other, _)| *other == id).map(|(_, entry)| entry);
            let replaced = &mut before.replaced;
            let answer = match (old, now) {
                (Some(old), Some(now)) => self.renew(replaced, id, old, request, now, steps),
                _ => self.admit_in(replaced, id, request, steps),
            };
            match answer {
                Ok(back_end) => {
                    before.entered.push(id);
                    back_ends.push(back_end);
                }
                Err(refusal) => {
                    self.go_back(before);
                    return Err(refusal);
                }
            }
        }
        Ok(Exchange { back_ends, before })
    }

    /// Undoes `exchange`, since which only the time may have changed.
    pub fn undo(&mut self, exchange: Exchange<Id>) {
        self.go_back(exchange.before);
    }

    fn begin(&self) -> Before<Id> {
        Before {
            last_leaving: self.last_leaving,
            left: Vec::new(),
            excesses: Vec::new(),
            entered: Vec::new(),
            replaced: Vec::new(),
        }
    }

    fn go_back(&mut self, before: Before<Id>) {
        before.entered.into_iter().for_each(|id| _ = self.release(id));
        self.leave_as(before.last_leaving, before.excesses);
        before.replaced.into_iter().rev().for_each(|timetables| self.restore(timetables));
        before.left.into_iter().for_each(|(id, entry)| self.put_back(id, entry));
    }

    /// Returns a copy of the timetables of `cpu`.
    pub(super) fn timetables_of(&self, cpu: u16) -> Timetables<Id> {
        let followed = self.followed.get(&cpu).cloned();
        Timetables { cpu, table: self.tables.place_of(cpu), followed }
    }

    /// Restores the timetables of a CPU, with their load on the tasks there.
    pub(super) fn restore(&mut self, Timetables { cpu, table, followed }: Timetables<Id>) {
        let after = self.loads_on(cpu);
        self.tables.restore(cpu, table);
        self.follow_as(cpu, followed);
        let before = self.loads_on(cpu);
        if let Some(at) = self.position_of(cpu) {
            after.iter().for_each(|load| self.cpus[at].take_from_above(load));
            before.into_iter().for_each(|load| self.cpus[at].put_back_above(load));
        }
    }

    /// Admits `request` as `id`, whose entry was `old` until `now`.
    fn renew(
        &mut self,
        replaced: &mut Vec<Timetables<Id>>,
        id: Id,
        old: &Entry,
        request: Request<'_>,
        now: Instant,
        steps: &mut Steps,
    ) -> Result<BackEnd, Box<Refusal>> {
        let (executed, counts_more) = match (&old.executed, request) {
            (Executed::Executor { cpu, tasks: had, .. }, Request::Executor(tasks)) => {
                let share_ppm = self.counted_ppm(request);
                self.within_limits(share_ppm)?;
                let own = self.loads_of(tasks);
                let both = in_between(had, &own);
                let counted = both.clone().unwrap_or_else(|| own.clone());
                // Its pending jobs move with it, and the old entry still affects its old CPU.
                let stays = self.place_on(*cpu, id, tasks, &counted, share_ppm, steps);
                let cpu = match stays {
                    Ok(()) => *cpu,
                    Err(refusal) if self.cpus.len() == 1 => {
                        return Err(self.with_what_left(refusal));
                    }
                    Err(_) => {
                        self.linger(id, old, now);
                        self.place(id, tasks, &counted, share_ppm, steps)?
                    }
                };
                let own = both.is_some().then_some(own);
                let counts_more = own.is_some();
                (Executed::Executor { cpu, tasks: counted, own }, counts_more)
            }
            (
                Executed::Deadline { counted: had, .. },
                Request::Deadline(reservation)
                | Request::Command { reservation, backend: Backend::Kernel, .. },
            ) => {
                let is_command = matches!(request, Request::Command { .. });
                if is_command {
                    self.refuse_both_back_ends(true)?;
                }
                let counted = larger_reservation(*had, reservation);
                let executed = self.reserve(reservation, counted, is_command, steps)?;
                (executed, counted != reservation)
            }
            (
                &Executed::Server { cpu, counted: had, .. },
                Request::Command { reservation, enforcement, backend: Backend::Server, cpu: on },
            ) if had.period() == reservation.period() && on.is_none_or(|on| on == cpu) => {
                let executed =
                    self.serve_again_with(id, (cpu, had), reservation, enforcement, steps)?;
                (executed, had.budget() > reservation.budget())
            }
            (Executed::Sending { channel: had, .. }, Request::Sending(channel)) => {
                // A message of either has at most this size, and at least this spacing and delay.
                let counted = larger_channel(had, channel);
                match self.send_one(&counted, channel, steps) {
                    Ok(executed) => (executed, counted != *channel),
                    Err(refusal) if counted == *channel => {
                        return Err(self.with_what_left(refusal));
                    }
                    Err(_) => {
                        self.linger(id, old, now);
                        return self.admit_in(replaced, id, request, steps);
                    }
                }
            }
            _ => {
                self.linger(id, old, now);
                return self.admit_in(replaced, id, request, steps);
            }
        };
        let back_end = self.enter(id, request, executed);
        if counts_more {
            self.counts_more(id, now);
        }
        Ok(back_end)
    }
}

#[cfg(test)]
mod tests;
