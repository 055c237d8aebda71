//! What the thread that turns publishes, for the one that watches it.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use punctual_linux::clock;
use punctual_linux::thread::{self, Tid};
use punctual_linux::timer::{Timer, TimerError, WaitError};
use punctual_linux::usage;
use punctual_model::{Duration, Instant, Service};

use super::account::Account;

/// Never, as nanoseconds.
const NEVER: u64 = u64::MAX;

/// The guard is about to lift the thread.
const LIFTING: u64 = u64::MAX - 1;

/// Written by the thread that turns, with plain stores; read by the guard.
#[derive(Debug)]
pub(super) struct Watch {
    timer: Timer,
    /// For when the timer is set; never if it is not, and in the past if it has just expired.
    armed: AtomicU64,
    /// Who turns.
    runner: AtomicI32,
    /// The instant by which the current iteration must be over; never while idle.
    ends_by: AtomicU64,
    /// When that iteration began.
    began: AtomicU64,
    /// When the thread last looked at its account, and what it had had and waited by then.
    counted_at: AtomicU64,
    used_then: AtomicU64,
    waited_then: AtomicU64,
    /// For how long it has wanted no CPU, or given way, ever.
    waited: AtomicU64,
    /// While the thread is an ordinary one: when it must be lifted, and to which level.
    lift_at: AtomicU64,
    lift_to: AtomicU64,
    /// How long an iteration may take once it is lifted.
    limit: AtomicU64,
    /// When the guard must look after a handler that was put aside.
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

    /// The calling thread turns from here on.
    pub(super) fn turned_by_this_thread(&self) {
        self.runner.store(thread::current().as_raw(), Ordering::Release);
    }

    pub(super) fn runner(&self) -> Option<Tid> {
        Tid::from_raw(self.runner.load(Ordering::Acquire))
    }

    /// The account begins anew: what the thread was kept from until `now` was right.
    pub(super) fn count_from(&self, now: Instant) {
        self.used_then.store(clock::thread_cpu_time().as_nanos(), Ordering::Relaxed);
        self.waited_then.store(self.waited.load(Ordering::Relaxed), Ordering::Relaxed);
        self.counted_at.store(now.as_nanos(), Ordering::Release);
    }

    /// The thread slept from `from` to `to` because it had nothing to do, or gave way to others.
    pub(super) fn waited(&self, from: Instant, to: Instant) {
        let waited = self.waited.load(Ordering::Relaxed) + to.saturating_since(from).as_nanos();
        self.waited.store(waited, Ordering::Relaxed);
    }

    /// Its account when the guard was last set for it.
    pub(super) fn counted(&self) -> Account {
        Account {
            at: Instant::from_nanos(self.counted_at.load(Ordering::Acquire)),
            used: Service::from_nanos(self.used_then.load(Ordering::Relaxed)),
            waited: Duration::from_nanos(self.waited_then.load(Ordering::Relaxed)),
        }
    }

    /// The account of `runner` at `now`.
    pub(super) fn account_of(&self, runner: Tid, now: Instant) -> Account {
        let used = usage::cpu_time_of(runner).unwrap_or(Service::ZERO);
        let waited = Duration::from_nanos(self.waited.load(Ordering::Acquire));
        Account { at: now, used, waited }
    }

    /// The process becomes busy at `now`, with an iteration that must be over by `ends_by`. No
    /// system call if the guard will look in time anyway.
    pub(super) fn busy(&self, now: Instant, ends_by: Instant) {
        // Either this sees that the guard has just woken, or the guard sees what is published here.
        self.ends_by.store(ends_by.as_nanos(), Ordering::SeqCst);
        if !self.is_armed_for(now, ends_by) {
            self.count_from(now);
            self.arm(ends_by);
        }
    }

    /// Whether the guard will look by `ends_by`.
    #[inline]
    pub(super) fn is_armed_for(&self, now: Instant, ends_by: Instant) -> bool {
        let armed = self.armed.load(Ordering::SeqCst);
        now.as_nanos() < armed && armed <= ends_by.as_nanos()
    }

    /// The guard looks at `at`.
    pub(super) fn arm(&self, at: Instant) {
        self.armed.store(at.as_nanos(), Ordering::SeqCst);
        self.timer.set(at);
    }

    /// Sleeps until it is time to look. For when the timer was set.
    pub(super) fn wait(&self) -> Result<Instant, WaitError> {
        let waited = self.timer.wait();
        let armed = self.armed.swap(NEVER, Ordering::SeqCst);
        waited.map(|()| Instant::from_nanos(armed))
    }

    /// The next iteration begins at `now` and must be over by `at`. Plain stores; lending the baton
    /// after them publishes them.
    #[inline]
    pub(super) fn must_end_by(&self, now: Instant, at: Instant) {
        self.began.store(now.as_nanos(), Ordering::Relaxed);
        self.ends_by.store(at.as_nanos(), Ordering::Relaxed);
    }

    /// Nothing runs that could fail to end, until `until`. If the guard would only look before that
    /// in vain, it is not woken; if it looks after, the next jobs need not set it anew.
    pub(super) fn idle(&self, until: Instant) {
        self.ends_by.store(NEVER, Ordering::Relaxed);
        // While somebody is on probation nothing else would set the timer.
        let is_in_vain = self.aside_at.load(Ordering::Relaxed) == NEVER;
        if is_in_vain && self.armed.load(Ordering::Relaxed) < until.as_nanos() {
            self.timer.clear();
            self.armed.store(NEVER, Ordering::Relaxed);
        }
    }

    /// The guard must look then in any case; none: no more.
    pub(super) fn looks_aside_at(&self, at: Option<Instant>) {
        self.aside_at.store(at.map_or(NEVER, Instant::as_nanos), Ordering::Relaxed);
    }

    /// When the iteration began that lasts.
    pub(super) fn began(&self) -> Instant {
        Instant::from_nanos(self.began.load(Ordering::Acquire))
    }

    pub(super) fn ends_by(&self) -> Instant {
        Instant::from_nanos(self.ends_by.load(Ordering::SeqCst))
    }

    /// From here on the thread is an ordinary one, to be lifted to the SCHED_FIFO priority `level` at
    /// `at`; its iteration may then take `limit` more.
    pub(super) fn lift(&self, level: u8, at: Instant, limit: Duration) {
        self.limit.store(limit.as_nanos(), Ordering::Relaxed);
        self.lift_to.store(u64::from(level), Ordering::Relaxed);
        // Never is so far away that it need not be told from it.
        self.lift_at.store(at.as_nanos().min(LIFTING - 1), Ordering::Release);
    }

    /// The calling thread needs no lifting any more, and is not lifted after this.
    pub(super) fn needs_no_lift(&self) {
        // The guard lifts within one system call, above everybody; on this CPU it is done already.
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

    /// When and to which level the thread must be lifted.
    pub(super) fn to_lift(&self) -> Option<(Instant, u8)> {
        let at = self.lift_at.load(Ordering::Acquire);
        let level = self.lift_to.load(Ordering::Relaxed) as u8;
        (at < LIFTING).then_some((Instant::from_nanos(at), level))
    }

    /// The guard lifted the thread at `now`: what it had before was best effort, and its time begins
    /// anew.
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
