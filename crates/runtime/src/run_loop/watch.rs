//! The times that the executor's thread publishes for the guard that watches it, and the processor
//! time that a thread has had, with the time for which it waited.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use punctual_linux::thread::{self, Tid};
use punctual_linux::timer::{Timer, TimerError, WaitError};
use punctual_linux::{clock, usage};
use punctual_model::{Duration, Instant, Service};

/// Stands for "never", in nanoseconds.
const NEVER: u64 = u64::MAX;

/// Marks that the guard is about to lift the thread.
const LIFTING: u64 = u64::MAX - 1;

/// Written by the executor's thread, with plain stores; read by the guard.
#[derive(Debug)]
pub(super) struct Watch {
    timer: Timer,
    /// The instant for which the timer is set; never if it is not set, and in the past if it has
    /// just expired.
    armed: AtomicU64,
    /// The executor's thread.
    runner: AtomicI32,
    /// The instant by which the current iteration must be over; never while idle.
    ends_by: AtomicU64,
    /// The time at which that iteration began.
    began: AtomicU64,
    /// The instant at which the thread last took its account, and the times that it had used and
    /// waited by then.
    counted_at: AtomicU64,
    used_then: AtomicU64,
    waited_then: AtomicU64,
    /// All the time for which the thread wanted no CPU, or gave way.
    waited: AtomicU64,
    /// While the thread is an ordinary one: when it must be lifted, and to which level.
    lift_at: AtomicU64,
    lift_to: AtomicU64,
    /// The time that an iteration may take once the thread is lifted.
    limit: AtomicU64,
    /// The time at which the guard must look after a demoted handler.
    aside_at: AtomicU64,
}

impl Watch {
    pub(super) fn new() -> Result<Self, TimerError> {
        Ok(Self {
            timer: Timer::new()?,
            armed: AtomicU64::new(NEVER),
            runner: AtomicI32::new(0),
            ends_by: AtomicU64::new(NEVER),
            began: AtomicU64::new(0),
            counted_at: AtomicU64::new(0),
            used_then: AtomicU64::new(0),
            waited_then: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            lift_at: AtomicU64::new(NEVER),
            lift_to: AtomicU64::new(0),
            limit: AtomicU64::new(0),
            aside_at: AtomicU64::new(NEVER),
        })
    }

    /// Makes the calling thread the one that is watched from here on.
    pub(super) fn watch_this_thread(&self) {
        self.runner.store(thread::current().as_raw(), Ordering::Release);
    }

    pub(super) fn runner(&self) -> Option<Tid> {
        Tid::from_raw(self.runner.load(Ordering::Acquire))
    }

    /// Begins the account anew: the time for which the thread was kept from running until `now`
    /// does not count.
    pub(super) fn count_from(&self, now: Instant) {
        self.used_then.store(clock::thread_cpu_time().as_nanos(), Ordering::Relaxed);
        self.waited_then.store(self.waited.load(Ordering::Relaxed), Ordering::Relaxed);
        self.counted_at.store(now.as_nanos(), Ordering::Release);
    }

    /// Adds the time from `from` to `to`, in which the thread slept because it had nothing to do,
    /// or gave way to others.
    pub(super) fn waited(&self, from: Instant, to: Instant) {
        let waited = self.waited.load(Ordering::Relaxed) + to.saturating_since(from).as_nanos();
        self.waited.store(waited, Ordering::Relaxed);
    }

    /// Returns the account when the guard was last set for the thread.
    pub(super) fn counted(&self) -> Account {
        Account {
            at: Instant::from_nanos(self.counted_at.load(Ordering::Acquire)),
            used: Service::from_nanos(self.used_then.load(Ordering::Relaxed)),
            waited: Duration::from_nanos(self.waited_then.load(Ordering::Relaxed)),
        }
    }

    /// Returns the account of `runner` at `now`.
    pub(super) fn account_of(&self, runner: Tid, now: Instant) -> Account {
        let used = usage::cpu_time_of(runner).unwrap_or(Service::ZERO);
        let waited = Duration::from_nanos(self.waited.load(Ordering::Acquire));
        Account { at: now, used, waited }
    }

    /// Publishes that the process becomes busy at `now`, with an iteration that must be over by
    /// `ends_by`. Makes no system call if the guard will look in time anyway.
    pub(super) fn busy(&self, now: Instant, ends_by: Instant) {
        // Either this sees that the guard has just woken, or the guard sees what is published here.
        self.ends_by.store(ends_by.as_nanos(), Ordering::SeqCst);
        if !self.is_armed_for(now, ends_by) {
            self.count_from(now);
            self.arm(ends_by);
        }
    }

    /// Returns whether the guard will look by `ends_by`.
    #[inline]
    pub(super) fn is_armed_for(&self, now: Instant, ends_by: Instant) -> bool {
        let armed = self.armed.load(Ordering::SeqCst);
        now.as_nanos() < armed && armed <= ends_by.as_nanos()
    }

    /// Sets the timer so that the guard looks at `at`.
    pub(super) fn arm(&self, at: Instant) {
        self.armed.store(at.as_nanos(), Ordering::SeqCst);
        self.timer.set(at);
    }

    /// Sleeps until it is time to look. Returns the instant for which the timer was set.
    pub(super) fn wait(&self) -> Result<Instant, WaitError> {
        let waited = self.timer.wait();
        let armed = self.armed.swap(NEVER, Ordering::SeqCst);
        waited.map(|()| Instant::from_nanos(armed))
    }

    /// Publishes that the next iteration begins at `now` and must be over by `at`. Uses plain
    /// stores; lending the executor after them publishes them.
    #[inline]
    pub(super) fn must_end_by(&self, now: Instant, at: Instant) {
        self.began.store(now.as_nanos(), Ordering::Relaxed);
        self.ends_by.store(at.as_nanos(), Ordering::Relaxed);
    }

    /// Publishes that nothing runs until `until` that could fail to end. If the guard would only
    /// look before that, in vain, the timer is cleared. If it looks later, the next jobs need not
    /// set it anew.
    pub(super) fn idle(&self, until: Instant) {
        self.ends_by.store(NEVER, Ordering::Relaxed);
        // While a handler is demoted nothing else would set the timer.
        let is_in_vain = self.aside_at.load(Ordering::Relaxed) == NEVER;
        if is_in_vain && self.armed.load(Ordering::Relaxed) < until.as_nanos() {
            self.timer.clear();
            self.armed.store(NEVER, Ordering::Relaxed);
        }
    }

    /// Sets when the guard must look in any case; `None` if it need not any more.
    pub(super) fn looks_aside_at(&self, at: Option<Instant>) {
        self.aside_at.store(at.map_or(NEVER, Instant::as_nanos), Ordering::Relaxed);
    }

    /// Returns when the current iteration began.
    pub(super) fn began(&self) -> Instant {
        Instant::from_nanos(self.began.load(Ordering::Acquire))
    }

    pub(super) fn ends_by(&self) -> Instant {
        Instant::from_nanos(self.ends_by.load(Ordering::SeqCst))
    }

    /// Publishes that the thread is an ordinary one from here on, to be lifted to the SCHED_FIFO
    /// priority `level` at `at`; its iteration may then take `limit` more.
    pub(super) fn lift(&self, level: u8, at: Instant, limit: Duration) {
        self.limit.store(limit.as_nanos(), Ordering::Relaxed);
        self.lift_to.store(u64::from(level), Ordering::Relaxed);
        // Never is so far away that a release just before it need not be distinguished from it.
        self.lift_at.store(at.as_nanos().min(LIFTING - 1), Ordering::Release);
    }

    /// Publishes that the calling thread needs no lifting any more. It is not lifted after this
    /// returns.
    pub(super) fn needs_no_lift(&self) {
        // The guard lifts within one system call, above every upcall; on this CPU it is done
        // already.
        while self.lift_at.load(Ordering::Acquire) == LIFTING {
            std::thread::yield_now();
        }
        let at = self.lift_at.load(Ordering::Acquire);
        let taken = self.lift_at.compare_exchange(at, NEVER, Ordering::AcqRel, Ordering::Acquire);
        if taken == Err(LIFTING) {
            self.needs_no_lift();
        }
    }

    /// Lifts the thread by `lift` if it is to be lifted at `at`.
    pub(super) fn lift_now(&self, at: Instant, lift: impl FnOnce()) -> bool {
        let is_due = self.lift_at.compare_exchange(
            at.as_nanos(),
            LIFTING,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        if is_due.is_ok() {
            lift();
            self.lift_at.store(NEVER, Ordering::Release);
        }
        is_due.is_ok()
    }

    /// Returns when and to which level the thread must be lifted.
    pub(super) fn to_lift(&self) -> Option<(Instant, u8)> {
        let at = self.lift_at.load(Ordering::Acquire);
        let level = self.lift_to.load(Ordering::Relaxed) as u8;
        (at < LIFTING).then_some((Instant::from_nanos(at), level))
    }

    /// Gives the iteration its time anew after the guard lifted the thread at `now`: its time
    /// before that was best effort.
    pub(super) fn lifted(&self, now: Instant) {
        let before = self.ends_by.load(Ordering::Acquire);
        let by = now.as_nanos().saturating_add(self.limit.load(Ordering::Relaxed));
        if before != NEVER {
            // If the thread published something else meanwhile, that holds.
            let _ = self.ends_by.compare_exchange(
                before,
                before.max(by),
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
        }
    }
}

/// A thread's account at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) at: Instant,
    /// All the processor time that it has had.
    pub(super) used: Service,
    /// All the time for which it did not want the CPU.
    pub(super) waited: Duration,
}

impl Account {
    pub(super) const NONE: Self =
        Self { at: Instant::ZERO, used: Service::ZERO, waited: Duration::ZERO };

    /// Returns for how long, since `before`, the thread wanted the CPU in vain: other threads ran,
    /// or the host of a virtual machine did.
    pub(super) fn deprived_since(self, before: Self) -> Duration {
        let used = self.used.saturating_sub(before.used).at_full_speed();
        let waited = self.waited.saturating_sub(before.waited);
        let had = used.saturating_add(waited);
        self.at.saturating_since(before.at).saturating_sub(had)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn account(at: u64, used: u64, waited: u64) -> Account {
        let at = Instant::ZERO + ms(at);
        Account { at, used: Service::from_millis(used), waited: ms(waited) }
    }

    #[test]
    fn time_neither_used_nor_waited_counts_as_deprived() {
        let before = account(100, 40, 30);
        assert_eq!(account(110, 45, 32).deprived_since(before), ms(3));
        assert_eq!(account(110, 50, 30).deprived_since(before), ms(0), "it ran all the time");
        assert_eq!(account(110, 40, 40).deprived_since(before), ms(0), "it slept all the time");
        assert_eq!(account(110, 50, 40).deprived_since(before), ms(0), "counted twice, at worst");
    }

    #[test]
    fn the_sum_does_not_depend_on_the_number_of_looks() {
        let looks = [account(0, 0, 0), account(5, 3, 1), account(9, 3, 4), account(30, 20, 5)];
        let whole = looks[3].deprived_since(looks[0]);
        let parts = looks.windows(2).map(|pair| pair[1].deprived_since(pair[0]));
        assert_eq!(parts.fold(ms(0), Duration::saturating_add), whole);
    }
}
