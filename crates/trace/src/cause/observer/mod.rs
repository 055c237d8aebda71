//! Turns the kernel's records into stretches of each watched thread's time.

mod state;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use punctual_model::{Duration, Instant};

use super::Stretch;
use super::spent::{Spent, Throttler};
use crate::kernel::{Comm, KernelEvent, Left, Place, Record, Seen};
use state::{Above, Cpu, State, Thread, is_lesser};

/// A watched thread went to sleep or was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// The thread sleeps from this record on.
    Sleeps {
        /// The thread id.
        tid: u32,
        /// The system call in which it sleeps, if any.
        syscall: Option<u32>,
        /// Signals do not wake it: it waits for a device or for memory.
        uninterruptible: bool,
        /// The place in its program at which it sleeps.
        place: Place,
    },
    /// The thread set a timer to sleep until an instant that was over, and went on at once.
    Passes {
        /// The thread id.
        tid: u32,
        /// The instant.
        due: Instant,
    },
    /// The thread can run from this record on.
    Wakes {
        /// The thread id.
        tid: u32,
        /// The instant at which the timer that woke it was due, if a timer did.
        due: Option<Instant>,
        /// The thread that woke it, or `None` if an interrupt did.
        waker: Option<Seen>,
    },
}

/// Follows threads through the kernel's records, and remembers where the time of each went
/// recently.
///
/// A record costs a step for each watched thread that runs or waits on its CPU. Memory is bounded
/// by the number of stretches that are remembered for each thread.
#[derive(Clone, Debug)]
pub struct Observer {
    cpus: BTreeMap<u16, Cpu>,
    threads: BTreeMap<u32, Thread>,
    enforcers: BTreeSet<u32>,
    remembered: usize,
}

impl Observer {
    /// Makes an observer that watches no thread yet and remembers `remembered` stretches of each.
    pub fn new(remembered: usize) -> Self {
        let (cpus, threads, enforcers) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { cpus, threads, enforcers, remembered: remembered.max(1) }
    }

    /// Declares that this thread enforces budgets: a thread that it wakes had been stopped by it.
    pub fn enforcer(&mut self, tid: u32) {
        self.enforcers.insert(tid);
    }

    /// Follows this thread from `now` on. Its state is unknown until the first record about it.
    pub fn watch(&mut self, tid: u32, now: Instant) {
        let remembered = self.remembered;
        self.threads.entry(tid).or_insert_with(|| Thread::new(now, remembered));
    }

    /// Forgets a thread.
    pub fn forget(&mut self, tid: u32) {
        if let Some(cpu) = self.threads.remove(&tid).and_then(|thread| thread.state.cpu()) {
            self.cpus.entry(cpu).or_default().threads.retain(|&here| here != tid);
        }
    }

    /// Takes one record. The records of one CPU must come in order. A record that is older than the
    /// end of a thread's accounted time changes the thread's state, but not its past.
    pub fn take(&mut self, record: &Record) -> Option<Edge> {
        let Record { at, cpu, what } = *record;
        let here = self.cpus.entry(cpu).or_default();
        for tid in &here.threads {
            if let Some(thread) = self.threads.get_mut(tid) {
                thread.account(here, at);
            }
        }
        match what {
            KernelEvent::Switch { prev, left, prev_exec_ns, next, next_exec_ns } => {
                here.switches_to(next, at);
                let edge = self.leaves(prev, left, prev_exec_ns, next, cpu, at);
                if let Some(thread) = self.threads.get_mut(&next.tid) {
                    thread.catch_up(at, Spent::Unknown);
                    thread.class = next.class;
                    self.set(next.tid, State::Running { cpu, exec_ns: next_exec_ns, came: at });
                }
                edge
            }
            KernelEvent::Waking { tid, waker } => self.wakes(tid, waker, cpu, at),
            KernelEvent::Moves { tid, on } => {
                self.moves(tid, on, at);
                None
            }
            KernelEvent::HardIrq { vector, enter } => above(here, Above::Hard(vector), enter, at),
            KernelEvent::SoftIrq { vector, enter } => above(here, Above::Soft(vector), enter, at),
            KernelEvent::TimerDue { due } => {
                here.due = Some(due);
                None
            }
            KernelEvent::PageFault { tid, took } => {
                if let Some(thread) = self.threads.get_mut(&tid) {
                    thread.was_in_page_faults(took);
                }
                None
            }
            KernelEvent::Gap { .. } => {
                self.gap(at);
                None
            }
        }
    }

    /// Returns what a thread's time in `[from, until)` was spent on, in order and without gaps.
    /// Time that was not observed, or is forgotten, is [`Spent::Unknown`].
    pub fn stretches(&self, tid: u32, from: Instant, until: Instant) -> Vec<Stretch> {
        let mut all = Vec::new();
        let mut at = from;
        let seen = self.threads.get(&tid).map(|thread| &thread.stretches);
        let first = seen.map_or(0, |seen| seen.partition_point(|stretch| stretch.end <= from));
        for stretch in seen.into_iter().flat_map(|seen| seen.range(first..)) {
            if stretch.start >= until {
                break;
            }
            if stretch.start > at {
                all.push(Stretch { start: at, end: stretch.start, spent: Spent::Unknown });
            }
            let start = stretch.start.max(at);
            let end = stretch.end.min(until);
            all.push(Stretch { start, end, spent: stretch.spent });
            at = end;
        }
        if at < until {
            all.push(Stretch { start: at, end: until, spent: Spent::Unknown });
        }
        all
    }

    /// Returns the name that a thread had when it last ran. It may have become another program
    /// since.
    pub fn comm(&self, tid: u32) -> Option<Comm> {
        self.threads.get(&tid).and_then(|thread| thread.comm)
    }

    /// Returns the end of this thread's accounted time. A window that ends later must be requested
    /// again after more records have come.
    pub fn known_until(&self, tid: u32) -> Option<Instant> {
        self.threads.get(&tid).map(|thread| thread.known)
    }

    /// Sets a thread's state, and updates the list of threads on its CPU.
    fn set(&mut self, tid: u32, state: State) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        let before = core::mem::replace(&mut thread.state, state).cpu();
        if before == state.cpu() {
            return;
        }
        if let Some(cpu) = before {
            self.cpus.entry(cpu).or_default().threads.retain(|&here| here != tid);
        }
        if let Some(cpu) = state.cpu() {
            self.cpus.entry(cpu).or_default().threads.push(tid);
        }
    }

    fn leaves(
        &mut self,
        prev: Seen,
        left: Left,
        exec_ns: u64,
        next: Seen,
        cpu: u16,
        at: Instant,
    ) -> Option<Edge> {
        let tid = prev.tid;
        let thread = self.threads.get_mut(&tid)?;
        (thread.class, thread.comm) = (prev.class, Some(prev.comm));
        if let State::Running { exec_ns: before, came, .. } = thread.state {
            thread.find_stolen(came, Duration::from_nanos(exec_ns.saturating_sub(before)));
        } else {
            // It ran before the first record, so its past is unknown.
            thread.catch_up(at, Spent::Unknown);
        }
        match left {
            Left::Preempted => {
                let put_off = is_lesser(next.class, prev.class);
                self.set(tid, State::Runnable { cpu, since: at, put_off });
                None
            }
            Left::Asleep { uninterruptible, syscall, place } => {
                self.set(tid, State::Asleep { cpu, uninterruptible, syscall });
                Some(Edge::Sleeps { tid, syscall, uninterruptible, place })
            }
        }
    }

    fn wakes(&mut self, tid: u32, waker: Option<Seen>, by: u16, at: Instant) -> Option<Edge> {
        let thread = self.threads.get_mut(&tid)?;
        let there = self.cpus.get(&by);
        let due = there.and_then(|cpu| cpu.due).filter(|_| waker.is_none());
        let State::Asleep { cpu, uninterruptible, syscall } = thread.state else {
            // A thread that was woken before it had left its CPU simply goes on. Of a thread that
            // was never seen, only the fact that it runs counts.
            let is_here = matches!(thread.state, State::Running { cpu, .. } if cpu == by);
            return due.filter(|_| is_here).map(|due| Edge::Passes { tid, due });
        };
        let spent = if waker.is_some_and(|by| self.enforcers.contains(&by.tid)) {
            Spent::Throttled(Throttler::Punctual)
        } else {
            Spent::Blocked { syscall, uninterruptible, waker }
        };
        if let (Some(due), Some(there)) = (due, there) {
            // The handlers that ran after the timer was due are the reason why it came late.
            for above in there.above_in(due, at) {
                thread.catch_up(above.start, spent);
                thread.catch_up(above.end, above.spent);
            }
        }
        thread.catch_up(at, spent);
        self.set(tid, State::Runnable { cpu, since: at, put_off: false });
        Some(Edge::Wakes { tid, due, waker })
    }

    fn moves(&mut self, tid: u32, on: u16, at: Instant) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        match thread.state {
            State::Runnable { cpu, since, put_off } if cpu != on => {
                if let Some(from) = self.cpus.get(&cpu) {
                    thread.account(from, at);
                }
                self.set(tid, State::Runnable { cpu: on, since, put_off });
            }
            State::Asleep { ref mut cpu, .. } => *cpu = on,
            _ => {}
        }
    }

    /// Handles missing records: the state of every thread and CPU is unknown until it is seen
    /// again.
    fn gap(&mut self, at: Instant) {
        for cpu in self.cpus.values_mut() {
            cpu.forget_all();
            cpu.threads.clear();
        }
        for thread in self.threads.values_mut() {
            thread.catch_up(at, Spent::Unknown);
            thread.state = State::Unknown;
        }
    }
}

fn above(cpu: &mut Cpu, above: Above, enter: bool, at: Instant) -> Option<Edge> {
    if enter {
        cpu.enter(above, at)
    } else {
        cpu.leave(above, at)
    }
    None
}
