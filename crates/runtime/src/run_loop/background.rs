//! Best effort: the thread is an ordinary one until something real-time is released.

use punctual_linux::clock;
use punctual_linux::sched::{self, Class, SchedError};
use punctual_linux::thread;
use punctual_model::{Duration, Handler, Instant};

use super::Shared;
use super::executor::Executor;
use crate::level_order::{RUNNING, level_of};

impl<H: Handler + Send> Executor<H> {
    /// Makes the thread an ordinary one until `until`, when the guard lifts it.
    pub(super) fn enter_background(
        &mut self,
        until: Instant,
        period: Duration,
        now: Instant,
        shared: &Shared<H>,
    ) -> Result<(), SchedError> {
        match self.background {
            Some((at, _)) if at == until => return Ok(()),
            // An order changed the next release.
            Some(_) => _ = self.leave_background(shared)?,
            None => {}
        }
        self.background = Some((until, period));
        let Some(level_order) = &mut self.level_order else { return Ok(()) };
        self.busy = true;
        level_order.sink(period, until)?;
        shared.watch.count_from(clock::now());
        let limits = self.slots.iter().filter(|slot| slot.is_best_effort()).map(|slot| slot.limit);
        let limit = limits.max().unwrap_or(Duration::ZERO);
        shared.watch.lift(level_of(period), until, limit);
        shared.watch.arm(until.min(now.saturating_add(limit)));
        sched::set(thread::current(), Class::Other { nice: 0 })
    }

    /// Makes the thread a real-time one again. It first waits at its level, in the order of the
    /// levels. Returns whether it was an ordinary one.
    pub(super) fn leave_background(&mut self, shared: &Shared<H>) -> Result<bool, SchedError> {
        let Some((_, period)) = self.background.take() else { return Ok(false) };
        if let Some(level_order) = &mut self.level_order {
            let this = thread::current();
            shared.watch.needs_no_lift();
            sched::set(this, Class::Fifo { priority: level_of(period) })?;
            sched::set_fifo_priority(this, RUNNING)?;
            level_order.rise()?;
        }
        self.rest(Instant::MAX, shared);
        Ok(true)
    }
}
