//! The owner's operations on running upcalls: each is an order that is followed between two turns.

use punctual_linux::clock;
use punctual_model::{BestEffort, Duration, Instant, Upcall};

use super::Running;
use crate::run_loop::{Answer, Order, Reply};
use crate::upcalls::admission::Work;
use crate::upcalls::{CreateError, OrderError};

impl<H> Running<H> {
    /// Admits one more upcall beside those that run, first released at `first_release`, and returns
    /// its number.
    ///
    /// ```no_run
    /// # use punctual_model::{Duration, Handler, Upcall};
    /// # fn example<H: Handler + Send + 'static>(
    /// #     mut running: punctual_runtime::Running<H>, upcall: Upcall, handler: H,
    /// # ) -> Result<(), punctual_runtime::CreateError> {
    /// let soon = punctual_linux::clock::now() + Duration::from_millis(10);
    /// let number = running.create(upcall, handler, soon)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn create(
        &mut self,
        upcall: Upcall,
        handler: H,
        first_release: Instant,
    ) -> Result<u32, CreateError> {
        self.add(Work::RealTime(upcall), handler, first_release)
    }

    /// Adds one more best-effort upcall, which is first called now, and returns its number. See
    /// [`Upcalls::create_best_effort`](crate::Upcalls::create_best_effort).
    pub fn create_best_effort(
        &mut self,
        upcall: BestEffort,
        handler: H,
    ) -> Result<u32, CreateError> {
        self.add(Work::BestEffort(upcall), handler, clock::now())
    }

    fn add(&mut self, work: Work, handler: H, first_release: Instant) -> Result<u32, CreateError> {
        let task = self.next_task;
        self.promises.idle(self.shared.idle_at());
        self.promises.add(task, work.clone(), Some(clock::now()))?;
        let handler = Box::new(handler);
        let reply = self.ask(Order::Create { task, work, handler, first_release });
        let outcome = match reply.map(|reply| reply.answer) {
            Some(Answer::Created { slot }) => {
                self.next_task += 1;
                self.members.insert(task, slot);
                return Ok(task);
            }
            Some(Answer::NoRoom { handler }) => {
                drop(handler);
                CreateError::NoRoom { room: self.room }
            }
            _ => CreateError::Ended,
        };
        self.promises.remove(task, None);
        Err(outcome)
    }

    /// Closes an upcall: it is released no more, its released jobs that are not complete are
    /// dropped, and its handler is returned.
    ///
    /// What it took is free for others when nothing is felt of it any more: at the latest when they had nothing to do, or
    /// when that is proven to have been so ([`System::retire`](punctual_analysis::System::retire)).
    ///
    /// ```no_run
    /// # fn example<H>(mut running: punctual_runtime::Running<H>)
    /// # -> Result<(), punctual_runtime::OrderError> {
    /// let handler = running.close(0)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn close(&mut self, task: u32) -> Result<H, OrderError> {
        match self.ask_about(task, |slot| Order::Close { task, slot }) {
            Some(Reply { answer: Answer::Closed { handler, old }, at, .. }) => {
                drop(old);
                // The promises to the others still hold: a handler that has not returned runs below
                // all upcalls.
                self.promises.remove(task, Some(at));
                let handler = handler.ok_or(OrderError::StillOut { task })?;
                self.members.remove(&task);
                Ok(*handler)
            }
            Some(_) => Err(OrderError::NoSuchUpcall { task }),
            None => Err(OrderError::Ended),
        }
    }

    /// Stops the releases of an upcall until it is resumed; its released jobs that are not complete
    /// are dropped. Its promise stays admitted.
    ///
    /// ```no_run
    /// # fn example<H>(mut running: punctual_runtime::Running<H>)
    /// # -> Result<(), punctual_runtime::OrderError> {
    /// running.suspend(0)?;
    /// running.resume(0)?; // Released again at the instants it would have been.
    /// # Ok(())
    /// # }
    /// ```
    pub fn suspend(&mut self, task: u32) -> Result<(), OrderError> {
        self.tell(task, |slot| Order::Suspend { task, slot })
    }

    /// Releases an upcall again, from the next of its original release times on, as if it had never
    /// been suspended. See [`Self::suspend`].
    pub fn resume(&mut self, task: u32) -> Result<(), OrderError> {
        self.tell(task, |slot| Order::Resume { task, slot })
    }

    fn tell(&mut self, task: u32, order: impl FnOnce(u32) -> Order<H>) -> Result<(), OrderError> {
        match self.ask_about(task, order).map(|reply| reply.answer) {
            Some(Answer::Done { old }) => {
                drop(old);
                Ok(())
            }
            Some(_) => Err(OrderError::NoSuchUpcall { task }),
            None => Err(OrderError::Ended),
        }
    }

    /// Changes the contract of an upcall while it runs, if everything holds with the new one, and with
    /// the old one as long as it affects others; otherwise changes nothing.
    ///
    /// With the same period the phase stays; with another, its first release is at the end of the
    /// current period. If several jobs are late, only one of them remains.
    ///
    /// ```no_run
    /// # fn example<H>(mut running: punctual_runtime::Running<H>, faster: punctual_model::Upcall)
    /// # -> Result<(), punctual_runtime::CreateError> {
    /// running.change(0, faster)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn change(&mut self, task: u32, upcall: Upcall) -> Result<(), CreateError> {
        let before = self.promises.of(task).cloned();
        let asked = clock::now();
        self.promises.idle(self.shared.idle_at());
        self.promises.change(task, upcall.clone(), Some(asked))?;
        match self.ask_about(task, |slot| Order::Change { task, slot, upcall }) {
            Some(Reply { answer: Answer::Done { old }, at, .. }) => {
                self.promises.postpone(asked, at);
                drop(old);
                Ok(())
            }
            answer => {
                self.promises.remove(task, None);
                if let Some(before) = before {
                    // This held before.
                    let _ = self.promises.add(task, before, None);
                }
                let ended = answer.is_none();
                Err(if ended { CreateError::Ended } else { CreateError::NoSuchUpcall { task } })
            }
        }
    }

    /// Sends an order about this upcall in its slot, as [`Self::ask`] does.
    fn ask_about(&mut self, task: u32, order: impl FnOnce(u32) -> Order<H>) -> Option<Reply<H>> {
        if self.has_ended() {
            return None;
        }
        match self.members.get(&task) {
            Some(slot) => self.ask(order(*slot)),
            None => Some(Reply::no_such_upcall()),
        }
    }

    /// Sends an order and waits for the answer; returns `None` if the run loop has ended.
    fn ask(&mut self, order: Order<H>) -> Option<Reply<H>> {
        if self.is_elsewhere() {
            return None;
        }
        let (orders, answers) = (self.orders.as_mut()?, self.answers.as_mut()?);
        // There is room: one order is sent at a time.
        orders.push(order).ok()?;
        self.shared.wakeups.notify();
        loop {
            let events = self.shared.answered.count();
            let is_over = self.shared.is_over();
            if let Ok(reply) = answers.pop() {
                return Some(reply);
            }
            if is_over {
                return None;
            }
            self.shared.answered.sleep_until(events, clock::now() + Duration::from_millis(100));
        }
    }
}
