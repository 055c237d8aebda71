//! Demotes a contained handler, which may have done nothing wrong, or be about to return.
//!
//! As an ordinary thread beside others that spin it would take long to return, whatever its nice
//! value: some 30 ms beside 16 of them on a virtual machine, for 0.2 ms of work. So it goes on
//! below all upcalls, but above ordinary threads, for as much processor time as its iteration was
//! allowed, and only then becomes an ordinary thread of the least weight.

use punctual_linux::sched::{self, Class};
use punctual_linux::thread::Tid;
use punctual_linux::usage;
use punctual_model::{Duration, Instant, Service};

use super::watchdog::SHORTEST_PAUSE;
use crate::level_order::LOWEST;

/// The priority of a demoted thread: below every level at which an upcall waits.
const PRIORITY: u8 = LOWEST - 1;

/// The longest demotion: a thread that sleeps uses no processor time.
const LONGEST: Duration = Duration::from_secs(1);

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
