//! Delays preemption across processes by the kernel's own FIFO queue.
//!
//! The thread that runs a process's upcalls waits at the SCHED_FIFO priority that belongs to the
//! period of the next upcall ([`level_of`]), and rises to one common running level ([`RUNNING`])
//! while it runs. At that level no upcall of the host can preempt it, however high its rate. When
//! it sinks, the kernel picks the most urgent waiting thread. So the kernel's FIFO queue is the run
//! queue of RMDP (real-time upcalls, §5.1) across processes, with no daemon between two upcalls.
//! The processes of a user share a table of releases ([`punctual_ring::releases`]). Before each job
//! and at each yield point the thread looks in it for a waiter at a higher level than that of its
//! job. Only if there is one does it sink to its job's level and rise again. Looking costs no
//! system call.
//!
//! **The successor lowers its predecessor.** A thread that has nothing more to do goes to sleep at
//! the running level. If it lowered itself while a more urgent thread waited, it would be switched
//! out, and in again only to go to sleep. The next thread to run rises and lowers it. If no other
//! thread runs before its next release, it needs no system call to run. It lowers itself only if
//! something more urgent is released at about the same time: then the kernel must decide.
//!
//! **The running thread keeps the queue in order.** A waiting thread may become entitled to a
//! higher level when a faster upcall of its process is released. Its next releases are in the
//! table, so the running thread raises it before leaving the CPU.
//!
//! The order of the steps makes this safe. The table says that a thread waits *before* its priority
//! is lowered, by itself or by another, and that it runs only *after* it has risen. A thread offers
//! its priority to others (the priority handoff) before it is lowered, and takes it back after it
//! has risen. In the reverse order a waiting thread can be overlooked. `models/` has the protocol
//! for a model checker, with these mistakes as further runs that must fail;
//! `docs/model-checking.md` says what was checked.
//!
//! Guarantees on one CPU, between the processes of one user:
//! - No upcall is preempted by an upcall inside a quantum.
//! - An upcall released at a higher level than the running job's gets the CPU at that job's next
//!   yield point after its timer has fired. If the running process has a [turn allowance](Turns),
//!   it is the first yield point after the allowance. Equal levels (periods less than 12 % apart)
//!   do not give way to each other. Within a process the policy decides, exactly.
//! - A process that is stopped or writes rubbish makes each other process sink in vain now and
//!   then, at intervals that double each time. No process waits for it and no CPU time is kept for
//!   it. When it is continued, its releases have passed, and its policy catches up with the newest
//!   of them ([`most_pending`](punctual_policy::rmdp::most_pending)). The first vain try, or the
//!   next process to start, clears the entries of a killed process.
//!
//! Not guaranteed:
//! - Processes of different users have separate tables. A job of one user does not give way at
//!   yield points to one of another user, only between its turns. Threads that sleep at the running
//!   level come before waiting threads of another user.
//! - Levels belong to the host, not to a CPU. A thread that waits on another CPU, behind another
//!   process and pinned there, makes the thread that runs here sink in vain (some 2 µs a try). Only
//!   threads that run on its own CPU raise it.
//! - If a thread is stopped or killed between claiming and setting another thread's priority, that
//!   other thread keeps its priority until it runs. When the first one is continued, it corrects
//!   the priority; if the other thread runs at that time on another CPU, it may be preempted until
//!   it next waits.
//! - Admission looks at the upcalls of one process only.
//! - A process that forks without exec keeps its slot until the child has ended too.
//! - Raising another process's thread takes that process's limit RLIMIT_RTPRIO, or our own
//!   CAP_SYS_NICE. Where both are missing the thread keeps its level and makes others sink in vain.
//!
//! Inside one process all upcalls share a thread, and the policy orders them without any system
//! call.

mod neighbours;
mod rates;

use std::sync::{Mutex, OnceLock, PoisonError};

use punctual_linux::sched::{Class, SchedError};
use punctual_linux::shm::Shared;
use punctual_linux::{clock, sched, shm};
use punctual_model::{Duration, Instant};
use punctual_ring::releases::{Entry, Patience, Releases, SLOTS, WORDS};

use crate::upcalls::StartError;
use neighbours::{Neighbours, OwnHandoff, Risen};

pub(crate) use rates::Rates;
pub use rates::{GUARD, LOWEST, RUNNING, level_of};

/// The shared table's name, unless [`set_table`] chose another.
const TABLE: &str = "releases";

static CHOSEN_TABLE: OnceLock<String> = OnceLock::new();

/// Releases nearer to each other than this may find both threads awake before one of them has
/// risen: about the latency of a wake-up.
const TOGETHER: Duration = Duration::from_micros(100);

static TURNS: Mutex<Turns> = Mutex::new(Turns::STRICT);

/// Makes this process keep the order only with processes that chose the same table
/// ([`punctual_linux::shm::path`]), not with the user's other programs: for tests, which may write
/// rubbish there. Returns whether the choice took effect: it must come before the first upcalls
/// run, and only once.
#[doc(hidden)]
#[must_use]
pub fn set_table(name: &str) -> bool {
    CHOSEN_TABLE.set(name.to_owned()).is_ok()
}

/// A thread's place in the protocol.
#[derive(Debug)]
pub(crate) struct LevelOrder {
    rates: Rates,
    turns: Turns,
    shared: Shared,
    handoff: OwnHandoff,
    neighbours: Neighbours,
    patience: Patience,
}

impl LevelOrder {
    /// Takes a slot in the table, and puts the calling thread under SCHED_FIFO at the running
    /// level.
    pub(crate) fn enter(rates: Rates) -> Result<Self, StartError> {
        // The thread is still an ordinary one here: opening and mapping a file takes long, and may
        // wait for a process that is about to leave.
        let table = CHOSEN_TABLE.get_or_init(|| TABLE.to_owned());
        let shared = Shared::join(&shm::path(table), WORDS, SLOTS)?;
        let patience = Patience::new(shared.place());
        let mut neighbours = Neighbours::new();
        neighbours.clear_dead(&shared);
        Releases::new(shared.words()).begin(shared.place());
        let handoff = OwnHandoff::held();
        // If the class is refused, dropping this clears its slot.
        let entered = Self { rates, turns: turns(), shared, handoff, neighbours, patience };
        sched::set(entered.handoff.thread(), Class::Fifo { priority: RUNNING })?;
        // A thread that a handler starts must not keep the running level.
        sched::reset_on_fork()?;
        Ok(entered)
    }

    /// Replaces the upcalls of the process, or the times of their releases. Returns the old ones,
    /// so that they can be freed elsewhere. Allocates nothing.
    ///
    /// A waiting thread's published entries stay until it runs. So the thread must call this
    /// itself, and then rise or sink.
    pub(crate) fn set_rates(&mut self, rates: Rates) -> Rates {
        std::mem::replace(&mut self.rates, rates)
    }

    /// Lets the calling thread replace the previous thread, which was running an upcall. The
    /// calling thread gets the running level, and others set its priority from now on when it
    /// waits. The previous thread keeps its priority; the caller lowers it.
    pub(crate) fn take_over(&mut self) -> Result<(), SchedError> {
        // The calling thread comes first: while neither is at the running level, another thread
        // would run.
        let own = OwnHandoff::held();
        sched::set(own.thread(), Class::Fifo { priority: RUNNING })?;
        sched::reset_on_fork()?;
        self.handoff.take_back(&self.shared);
        self.handoff = own;
        self.table().clear(self.shared.place());
        Ok(())
    }

    /// Rises before an upcall runs. Returns whether that took a system call, and so perhaps a wait.
    pub(crate) fn rise(&mut self) -> Result<bool, SchedError> {
        Ok(self.get_up()?.is_some_and(|risen| risen.took_a_call))
    }

    /// Sinks before waiting for the release, at `until`, of an upcall of this period.
    pub(crate) fn sink(&mut self, period: Duration, until: Instant) -> Result<(), SchedError> {
        // The thread may have been woken by something else than its release.
        self.rise()?;
        let now = clock::now();
        if until <= now {
            return Ok(());
        }
        let level = level_of(period);
        self.neighbours.put_in_order(&self.shared, now);
        if self.turns.lowering == Lowering::BySuccessor && self.may_stay(level, until, now) {
            self.publish(level, until);
            self.handoff.offer(&self.shared, RUNNING);
            return Ok(());
        }
        self.sink_to(level, until)
    }

    /// Returns whether something more urgent than the upcall at `task` waits and the allowance is
    /// used up. Makes no system call.
    pub(crate) fn must_give_way(&self, task: u32, now: Instant) -> bool {
        let level = self.rates.level(task);
        self.patience.runs_out(self.table(), level, self.due(now))
    }

    /// Lets threads run that are more urgent than the upcall at `task`; returns when they have run.
    pub(crate) fn give_way(&mut self, task: u32, now: Instant) -> Result<(), SchedError> {
        let level = self.rates.level(task);
        self.neighbours.put_in_order(&self.shared, now);
        self.sink_to(level, now)?;
        // Here the other threads run.
        let risen = self.get_up()?;
        // If another thread raised this one meanwhile, it may have come before some of the threads
        // for which it sank.
        let level = risen.map_or(RUNNING, |risen| risen.from).max(level);
        let due = self.due(now);
        let Self { shared, neighbours, patience, .. } = self;
        let table = Releases::new(shared.words());
        patience.gave_way(table, level, due, clock::now().as_nanos(), |slot| {
            neighbours.clear_if_dead(shared, slot);
        });
        Ok(())
    }

    /// Rises to the running level; returns `None` if the thread is there already.
    fn get_up(&mut self) -> Result<Option<Risen>, SchedError> {
        let risen = self.handoff.rise(&self.shared)?;
        if risen.is_some() {
            self.table().clear(self.shared.place());
            self.neighbours.put_in_order(&self.shared, clock::now());
        }
        Ok(risen)
    }

    /// Returns the instant before which a release must not wait for this thread any longer.
    fn due(&self, now: Instant) -> u64 {
        now.as_nanos().saturating_sub(self.turns.allowance.as_nanos())
    }

    /// Returns whether the thread can go to sleep at the running level until `until`. It can if
    /// something more urgent waits, which will run next and lower it, or if nothing more urgent is
    /// released at about that time, which it would keep waiting.
    fn may_stay(&self, level: u8, until: Instant, now: Instant) -> bool {
        if until == Instant::MAX {
            return false;
        }
        let (table, own) = (self.table(), self.shared.place());
        self.patience.runs_out(table, level, now.as_nanos())
            || !table.crowded(own, level, until.as_nanos(), TOGETHER.as_nanos())
    }

    fn sink_to(&mut self, level: u8, from: Instant) -> Result<(), SchedError> {
        self.publish(level, from);
        self.handoff.offer(&self.shared, level);
        sched::set_fifo_priority(self.handoff.thread(), level)
    }

    /// Announces in advance that the thread waits at `level` from `from` on.
    fn publish(&mut self, level: u8, from: Instant) {
        let then = self.rates.next_above(level, from);
        let waits = Entry { level, from: from.as_nanos() };
        self.table().publish(self.shared.place(), Some(waits), then);
    }

    fn table(&self) -> Releases<'_> {
        Releases::new(self.shared.words())
    }
}

impl Drop for LevelOrder {
    fn drop(&mut self) {
        // Another thread that has claimed the handoff may still set the priority of a thread that
        // is about to end.
        self.handoff.take_back(&self.shared);
        self.table().clear(self.shared.place());
    }
}

/// The way in which the upcalls of this process take turns with those of other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    /// The time for which this process may go on with its own jobs, back to back, after something
    /// more urgent is released in another process. With zero it gives way at its next yield point
    /// (RMDP as in the paper).
    ///
    /// An upcall that is more urgent waits at most for the allowance, then to the end of the
    /// running quantum. So admission of the *other* processes must count the longest `allowance +
    /// quantum` of any less urgent process as blocking, in place of the quantum.
    pub allowance: Duration,
    /// The thread that lowers this one when it has nothing more to do.
    pub lowering: Lowering,
}

/// The thread that lowers one that has nothing more to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lowering {
    /// The next thread to run lowers it: a thread that goes to sleep need not be switched in again
    /// for it.
    BySuccessor,
    /// The thread lowers itself at once. Exists for comparison.
    ByItself,
}

impl Turns {
    /// No allowance, lowered by the successor: the default until [`set_turns`] is called.
    pub const STRICT: Self = Self { allowance: Duration::ZERO, lowering: Lowering::BySuccessor };
}

/// Sets how this process takes turns with others, from its next
/// [`Upcalls::run`](crate::Upcalls::run) on.
///
/// ```
/// use punctual_model::Duration;
/// use punctual_runtime::level_order::{Turns, set_turns, turns};
///
/// set_turns(Turns { allowance: Duration::from_millis(2), ..Turns::STRICT });
/// assert_eq!(turns().allowance, Duration::from_millis(2));
/// ```
pub fn set_turns(turns: Turns) {
    // A plain value is whole even if a writer panicked.
    *TURNS.lock().unwrap_or_else(PoisonError::into_inner) = turns;
}

/// Returns how this process takes turns with others.
pub fn turns() -> Turns {
    *TURNS.lock().unwrap_or_else(PoisonError::into_inner)
}
