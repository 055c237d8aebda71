//! The owner's requests to upcalls that run, and the answers: without locks, in bounded queues.
//!
//! An order names its upcall and its slot, so that the executor need not search for it.

use punctual_model::{Handler, Instant, Upcall};

use super::Shared;
use super::executor::Executor;
use crate::level_order::Rates;
use crate::upcalls::admission::Work;
use crate::upcalls::notice::Activity;

pub(crate) enum Order<H> {
    Create { task: u32, work: Work, handler: Box<H>, first_release: Instant },
    Close { task: u32, slot: u32 },
    Suspend { task: u32, slot: u32 },
    Resume { task: u32, slot: u32 },
    Change { task: u32, slot: u32, upcall: Upcall },
    Stop,
}

/// An answer. It carries what the executor no longer needs, so that it is freed elsewhere.
pub(crate) enum Answer<H> {
    Created { slot: u32 },
    NoRoom { handler: Box<H> },
    Closed { handler: Option<Box<H>>, old: Option<Work> },
    Done { old: Option<Work> },
    NoSuchUpcall,
}

/// An answer, and values that the receiver frees.
pub(crate) struct Reply<H> {
    pub(crate) answer: Answer<H>,
    /// When the order was followed.
    pub(crate) at: Instant,
    pub(super) _retired: Vec<Rates>,
}

impl<H> Reply<H> {
    /// Returns what is answered of an upcall that is known not to be there.
    pub(crate) fn no_such_upcall() -> Self {
        Self { answer: Answer::NoSuchUpcall, at: Instant::ZERO, _retired: Vec::new() }
    }
}

impl<H: Handler + Send> Executor<H> {
    /// Follows one order, if there is one. Returns false if that is to stop.
    pub(super) fn follow_order(&mut self, now: Instant, shared: &Shared<H>) -> bool {
        let Ok(order) = self.orders.pop() else { return true };
        let Some(answer) = self.follow(order, now, shared) else { return false };
        self.set_rates();
        let _retired = std::mem::take(&mut self.retired);
        // There is room: the owner sends no order before the last answer.
        let _full = self.answers.push(Reply { answer, at: now, _retired });
        shared.answered.notify();
        true
    }

    fn follow(&mut self, order: Order<H>, now: Instant, shared: &Shared<H>) -> Option<Answer<H>> {
        let about = match &order {
            Order::Create { .. } => None,
            Order::Stop => return None,
            Order::Close { task, slot }
            | Order::Suspend { task, slot }
            | Order::Resume { task, slot }
            | Order::Change { task, slot, .. } => Some((*task, *slot)),
        };
        let slot = match about {
            None => 0,
            // The slot stays the upcall's own until its handler has gone back.
            Some((task, slot)) => match self.slots.get(slot as usize) {
                Some(entry) if entry.task == Some(task) => slot,
                _ => return Some(Answer::NoSuchUpcall),
            },
        };
        Some(match order {
            Order::Create { task, work, handler, first_release } => {
                match self.join(task, work, handler, first_release, now) {
                    Ok(slot) => {
                        self.say_activity(slot, shared);
                        Answer::Created { slot }
                    }
                    Err(handler) => Answer::NoRoom { handler },
                }
            }
            Order::Close { .. } => self.close(slot, now, shared),
            Order::Suspend { .. } => self.suspend(slot, now, shared),
            Order::Resume { .. } => self.resume(slot, now, shared),
            Order::Change { upcall, .. } => {
                let left = self.policy.change(slot, &upcall, now).ok().flatten();
                self.dropped(left, now, shared);
                Answer::Done { old: self.change(slot, upcall) }
            }
            Order::Stop => return None,
        })
    }

    fn close(&mut self, slot: u32, now: Instant, shared: &Shared<H>) -> Answer<H> {
        if self.slots[slot as usize].activity != Activity::Closed {
            self.let_go(slot, now, shared);
        }
        let entry = &mut self.slots[slot as usize];
        let (handler, old) = (entry.handler.take(), entry.work.take());
        if handler.is_some() {
            self.vacate(slot);
        }
        Answer::Closed { handler, old }
    }

    fn suspend(&mut self, slot: u32, now: Instant, shared: &Shared<H>) -> Answer<H> {
        let entry = &mut self.slots[slot as usize];
        if entry.activity == Activity::Closed {
            return Answer::NoSuchUpcall;
        }
        entry.activity = Activity::Suspended;
        match &entry.work {
            Some(Work::BestEffort(_)) => {
                let _known = self.best_effort.suspend(slot);
            }
            _ => {
                let left = self.policy.suspend(slot, now).ok().flatten();
                self.dropped(left, now, shared);
            }
        }
        self.say_activity(slot, shared);
        Answer::Done { old: None }
    }

    fn resume(&mut self, slot: u32, now: Instant, shared: &Shared<H>) -> Answer<H> {
        let entry = &mut self.slots[slot as usize];
        if entry.activity == Activity::Closed {
            return Answer::NoSuchUpcall;
        }
        if entry.activity == Activity::Suspended {
            let is_out = entry.handler.is_none();
            entry.activity = if is_out { Activity::Contained } else { Activity::Active };
            match (&entry.work, is_out) {
                (_, true) => {}
                (Some(Work::BestEffort(_)), false) => {
                    let _known = self.best_effort.resume(slot, now);
                }
                (_, false) => {
                    let _known = self.policy.resume(slot, now);
                }
            }
            self.say_activity(slot, shared);
        }
        Answer::Done { old: None }
    }
}
