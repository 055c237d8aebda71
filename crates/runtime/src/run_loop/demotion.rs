//! A handler that was put aside may have done nothing wrong, or be about to return.
//!
//! As an ordinary thread beside others that spin it would be long in coming back, whatever its nice
//! value: some 30 ms beside 16 of them on a virtual machine, for 0.2 ms of work. So it goes on below
//! all upcalls, but above ordinary threads, for as much processor time as its iteration was allowed,
//! and only then becomes an ordinary thread of the least weight.

use punctual_linux::sched::{self, Class};
use punctual_linux::thread::Tid;
use punctual_linux::usage;
use punctual_model::{Duration, Instant, Service};

use super::watchdog::SHORTEST_PAUSE;
use crate::level_order::LOWEST;

/// Below every level at which an upcall waits.
const PRIORITY: u8 = LOWEST - 1;

/// It ends after this time in any case: one that sleeps uses no processor time.
const LONGEST: Duration = Duration::from_secs(1);

/// The probation of a thread of this process. Dropped, it is over: if the thread is still there it
/// becomes an ordinary one of the least weight.
#[derive(Debug)]
pub(super) struct Demotion {
    thread: Tid,
    /// Processor time that it may have.
    allowed: Service,
    /// What it had had when it began, and at the last look.
    used_before: Service,
    used: Service,
    next: Instant,
    pause: Duration,
    /// When it is over.
    ends: Instant,
}

impl Demotion {
    /// Puts `thread`, whose iteration was allowed `limit`, below all upcalls at `now`. None if it stands
    /// under no class in which that can be done.
    pub(super) fn begin(thread: Tid, limit: Duration, now: Instant) -> Option<Self> {
        // Sets the priority of a SCHED_FIFO thread and refuses every other.
        sched::set_fifo_priority(thread, PRIORITY).ok()?;
        let used = usage::cpu_time_of(thread).unwrap_or_default();
        let pause = limit.max(SHORTEST_PAUSE);
        let allowed = Service::from_nanos(pause.as_nanos());
        let (next, ends) = (now.saturating_add(pause), now.saturating_add(LONGEST));
        Some(Self { thread, allowed, used_before: used, used, next, pause, ends })
    }

    /// When to look next.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Looks, if it is time to. When to look again; none if it is over at `now`.
    pub(super) fn look(&mut self, now: Instant) -> Option<Instant> {
        if now < self.next {
            return Some(self.next);
        }
        // None of a thread that has ended: it came back.
        let used = usage::cpu_time_of(self.thread)?;
        if now >= self.ends || used.saturating_sub(self.used_before) >= self.allowed {
            return None;
        }
        // One that sleeps is looked at ever more seldom.
        let runs = std::mem::replace(&mut self.used, used) < used;
        let most = self.allowed.at_full_speed();
        self.pause = if runs { most } else { self.pause.saturating_add(self.pause) };
        self.next = now.saturating_add(self.pause).min(self.ends);
        Some(self.next)
    }
}

impl Drop for Demotion {
    fn drop(&mut self) {
        // Its id is another thread's only when the kernel has been through all of them since.
        if usage::cpu_time_of(self.thread).is_some() {
            let _ = sched::set(self.thread, Class::Other { nice: 19 });
        }
    }
}
