//! Goes on without a handler that does not return, and takes it back when it does.

use punctual_linux::thread::Tid;
use punctual_linux::usage;
use punctual_model::{Backlog, Duration, Handler, Instant, JobId};
use punctual_trace::Kind;

use super::Shared;
use super::executor::{End, Executor, Out, Running};
use crate::upcalls::admission::Work;
use crate::upcalls::notice::{Activity, NoticeKind};

/// The time after which a containment is forgotten if there is no other.
const FORGOTTEN: Duration = Duration::from_secs(60);

impl<H: Handler + Send> Executor<H> {
    /// Returns how long the running iteration may take.
    pub(super) fn limit_of_running(&self) -> Duration {
        self.running.map_or(Duration::ZERO, |of| self.slots[of.slot as usize].limit)
    }

    /// Resumes contained handlers that have returned. If one panicked instead, the run loop ends,
    /// as if the handler had not been contained.
    pub(super) fn take_back(&mut self, now: Instant, shared: &Shared<H>) -> Result<(), End> {
        let mut at = 0;
        while at < self.out.len() {
            // In this order, because its thread sends the handler home before it drops its end.
            let has_let_go = self.out[at].comes_by.is_abandoned();
            let came = self.out[at].comes_by.pop().ok();
            if came.is_none() && !has_let_go {
                at += 1;
                continue;
            }
            let Out { slot, task, not_before, .. } = self.out.swap_remove(at);
            let entry = &mut self.slots[slot as usize];
            let (came, panic) = match came {
                Some(Ok(handler)) => (Some(handler), None),
                Some(Err(panic)) => (None, Some(panic)),
                None => (None, None),
            };
            let is_lost = came.is_none();
            entry.handler = came;
            if is_lost {
                self.let_go(slot, now, shared);
                self.notify(task, NoticeKind::Closed, now, shared);
                if let Some(panic) = panic {
                    return Err(End::Panicked(panic));
                }
            } else if entry.activity == Activity::Contained {
                entry.activity = Activity::Active;
                let from = now.max(not_before);
                match &entry.work {
                    Some(Work::BestEffort(_)) => {
                        let _known = self.best_effort.resume(slot, from);
                    }
                    _ => {
                        let _known = self.policy.resume(slot, from);
                    }
                }
                self.say_activity(slot, shared);
                self.notify(task, NoticeKind::Returned, now, shared);
                self.set_rates();
            }
        }
        Ok(())
    }

    /// Contains the running handler, which does not return: the other upcalls go on without it.
    pub(super) fn contain(&mut self, now: Instant, stuck: Tid, shared: &Shared<H>) {
        let Some(Running { slot, index, release, real_time }) = self.running.take() else { return };
        self.emit(slot, index, release, now, Kind::Contained);
        if real_time {
            let left = self.policy.contain(now);
            let behind = Backlog { jobs: left.jobs - 1, begun: false, ..left };
            if behind.jobs > 0 {
                let oldest = JobId { index: left.oldest.index + 1, ..left.oldest };
                let release = left.release.saturating_add(left.period);
                self.dropped(Some(Backlog { oldest, release, ..behind }), now, shared);
            }
        } else {
            let _known = self.best_effort.contain(slot);
        }
        self.exec_time += usage::cpu_time_of(stuck).unwrap_or_default();
        let entry = &mut self.slots[slot as usize];
        if now.saturating_since(entry.contained_at) > FORGOTTEN {
            entry.contained = 0;
        }
        entry.contained += 1;
        entry.contained_at = now;
        entry.activity = Activity::Contained;
        let (times, task) = (entry.contained, entry.task.unwrap_or(u32::MAX));
        // The first time may have been no fault of its own. A handler that is contained again must
        // not do it twice in a busy period.
        let not_before = if times == 1 { now } else { now.saturating_add(self.longest_period()) };
        if let Some(comes_by) = self.home.take() {
            self.out.push(Out { slot, task, comes_by, not_before });
        }
        self.notify(task, NoticeKind::Contained { times }, now, shared);
        if times >= self.most_contained {
            self.let_go(slot, now, shared);
            self.notify(task, NoticeKind::Closed, now, shared);
        } else {
            self.say_activity(slot, shared);
        }
        self.set_rates();
        (self.background, self.gave_way) = (None, false);
        shared.watch.needs_no_lift();
        self.busy = true;
        self.rest(Instant::MAX, shared);
    }

    fn longest_period(&self) -> Duration {
        self.policy.schedule().map(|(_, period, _)| period).max().unwrap_or(Duration::ZERO)
    }
}
