//! Turns the kernel's records into stretches of each watched thread's time.
//!
//! The records are checked as they are read: some kernels do not report all switches, and count
//! none of them as lost. What two records that contradict each other say about a thread is taken
//! back, from the last certain instant to the next one. A thread that may have slept meanwhile is
//! lost: nobody knows whether its job ended. A thread that sleeps must be woken, so one that is seen
//! again without a wake-up only ran or waited, and its job is still known.

mod state;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use punctual_model::{Duration, Instant};

use super::Stretch;
use super::spent::{Spent, Throttler};
use crate::kernel::{Comm, KernelEvent, Left, Place, Record, Seen, Wake};
use state::{Above, Cpu, NOISE, Sleep, State, Thread, Woken, is_lesser};

/// The number of processes whose stopping signals are remembered.
const STOPS: usize = 64;

/// The number of restart_syscall(2), in which a thread goes on with a sleep that was interrupted.
const RESTART: u32 = if cfg!(target_arch = "x86_64") { 219 } else { 128 };

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

/// A thread did something that no record shows, so its present job cannot be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The thread id.
    pub tid: u32,
    /// The time of which nothing is known.
    pub unseen: Duration,
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
    /// The senders of the latest stopping signals to processes.
    stops: BTreeMap<u32, Seen>,
    lost: Vec<Lost>,
    holes: u64,
    remembered: usize,
}

impl Observer {
    /// Makes an observer that watches no thread yet and remembers `remembered` stretches of each.
    pub fn new(remembered: usize) -> Self {
        Self {
            cpus: BTreeMap::new(),
            threads: BTreeMap::new(),
            enforcers: BTreeSet::new(),
            stops: BTreeMap::new(),
            lost: Vec::new(),
            holes: 0,
            remembered: remembered.max(1),
        }
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

    /// Takes one record, and returns the edges that it implies. The records of one CPU must come in
    /// order. A record that is older than the end of a thread's accounted time changes the thread's
    /// state, but not its past. Call [`take_lost`](Self::take_lost) before using the edges.
    pub fn take(&mut self, record: &Record) -> [Option<Edge>; 2] {
        let Record { at, cpu, what } = *record;
        let here = self.cpus.entry(cpu).or_default();
        let is_back = at < here.latest;
        here.latest = here.latest.max(at);
        for tid in &here.threads {
            if let Some(thread) = self.threads.get_mut(tid) {
                thread.account(here, at);
            }
        }
        if is_back || !is_possible(here, at, what) {
            self.hole(cpu, at);
        }
        let here = self.cpus.entry(cpu).or_default();
        match what {
            KernelEvent::Switch { prev, left, prev_exec_ns, next, next_exec_ns } => {
                here.switches_to(next, at);
                let leaves = self.leaves(prev, left, prev_exec_ns, next, cpu, at);
                return [leaves, self.comes(next, next_exec_ns, cpu, at)];
            }
            KernelEvent::Waking { tid, waker, wake } => {
                if here.runs.is_none() {
                    (here.runs, here.came) = (waker, at);
                }
                return [self.wakes(tid, waker, wake, cpu, at), None];
            }
            KernelEvent::WokenThrottled { tid, levels } => {
                let state = self.threads.get_mut(&tid).map(|thread| &mut thread.state);
                if let Some(State::Runnable { held, .. }) = state {
                    *held = Some(Throttler::Quota { levels });
                }
            }
            KernelEvent::Moves { tid, on } => self.moves(tid, on, at),
            KernelEvent::HardIrq { vector, enter } => above(here, Above::Hard(vector), enter, at),
            KernelEvent::SoftIrq { vector, enter } => above(here, Above::Soft(vector), enter, at),
            KernelEvent::TimerDue { due, of } => {
                here.due = Some((due, of));
                let thread = of.and_then(|tid| self.threads.get_mut(&tid));
                if let Some(thread) = thread.filter(|one| matches!(one.state, State::Asleep { .. }))
                {
                    thread.due = Some(due);
                }
            }
            KernelEvent::PageFault { tid, took } => {
                if let Some(thread) = self.threads.get_mut(&tid) {
                    thread.was_in_page_faults(took);
                }
            }
            KernelEvent::InSystemCall { tid, syscall, took, until_now } => {
                let from = Instant::from_nanos(at.as_nanos().saturating_sub(took.as_nanos()));
                if let Some(thread) = self.threads.get_mut(&tid) {
                    thread.was_in_system_call(syscall, took, until_now.then_some(from));
                }
            }
            KernelEvent::StopSignal { process, sender } => {
                if self.stops.len() >= STOPS && !self.stops.contains_key(&process) {
                    self.stops.pop_first();
                }
                self.stops.insert(process, sender);
            }
            KernelEvent::Gap { .. } => self.gap(at),
        }
        [None, None]
    }

    /// Returns the threads that did something unseen, since the last call.
    pub fn take_lost(&mut self) -> Vec<Lost> {
        core::mem::take(&mut self.lost)
    }

    /// Returns the number of places so far at which the records contradict each other, or
    /// something is missing that the kernel did not count.
    pub fn holes(&self) -> u64 {
        self.holes
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
        let mut ran = None;
        match thread.state {
            State::Running { cpu: on, exec_ns: before, came } if on == cpu => {
                let executed = Duration::from_nanos(exec_ns.saturating_sub(before));
                thread.find_stolen(came, executed);
                ran = Some(executed);
            }
            // It ran before the first record, so its past is unknown.
            State::Unknown => thread.catch_up(at, Spent::Unknown),
            // The switch to it is missing.
            State::Runnable { since, .. } if thread.woken.is_none() => {
                let before = thread.left.map_or(exec_ns, |(_, before)| before);
                let executed = Duration::from_nanos(exec_ns.saturating_sub(before));
                thread.ran_last(since, at, executed);
            }
            State::Unseen { since, exec_ns: before } => {
                let executed = Duration::from_nanos(exec_ns.saturating_sub(before));
                thread.ran_last(since, at, executed);
            }
            _ => self.lose(tid, at),
        }
        let thread = self.threads.get_mut(&tid)?;
        thread.left = Some((at, exec_ns));
        let was_just_woken = core::mem::take(&mut thread.is_just_woken);
        let held = match left {
            Left::Preempted => {
                let held = is_lesser(next.class, prev.class).then_some(Throttler::Kernel);
                self.set(tid, State::Runnable { cpu, since: at, held });
                return None;
            }
            Left::Throttled { levels } => {
                let held = Some(Throttler::Quota { levels });
                self.set(tid, State::Runnable { cpu, since: at, held });
                return None;
            }
            Left::Asleep { uninterruptible, syscall, place } => {
                let interrupted = thread.interrupted.take();
                let goes_on =
                    interrupted.filter(|&before| before == syscall || syscall == Some(RESTART));
                let syscall = goes_on.unwrap_or(syscall);
                thread.due = None;
                let sleep = Sleep::Waits { uninterruptible, syscall };
                self.set(tid, State::Asleep { cpu, sleep });
                let edge = Edge::Sleeps { tid, syscall, uninterruptible, place };
                return goes_on.is_none().then_some(edge);
            }
            Left::Stopped { process } => Spent::Stopped { by: self.stops.get(&process).copied() },
            Left::Traced => Spent::Traced,
            Left::Frozen => Spent::Frozen,
        };
        // Perhaps it was woken only for this, and the record did not say so: then no job began.
        if was_just_woken && ran.is_some_and(|ran| ran < NOISE) {
            self.lost.push(Lost { tid, unseen: Duration::ZERO });
        }
        self.set(tid, State::Asleep { cpu, sleep: Sleep::Held(held) });
        None
    }

    /// Handles a switch to a thread.
    fn comes(&mut self, next: Seen, exec_ns: u64, cpu: u16, at: Instant) -> Option<Edge> {
        let tid = next.tid;
        let thread = self.threads.get_mut(&tid)?;
        thread.class = next.class;
        let is_unseen = thread.left.is_some_and(|(_, left_ns)| {
            Duration::from_nanos(exec_ns.saturating_sub(left_ns)) > NOISE
        });
        let mut edge = None;
        match (thread.state, thread.woken) {
            (State::Unknown, _) => {}
            // The wake-up came while the thread fell asleep. What it waited for since is not known.
            (State::Asleep { .. }, Some(woken))
                if !is_unseen && woken.is_just_before(thread.left) =>
            {
                edge = Some(Edge::Wakes { tid, due: woken.due, waker: woken.waker });
            }
            (State::Runnable { .. }, _) if !is_unseen => {}
            // It ran unseen, but did not sleep.
            (State::Runnable { since, .. }, None) => {
                self.holes += 1;
                thread.take_back(since, at);
            }
            (State::Unseen { .. }, _) => {}
            (State::Running { came, .. }, None) => {
                self.holes += 1;
                thread.take_back(came, at);
            }
            _ => {
                self.holes += 1;
                self.lose(tid, at);
            }
        }
        let thread = self.threads.get_mut(&tid)?;
        thread.catch_up(at, Spent::Unknown);
        thread.woken = None;
        thread.is_just_woken |= edge.is_some();
        self.set(tid, State::Running { cpu, exec_ns, came: at });
        edge
    }

    fn wakes(
        &mut self,
        tid: u32,
        waker: Option<Seen>,
        wake: Wake,
        by: u16,
        at: Instant,
    ) -> Option<Edge> {
        let thread = self.threads.get_mut(&tid)?;
        let there = self.cpus.get(&by);
        let due = there.and_then(|cpu| cpu.due).filter(|_| waker.is_none());
        let due = due.filter(|(_, of)| of.is_none_or(|of| of == tid)).map(|(due, _)| due);
        let expired = thread.due.take();
        let (cpu, sleep) = match thread.state {
            State::Asleep { cpu, sleep } => (cpu, sleep),
            // It slept, and nobody knows since when.
            State::Unseen { .. } => {
                self.lose(tid, at);
                return None;
            }
            // The sleep that was interrupted is over at once.
            State::Running { .. } if due.is_some() && thread.interrupted.take().is_some() => {
                return Some(Edge::Wakes { tid, due, waker });
            }
            // A thread that was woken before it had left its CPU simply goes on. Of a thread that
            // was never seen, only the fact that it runs counts.
            state => {
                thread.woken = Some(Woken { at, due, waker });
                let is_here = matches!(state, State::Running { cpu, .. } if cpu == by);
                return due.filter(|_| is_here).map(|due| Edge::Passes { tid, due });
            }
        };
        let is_enforced = waker.is_some_and(|by| self.enforcers.contains(&by.tid));
        let runnable = State::Runnable { cpu, since: at, held: None };
        let Sleep::Waits { uninterruptible, syscall } = sleep else {
            let Sleep::Held(held) = sleep else { return None };
            let enforced = Spent::Throttled(Throttler::Punctual);
            thread.catch_up(at, if is_enforced { enforced } else { held });
            self.set(tid, runnable);
            return None;
        };
        let spent = if is_enforced {
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
        match wake {
            Wake::ToRun => thread.catch_up(at, spent),
            Wake::ToStop => {
                thread.catch_up(at, spent);
                thread.interrupted = Some(syscall);
                self.set(tid, runnable);
                return None;
            }
            Wake::OfFrozen => {
                if let Some(expired) = expired {
                    let before = Spent::Blocked { syscall, uninterruptible, waker: None };
                    thread.catch_up(expired.min(at), before);
                }
                thread.catch_up(at, Spent::Frozen);
            }
        }
        thread.is_just_woken = true;
        self.set(tid, runnable);
        let due = due.or(expired.filter(|_| wake == Wake::OfFrozen));
        Some(Edge::Wakes { tid, due, waker })
    }

    /// Handles a proof that records about the thread that runs on this CPU are missing.
    fn hole(&mut self, cpu: u16, at: Instant) {
        self.holes += 1;
        let Some(here) = self.cpus.get_mut(&cpu) else { return };
        let since = here.came;
        here.forget_all();
        for tid in here.threads.clone() {
            let Some(thread) = self.threads.get_mut(&tid) else { continue };
            match thread.state {
                State::Running { came, exec_ns, .. } if thread.woken.is_none() => {
                    thread.take_back(came, at);
                    self.set(tid, State::Unseen { since: came, exec_ns });
                }
                State::Running { .. } => self.lose(tid, at),
                _ => thread.doubt_since(since),
            }
        }
    }

    /// Takes back what is known of a thread that may have slept unseen.
    fn lose(&mut self, tid: u32, at: Instant) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let from = match thread.state {
            State::Running { came: since, .. } | State::Unseen { since, .. } => since,
            _ => thread.left.map_or(thread.known, |(left, _)| left),
        };
        let from = from.min(at);
        thread.take_back(from, at);
        self.set(tid, State::Unknown);
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.forget_state();
        }
        self.lost.push(Lost { tid, unseen: at.saturating_since(from) });
    }

    fn moves(&mut self, tid: u32, on: u16, at: Instant) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        match thread.state {
            State::Runnable { cpu, since, held } if cpu != on => {
                if let Some(from) = self.cpus.get(&cpu) {
                    thread.account(from, at);
                }
                self.set(tid, State::Runnable { cpu: on, since, held });
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
            thread.forget_state();
        }
    }
}

/// Returns whether a record can follow what is known of its CPU.
fn is_possible(here: &Cpu, at: Instant, what: KernelEvent) -> bool {
    let Some(runs) = here.runs else { return true };
    match what {
        KernelEvent::Switch { prev, .. } => prev.tid == runs.tid,
        // The thread that left is still the present one for an instant after its switch.
        KernelEvent::Waking { waker: Some(waker), .. } => {
            waker.tid == runs.tid || at.saturating_since(here.came) <= NOISE
        }
        _ => true,
    }
}

fn above(cpu: &mut Cpu, above: Above, enter: bool, at: Instant) {
    if enter {
        cpu.enter(above, at);
    } else {
        cpu.leave(above, at);
    }
}
