//! Goes on without a handler that does not return, takes it back when it does, and tells the owner
//! when the executor's thread ends, however it ends.
//!
//! A contained handler is demoted. It may have done nothing wrong, or be about to return. As an
//! ordinary thread beside others that spin it would take long to return, whatever its nice value:
//! some 30 ms beside 16 of them on a virtual machine, for 0.2 ms of work. So it goes on below all
//! upcalls, but above ordinary threads, for as much processor time as its iteration was allowed,
//! and only then becomes an ordinary thread of the least weight.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use punctual_linux::sched::Class;
use punctual_linux::thread::Tid;
use punctual_linux::{sched, usage};
use punctual_model::{Backlog, Duration, Handler, Instant, JobId, Service};
use punctual_trace::Kind;

use super::executor::{Executor, Running};
use super::shared::Out;
use super::watchdog::SHORTEST_PAUSE;
use super::{End, Finish, Shared};
use crate::level_order::LOWEST;
use crate::upcalls::admission::Work;
use crate::upcalls::notice::{Activity, NoticeKind};

/// The time after which a containment is forgotten if there is no other.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// The priority of a demoted thread: below every level at which an upcall waits.
const PRIORITY: u8 = LOWEST - 1;

/// The longest demotion: a thread that sleeps uses no processor time.
const LONGEST: Duration = Duration::from_secs(1);

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

/// The demotion of a thread of this process. Dropping it ends the demotion: if the thread still
/// exists, it becomes an ordinary one of the least weight.
#[derive(Debug)]
pub(super) struct Demotion {
    thread: Tid,
    /// The processor time that it may have.
    allowed: Service,
    /// The processor time that it had when the demotion began, and at the last look.
    used_before: Service,
    used: Service,
    next: Instant,
    pause: Duration,
    /// The time at which the demotion ends in any case.
    ends: Instant,
}

impl Demotion {
    /// Puts `thread`, whose iteration was allowed `limit`, below all upcalls at `now`. Returns
    /// `None` if its class does not allow that.
    pub(super) fn begin(thread: Tid, limit: Duration, now: Instant) -> Option<Self> {
        // This sets the priority of a SCHED_FIFO thread and refuses every other class.
        sched::set_fifo_priority(thread, PRIORITY).ok()?;
        let used = usage::cpu_time_of(thread).unwrap_or_default();
        let pause = limit.max(SHORTEST_PAUSE);
        let allowed = Service::from_nanos(pause.as_nanos());
        let (next, ends) = (now.saturating_add(pause), now.saturating_add(LONGEST));
        Some(Self { thread, allowed, used_before: used, used, next, pause, ends })
    }

    /// Returns when to look next.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Looks at the thread if it is time to. Returns when to look again, or `None` if the demotion
    /// is over at `now`.
    pub(super) fn look(&mut self, now: Instant) -> Option<Instant> {
        if now < self.next {
            return Some(self.next);
        }
        // A thread that has ended has no processor time: its handler returned.
        let used = usage::cpu_time_of(self.thread)?;
        if now >= self.ends || used.saturating_sub(self.used_before) >= self.allowed {
            return None;
        }
        // A thread that sleeps is looked at less and less often.
        let runs = std::mem::replace(&mut self.used, used) < used;
        let most = self.allowed.at_full_speed();
        self.pause = if runs { most } else { self.pause.saturating_add(self.pause) };
        self.next = now.saturating_add(self.pause).min(self.ends);
        Some(self.next)
    }
}

impl Drop for Demotion {
    fn drop(&mut self) {
        // Its id could be another thread's only after the kernel has handed out all other ids.
        if usage::cpu_time_of(self.thread).is_some() {
            let _ = sched::set(self.thread, Class::Other { nice: 19 });
        }
    }
}

/// The executor thread's obligation to tell the owner when the run loop ends.
pub(super) struct CompletionGuard<'a, H> {
    shared: &'a Shared<H>,
    holds: Cell<bool>,
}

impl<H> CompletionGuard<'_, H> {
    /// Runs `body`. If a panic ends it before it has been relieved, the owner gets that panic and
    /// nothing else: what the thread owned is lost with it.
    pub(super) fn kept(shared: &Shared<H>, body: impl FnOnce(&CompletionGuard<'_, H>)) {
        let completion_guard = CompletionGuard { shared, holds: Cell::new(true) };
        match catch_unwind(AssertUnwindSafe(|| body(&completion_guard))) {
            Ok(()) => {}
            Err(panic) if completion_guard.holds.get() => {
                completion_guard.tell(Finish::lost(End::Panicked(panic)))
            }
            // The panic was printed when it happened, and may panic again when it is dropped.
            Err(panic) => std::mem::forget(panic),
        }
    }

    /// Ends the obligation because another thread runs the loop.
    pub(super) fn relieved(&self) {
        self.holds.set(false);
    }

    /// Tells the owner that the run loop has ended.
    pub(super) fn tell(&self, finish: Finish<H>) {
        self.holds.set(false);
        self.shared.ended(finish);
    }
}

/// Drops a value of the user's type, which may panic when it is dropped. The panic hook prints that
/// panic.
pub(crate) fn drop_quietly<T>(value: T) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        std::mem::forget(panic);
    }
}
