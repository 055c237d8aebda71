//! Contains handlers that do not return to their yield point.

use punctual_model::{Duration, Handler, Instant, Service};

use super::machine::Machine;
use super::member::{Out, Promise};
use super::orders::OrderError;

impl<H: Handler, S: FnMut(&H, u32) -> Service> Machine<H, S> {
    /// Contains a handler that did not return in time. It rejoins a longest period later, or never.
    pub(super) fn give_up(&mut self, task: u32, now: Instant) -> Result<(), OrderError> {
        let longest = self.longest_period();
        let most = self.guard.map_or(1, |guard| guard.most);
        let at = self.find(task)?;
        let member = &mut self.members[at];
        member.contained += 1;
        if let Some(out) = &mut member.out {
            out.not_before = now.saturating_add(longest);
        }
        if member.contained >= most {
            self.close(task, now, &mut ())?;
        }
        Ok(())
    }

    fn longest_period(&self) -> Duration {
        let periods = self.members.iter().filter_map(|one| match &one.kind {
            Promise::RealTime(upcall) => Some(upcall.period()),
            Promise::BestEffort(_) => None,
        });
        periods.max().unwrap_or(Duration::ZERO)
    }

    /// Releases contained handlers again that have returned.
    pub(super) fn take_back(&mut self, now: Instant) -> Result<(), OrderError> {
        for member in &mut self.members {
            let Some(Out { not_before, .. }) = member.out.take_if(|out| out.back <= now) else {
                continue;
            };
            member.handler.commit(now);
            if member.suspended {
                continue;
            }
            match member.kind {
                Promise::RealTime(_) => {
                    let _next = self.policy.resume(member.task, now.max(not_before))?;
                }
                Promise::BestEffort(_) => {
                    self.best_effort.resume(member.task, now.max(not_before))?;
                }
            }
        }
        Ok(())
    }
}
