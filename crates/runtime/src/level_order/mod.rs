//! Delayed preemption by the kernel's own FIFO queue, across processes.
//!
//! The thread that runs a process's upcalls waits at the SCHED_FIFO priority of what it waits for
//! ([`level_of`] its period), and rises to one common ceiling while it runs. While it is there no
//! upcall of the host can preempt it, however high its rate; when it sinks, the kernel itself picks
//! the most urgent waiter. So the kernel's FIFO queue is the run queue of RMDP (real-time upcalls,
//! §5.1) across processes, with no daemon between two upcalls. When to sink is read from a table
//! that the processes of a user share ([`punctual_ring::releases`]): before each job and at each
//! yield point the thread looks whether anybody waits at a higher level than that of its job, and
//! only then sinks to that level and rises again. Looking costs no system call.
//!
//! **The successor lowers its predecessor.** A thread that has nothing more to do goes to sleep
//! where it is, at the ceiling. Had it lowered itself while somebody more urgent waited, it would be
//! switched out, and in again only to go to sleep. Whoever runs next rises, and lowers it. If nobody
//! does before its next release, it needs no system call to run. It lowers itself only if somebody
//! more urgent is released at about the same time as it: then the kernel is to decide.
//!
//! **Whoever runs keeps the queue in order.** A process may come to deserve more while its thread
//! waits; its next releases are in the table, so whoever runs raises it before leaving the CPU.
//!
//! The order of the steps is what makes this safe: the table says that a thread waits *before* its
//! priority is lowered, by whomever, and that it runs only *after* it has risen; and a thread gives
//! others the right to set its priority before it is lowered, and takes it back after it has risen.
//! The reverse lets a waiter be overlooked. `models/` has the protocol for a model checker, with
//! these mistakes as further runs that must fail; `docs/model-checking.md` says what was checked.
//!
//! What holds on one CPU, between the processes of one user:
//! - No upcall is preempted by an upcall inside a quantum.
//! - Whoever is released at a higher level than the running job's gets the CPU at that job's next
//!   yield point, as soon as his timer has fired, or if the process has a [turn allowance](Turns),
//!   at its first yield point after that. Equal levels (periods less than 12 % apart) do not give
//!   way to each other. Within a process the policy decides, exactly.
//! - A process that is stopped or writes rubbish costs each other one a vain sinking now and then,
//!   twice as old each time; nobody waits for it and nothing is kept for it. A continued one finds
//!   its releases passed, and its policy catches up with the newest of them
//!   ([`most_pending`](punctual_policy::rmdp::most_pending)). Of one that was killed, the first vain try, or
//!   the next process to start, clears what it left.
//!
//! What does not:
//! - Processes of different users have tables of their own: a job of one is not interrupted at
//!   yield points for one of another, only between its turns, and those that sleep at the ceiling
//!   come before what waits of another user's.
//! - Levels are the host's, not a CPU's. Whoever waits on another CPU, behind another process and
//!   pinned there, makes the one who runs here sink in vain (some 2 µs a try), and is raised only
//!   by those who run on his CPU.
//! - A thread that is stopped or killed between claiming and setting another's priority leaves that
//!   one to itself until it runs. A continued one then sets it right; if the other runs at that time
//!   on another CPU, it may be preempted until it next waits.
//! - Admission looks at the upcalls of one process only.
//! - A process that forks without exec keeps its slot until the child has ended too.
//! - Raising another process's thread takes that process's limit RLIMIT_RTPRIO, or our own
//!   CAP_SYS_NICE. Where both are missing it waits where it waits, and costs vain sinkings.
//!
//! Inside one process all upcalls share a thread and are ordered by the policy without any system
//! call.

mod level;
mod neighbours;
mod rates;
mod turns;

use std::sync::OnceLock;

use punctual_linux::clock;
use punctual_linux::sched::{self, Class, SchedError};
use punctual_linux::shm::{self, Shared};
use punctual_model::{Duration, Instant};
use punctual_ring::releases::{Entry, Patience, Releases, SLOTS, WORDS};

use crate::upcalls::StartError;
use neighbours::{Neighbours, OwnHandoff, Risen};

pub use level::{GUARD, LOWEST, RUNNING, level_of};
pub(crate) use rates::Rates;
pub use turns::{Lowering, Turns, set_turns, turns};

/// The shared table's name, unless [`set_table`] said another.
const TABLE: &str = "releases";

static CHOSEN_TABLE: OnceLock<String> = OnceLock::new();

/// This process keeps the order with those alone that chose the same table
/// ([`punctual_linux::shm::path`]), not with the user's other programs: for tests, which may write
/// rubbish there. Whether it came in time, before the first upcalls ran and but once.
#[doc(hidden)]
#[must_use]
pub fn set_table(name: &str) -> bool {
    CHOSEN_TABLE.set(name.to_owned()).is_ok()
}

/// Releases nearer than this to each other may find both threads awake before one of them has
/// risen: about the latency of a wake-up.
const TOGETHER: Duration = Duration::from_micros(100);

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
    /// Takes a slot in the table, and puts the calling thread under SCHED_FIFO, at the ceiling.
    pub(crate) fn enter(rates: Rates) -> Result<Self, StartError> {
        // As the ordinary thread that it still is: to open and map a file takes long, and may wait
        // for whoever is about to leave.
        let table = CHOSEN_TABLE.get_or_init(|| TABLE.to_owned());
        let shared = Shared::join(&shm::path(table), WORDS, SLOTS)?;
        let patience = Patience::new(shared.place());
        let mut neighbours = Neighbours::new();
        neighbours.bury_the_dead(&shared);
        Releases::new(shared.words()).begin(shared.place());
        let handoff = OwnHandoff::held();
        // Dropped, it clears its slot: should the class be refused.
        let entered = Self { rates, turns: turns(), shared, handoff, neighbours, patience };
        sched::set(entered.handoff.thread(), Class::Fifo { priority: RUNNING })?;
        // What a handler starts is not to keep the ceiling.
        sched::reset_on_fork()?;
        Ok(entered)
    }

    /// The upcalls of the process are others, or released at other times, from here on. Gives what
    /// they were, so that it can be freed elsewhere. Allocates nothing.
    ///
    /// What a thread that waits has published stays until it runs: so it is to be called by the
    /// thread itself, which then rises or sinks.
    pub(crate) fn set_rates(&mut self, rates: Rates) -> Rates {
        std::mem::replace(&mut self.rates, rates)
    }

    /// The calling thread goes on in the place of the one that had it, which was running an upcall:
    /// at the ceiling, as the one whose priority others set when it waits. The other one is as it
    /// was, and nobody's concern: the caller lowers it.
    pub(crate) fn take_over(&mut self) -> Result<(), SchedError> {
        // First this one: while neither is at the ceiling, somebody else would run.
        let own = OwnHandoff::held();
        sched::set(own.thread(), Class::Fifo { priority: RUNNING })?;
        sched::reset_on_fork()?;
        self.handoff.take_back(&self.shared);
        self.handoff = own;
        self.table().clear(self.shared.place());
        Ok(())
    }

    /// Before an upcall runs. Whether that took a system call, and so perhaps a wait.
    pub(crate) fn rise(&mut self) -> Result<bool, SchedError> {
        Ok(self.get_up()?.is_some_and(|risen| risen.took_a_call))
    }

    /// Before waiting for the release, at `until`, of an upcall of this period.
    pub(crate) fn sink(&mut self, period: Duration, until: Instant) -> Result<(), SchedError> {
        // Woken by something else than its release.
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

    /// Whether somebody waits who is more urgent than the upcall at `task`, and the allowance is
    /// used up. No system call.
    pub(crate) fn must_give_way(&self, task: u32, now: Instant) -> bool {
        let level = self.rates.level(task);
        self.patience.runs_out(self.table(), level, self.due(now))
    }

    /// Lets those run who are more urgent than the upcall at `task`; comes back when they have.
    pub(crate) fn give_way(&mut self, task: u32, now: Instant) -> Result<(), SchedError> {
        let level = self.rates.level(task);
        self.neighbours.put_in_order(&self.shared, now);
        self.sink_to(level, now)?;
        // Here the others run.
        let risen = self.get_up()?;
        // Whoever raised it meanwhile may have lifted it past some of those for whom it sank.
        let level = risen.map_or(RUNNING, |risen| risen.from).max(level);
        let due = self.due(now);
        let Self { shared, neighbours, patience, .. } = self;
        let table = Releases::new(shared.words());
        patience.gave_way(table, level, due, clock::now().as_nanos(), |slot| {
            neighbours.bury_if_dead(shared, slot);
        });
        Ok(())
    }

    /// None if it is up already.
    fn get_up(&mut self) -> Result<Option<Risen>, SchedError> {
        let risen = self.handoff.rise(&self.shared)?;
        if risen.is_some() {
            self.table().clear(self.shared.place());
            self.neighbours.put_in_order(&self.shared, clock::now());
        }
        Ok(risen)
    }

    /// Whoever was released before this is not to wait for us.
    fn due(&self, now: Instant) -> u64 {
        now.as_nanos().saturating_sub(self.turns.allowance.as_nanos())
    }

    /// Whether the thread can go to sleep at the ceiling until `until`: if somebody more urgent
    /// waits, who will run next and lower it; or if nobody more urgent is released when it is, whom
    /// it would keep waiting.
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

    /// Says, before it is so, that the thread waits at `level` from `from` on.
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
        // Whoever has the reins may still set the priority of a thread that is about to end.
        self.handoff.take_back(&self.shared);
        self.table().clear(self.shared.place());
    }
}
