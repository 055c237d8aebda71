//! The state that the threads of a process's upcalls share with their owner, and the end of the
//! loop as the owner gets it.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

use punctual_linux::park::EventCount;
use punctual_linux::sched::SchedError;
use punctual_linux::timer::{TimerError, WaitError};
use punctual_model::{Backlog, Instant, Service};

use super::watch::Watch;
use crate::level_order::Rates;
use crate::placement::NotGranted;
use crate::upcalls::notice::Activity;

/// The state that the threads of a process's upcalls share with their owner.
pub(crate) struct Shared<H> {
    pub(super) watch: Watch,
    /// Counted for the executor: an order, or a handler that returned.
    pub(crate) wakeups: EventCount,
    /// Counted for the owner: an answer.
    pub(crate) answered: EventCount,
    /// Counted for the owner: an upcall's activity changed.
    pub(crate) changed: EventCount,
    /// Counted for the observer: an urgent notice.
    pub(crate) noticed: EventCount,
    /// The upcall's number and activity, by slot.
    activities: Box<[AtomicU64]>,
    /// Set when the guard must end.
    pub(super) ends: AtomicBool,
    /// Set when the run loop has begun.
    pub(super) begun: AtomicBool,
    /// Set when the run loop has ended.
    pub(super) over: AtomicBool,
    /// The reason why the guard cannot watch any more.
    pub(super) unwatched: OnceLock<WaitError>,
    /// The number of notices dropped because the owner did not take them out in time.
    pub(super) notices_lost: AtomicU64,
    /// The last instant at which no job was released and not complete.
    idle_at: AtomicU64,
    finish: SyncSender<Finish<H>>,
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
}

/// The remains of a run loop that has ended.
pub(crate) struct Finish<H> {
    pub(crate) end: End,
    pub(crate) unfinished: Vec<Backlog>,
    pub(crate) exec_time: Service,
    /// The handlers with the numbers of their upcalls.
    pub(crate) handlers: Vec<(u32, Box<H>)>,
    /// Handlers that may still return.
    pub(crate) out: Vec<Out<H>>,
    /// True if a panic took what the executor's thread owned: then it is not known which handlers
    /// are out.
    pub(crate) is_lost: bool,
    /// Freed together with this.
    pub(super) _retired: Vec<Rates>,
}

impl<H> Finish<H> {
    /// Creates a finish for the case that everything else is lost.
    pub(super) fn lost(end: End) -> Self {
        let (unfinished, handlers, out) = (Vec::new(), Vec::new(), Vec::new());
        let (exec_time, _retired) = (Service::ZERO, Vec::new());
        Self { end, unfinished, exec_time, handlers, out, is_lost: true, _retired }
    }
}

/// Packs a slot's activity and its upcall's number into one word.
fn activity_word(task: Option<u32>, activity: Activity) -> u64 {
    let code = match activity {
        Activity::Closed => 0,
        Activity::Active => 1,
        Activity::Suspended => 2,
        Activity::Contained => 3,
    };
    task.map_or(0, |task| u64::from(task) << 2 | code)
}

impl<H> Shared<H> {
    pub(crate) fn new(room: usize, finish: SyncSender<Finish<H>>) -> Result<Self, TimerError> {
        Ok(Self {
            watch: Watch::new()?,
            wakeups: EventCount::new(),
            answered: EventCount::new(),
            changed: EventCount::new(),
            noticed: EventCount::new(),
            activities: (0..room).map(|_| AtomicU64::new(0)).collect(),
            ends: AtomicBool::new(false),
            begun: AtomicBool::new(false),
            over: AtomicBool::new(false),
            unwatched: OnceLock::new(),
            notices_lost: AtomicU64::new(0),
            idle_at: AtomicU64::new(0),
            finish,
            threads: Mutex::new(Vec::new()),
        })
    }

    pub(super) fn set_activity(&self, slot: u32, task: Option<u32>, activity: Activity) {
        let word = activity_word(task, activity);
        self.activities[slot as usize].store(word, Ordering::Release);
        self.changed.notify();
    }

    /// Returns the activity of the upcall that was given this number and slot.
    pub(crate) fn activity(&self, slot: u32, task: u32) -> Activity {
        let word = self.activities[slot as usize].load(Ordering::Acquire);
        match (word >> 2 == u64::from(task), word & 3) {
            (true, 1) => Activity::Active,
            (true, 2) => Activity::Suspended,
            (true, 3) => Activity::Contained,
            _ => Activity::Closed,
        }
    }

    /// Records that at `now` every released job is complete.
    pub(super) fn idle(&self, now: Instant) {
        self.idle_at.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// Returns the last instant that [`Self::idle`] recorded.
    pub(crate) fn idle_at(&self) -> Instant {
        Instant::from_nanos(self.idle_at.load(Ordering::Relaxed))
    }

    /// Returns whether there is or will be something to [`Finish`].
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// Returns whether the run loop has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Tells the owner that the run loop has ended.
    pub(super) fn ended(&self, finish: Finish<H>) {
        self.over.store(true, Ordering::Release);
        // An owner that is gone waits for nothing.
        let _ = self.finish.send(finish);
        self.changed.notify();
        self.answered.notify();
    }

    /// Returns how many notices were dropped.
    pub(crate) fn notices_lost(&self) -> u64 {
        self.notices_lost.load(Ordering::Relaxed)
    }

    /// Ends the guard.
    pub(crate) fn end_guard(&self) {
        self.ends.store(true, Ordering::Release);
        self.watch.arm(Instant::ZERO);
    }

    pub(crate) fn add_thread(&self, thread: JoinHandle<()>) {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
    }
}

/// The payload of a panic.
pub(crate) type Payload = Box<dyn Any + Send>;

/// A contained handler that returned, or the panic in which it was lost.
pub(crate) type Home<H> = Result<Box<H>, Payload>;

/// A contained handler.
pub(crate) struct Out<H> {
    pub(super) slot: u32,
    pub(crate) task: u32,
    pub(crate) comes_by: rtrb::Consumer<Home<H>>,
    /// The earliest time at which it is released again.
    pub(super) not_before: Instant,
}

/// The reason why the run loop ended.
pub(crate) enum End {
    /// The owner stopped it.
    Stopped,
    /// The kernel took the class away.
    Class(SchedError),
    /// A handler panicked.
    Panicked(Payload),
    /// After a containment the next thread was granted no class.
    NotGranted(NotGranted),
    /// There is no guard any more: after a containment no thread could be created for the next one,
    /// or its timer failed.
    Unwatched(std::io::Error),
}

impl From<SchedError> for End {
    fn from(error: SchedError) -> Self {
        Self::Class(error)
    }
}
