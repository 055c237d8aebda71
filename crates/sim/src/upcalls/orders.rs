//! Defines the orders that the owner of upcalls gives, which are followed between two turns.

use punctual_model::{Backlog, BestEffort, Handler, Instant, Service, Upcall};
use punctual_policy::rmdp::{CreateError, NoSuchUpcall};
use punctual_trace::{Event, Sink};
use thiserror::Error;

use super::machine::Machine;
use super::member::{Member, Promise};

/// An order of the upcalls' owner, followed between two turns.
#[derive(Debug)]
pub enum Order<H> {
    /// Creates a real-time upcall.
    Create {
        /// Its number in all events.
        task: u32,
        /// Its contract.
        upcall: Upcall,
        /// Its code.
        handler: H,
        /// The release of its first job. If that has passed, see
        /// [`first_release`](punctual_policy::rmdp::first_release).
        first_release: Instant,
    },
    /// Creates a best-effort upcall, which is runnable from now on.
    CreateBestEffort {
        /// Its number in all events.
        task: u32,
        /// Its parameters.
        upcall: BestEffort,
        /// Its code.
        handler: H,
    },
    /// Closes an upcall.
    Close {
        /// Its number.
        task: u32,
    },
    /// Stops the releases of an upcall.
    Suspend {
        /// Its number.
        task: u32,
    },
    /// Releases a suspended upcall again, at the instants of its old phase.
    Resume {
        /// Its number.
        task: u32,
    },
    /// Changes the contract of an upcall.
    Change {
        /// Its number.
        task: u32,
        /// Its contract from now on.
        upcall: Upcall,
    },
}

/// The reason why an order cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OrderError {
    /// There is no room, or the number is taken.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// There is no such upcall.
    #[error(transparent)]
    NoSuchUpcall(#[from] NoSuchUpcall),
}

impl<H: Handler, S: FnMut(&H, u32) -> Service> Machine<H, S> {
    pub(super) fn follow_orders(
        &mut self,
        now: Instant,
        sink: &mut impl Sink,
    ) -> Result<(), OrderError> {
        while self.orders.front().is_some_and(|(at, _)| *at <= now) {
            let (_, order) = self.orders.pop_front().expect("there is one");
            self.follow(order, now, sink)?;
        }
        Ok(())
    }

    fn follow(
        &mut self,
        order: Order<H>,
        now: Instant,
        sink: &mut impl Sink,
    ) -> Result<(), OrderError> {
        match order {
            Order::Create { task, upcall, handler, first_release } => {
                self.is_free(task)?;
                self.policy.create(task, &upcall, first_release, now)?;
                self.join(Member::new(task, Promise::RealTime(upcall), handler));
            }
            Order::CreateBestEffort { task, upcall, handler } => {
                self.is_free(task)?;
                self.best_effort.create(task, &upcall, now)?;
                self.join(Member::new(task, Promise::BestEffort(upcall), handler));
            }
            Order::Close { task } => self.close(task, now, sink)?,
            Order::Suspend { task } => {
                let at = self.find(task)?;
                self.members[at].suspended = true;
                match self.members[at].kind {
                    Promise::RealTime(_) => drop_jobs(self.policy.suspend(task, now)?, now, sink),
                    Promise::BestEffort(_) => self.best_effort.suspend(task)?,
                }
            }
            Order::Resume { task } => {
                let at = self.find(task)?;
                let member = &mut self.members[at];
                member.suspended = false;
                match (&member.kind, member.out) {
                    (_, Some(_)) => {}
                    (Promise::RealTime(_), None) => {
                        let _next = self.policy.resume(task, now)?;
                    }
                    (Promise::BestEffort(_), None) => self.best_effort.resume(task, now)?,
                }
            }
            Order::Change { task, upcall } => {
                let at = self.find(task)?;
                drop_jobs(self.policy.change(task, &upcall, now)?, now, sink);
                self.members[at].kind = Promise::RealTime(upcall);
            }
        }
        Ok(())
    }

    pub(super) fn close(
        &mut self,
        task: u32,
        now: Instant,
        sink: &mut impl Sink,
    ) -> Result<(), OrderError> {
        let at = self.find(task)?;
        match self.members.remove(at).kind {
            Promise::RealTime(_) => drop_jobs(self.policy.close(task, now)?, now, sink),
            Promise::BestEffort(_) => self.best_effort.close(task)?,
        }
        Ok(())
    }

    fn join(&mut self, member: Member<H>) {
        let at = self.members.partition_point(|other| other.task < member.task);
        self.members.insert(at, member);
    }

    fn is_free(&self, task: u32) -> Result<(), CreateError> {
        if self.find(task).is_ok() { Err(CreateError::Taken { task }) } else { Ok(()) }
    }
}

fn drop_jobs(left: Option<Backlog>, now: Instant, sink: &mut impl Sink) {
    left.into_iter().flat_map(|left| Event::dropped(left, now)).for_each(|e| sink.record(e));
}
