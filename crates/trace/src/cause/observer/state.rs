//! Tracks the state of a CPU (the running thread, and the interrupt handlers above it), and the
//! state of each watched thread.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use punctual_model::{Duration, Instant};

use crate::cause::{Spent, Stretch, Throttler};
use crate::kernel::{Class, Comm, Interrupt, Seen};

/// The deepest nesting of interrupt handlers: a hard interrupt in a softirq, and some to spare.
const DEEPEST: usize = 4;
/// The number of past handler stretches that are remembered, to find the ones that delayed a timer.
const LATELY: usize = 64;

/// The longest time until a CPU switches to a runnable thread when it has nothing more urgent to
/// do. A longer wait has another reason.
const SWITCH: Duration = Duration::from_micros(200);
/// A tolerance. The two clocks of a CPU are read one after the other, and the time of a switch is
/// on no thread's account.
const NOISE: Duration = Duration::from_micros(20);

/// A handler that runs above threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Above {
    Hard(Interrupt),
    Soft(u8),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Cpu {
    runs: Option<Seen>,
    above: Vec<Above>,
    /// The instant at which the current stretch, in a handler or in none, began.
    since: Instant,
    /// The latest stretches in handlers, the newest last.
    was_above: VecDeque<Stretch>,
    /// The instant at which the timer was due whose interrupt is being handled.
    pub(super) due: Option<Instant>,
    /// The watched threads that run or wait on this CPU.
    pub(super) threads: Vec<u32>,
}

impl Cpu {
    fn spent_above(&self) -> Option<Spent> {
        self.above.last().map(|above| match above {
            Above::Hard(vector) => Spent::HardIrq(*vector),
            Above::Soft(vector) => Spent::SoftIrq(*vector),
        })
    }

    pub(super) fn enter(&mut self, above: Above, at: Instant) {
        self.remember(at);
        if self.above.len() < DEEPEST {
            self.above.push(above);
        }
    }

    /// Leaves a handler. An exit without a known entry changes nothing.
    pub(super) fn leave(&mut self, above: Above, at: Instant) {
        self.remember(at);
        if let Some(at) = self.above.iter().rposition(|&entered| entered == above) {
            self.above.truncate(at);
        }
        if self.above.is_empty() {
            self.due = None;
        }
    }

    fn remember(&mut self, at: Instant) {
        let start = core::mem::replace(&mut self.since, at);
        if let Some(spent) = self.spent_above().filter(|_| start < at) {
            if self.was_above.len() == LATELY {
                self.was_above.pop_front();
            }
            self.was_above.push_back(Stretch { start, end: at, spent });
        }
    }

    /// Returns the stretches in handlers in `[from, until)`, in order. `until` must be now.
    pub(super) fn above_in(&self, from: Instant, until: Instant) -> impl Iterator<Item = Stretch> {
        let now = self.spent_above().map(|spent| Stretch { start: self.since, end: until, spent });
        let first = self.was_above.partition_point(|stretch| stretch.end <= from);
        self.was_above.range(first..).copied().chain(now).filter_map(move |stretch| {
            let (start, end) = (stretch.start.max(from), stretch.end.min(until));
            (start < end).then_some(Stretch { start, end, ..stretch })
        })
    }

    /// Switches to a thread. No handler can be active during a switch, so any that is still
    /// recorded is dropped.
    pub(super) fn switches_to(&mut self, next: Seen, at: Instant) {
        self.remember(at);
        self.runs = Some(next);
        self.above.clear();
        self.due = None;
    }

    pub(super) fn forget_all(&mut self) {
        (self.runs, self.due) = (None, None);
        self.above.clear();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Unknown,
    Running {
        cpu: u16,
        exec_ns: u64,
        came: Instant,
    },
    Runnable {
        cpu: u16,
        since: Instant,
        /// It left its CPU to a less urgent thread, so it is not allowed to run.
        put_off: bool,
    },
    Asleep {
        cpu: u16,
        uninterruptible: bool,
        syscall: Option<u32>,
    },
}

impl State {
    /// Returns the CPU on which it runs or waits.
    pub(super) fn cpu(self) -> Option<u16> {
        match self {
            Self::Running { cpu, .. } | Self::Runnable { cpu, .. } => Some(cpu),
            Self::Unknown | Self::Asleep { .. } => None,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Thread {
    pub(super) state: State,
    pub(super) class: Class,
    pub(super) comm: Option<Comm>,
    /// The end of its accounted time.
    pub(super) known: Instant,
    pub(super) stretches: VecDeque<Stretch>,
    remembered: usize,
}

impl Thread {
    pub(super) fn new(now: Instant, remembered: usize) -> Self {
        Self {
            state: State::Unknown,
            class: Class::Ordinary,
            comm: None,
            known: now,
            stretches: VecDeque::new(),
            remembered,
        }
    }

    /// Accounts its time up to `at` as running or waiting on this CPU, according to the CPU's
    /// state.
    pub(super) fn account(&mut self, cpu: &Cpu, at: Instant) {
        let spent = match self.state {
            State::Running { .. } => cpu.spent_above().unwrap_or(Spent::Own),
            State::Runnable { since, put_off, .. } => {
                cpu.spent_above().unwrap_or_else(|| waits(self.class, put_off, cpu.runs, since, at))
            }
            State::Unknown | State::Asleep { .. } => return,
        };
        self.catch_up(at, spent);
    }

    /// Accounts its time up to `at` as spent on `spent`.
    pub(super) fn catch_up(&mut self, at: Instant, spent: Spent) {
        if at <= self.known {
            return;
        }
        let start = core::mem::replace(&mut self.known, at);
        match self.stretches.back_mut() {
            Some(last) if last.spent == spent && last.end == start => last.end = at,
            _ => {
                while self.stretches.len() >= self.remembered {
                    self.stretches.pop_front();
                }
                self.stretches.push_back(Stretch { start, end: at, spent });
            }
        }
    }

    /// Reclassifies `took` of its latest work and waits for devices as page faults.
    pub(super) fn was_in_page_faults(&mut self, took: Duration) {
        let is_fault =
            |spent| matches!(spent, Spent::Own | Spent::Blocked { uninterruptible: true, .. });
        self.rededicate(took, Spent::PageFault, is_fault);
    }

    /// Reclassifies up to `much` of the latest stretches that `from` selects as `to`.
    fn rededicate(&mut self, mut much: Duration, to: Spent, from: impl Fn(Spent) -> bool) {
        for at in (0..self.stretches.len()).rev() {
            if much.is_zero() {
                return;
            }
            let Stretch { start, end, spent } = self.stretches[at];
            if !from(spent) {
                continue;
            }
            let part = much.min(end.saturating_since(start));
            much = much.saturating_sub(part);
            let begin = end - part;
            if begin == start {
                self.stretches[at].spent = to;
            } else {
                self.stretches[at].end = begin;
                self.stretches.insert(at + 1, Stretch { start: begin, end, spent: to });
            }
        }
    }

    /// Finds time that the host stole. The thread was on its CPU since `came` and executed for
    /// `executed` of that; the rest of what looks like its own work is the host's.
    pub(super) fn find_stolen(&mut self, came: Instant, executed: Duration) {
        let first = self.stretches.partition_point(|stretch| stretch.end <= came);
        let own = self
            .stretches
            .range(first..)
            .filter(|stretch| matches!(stretch.spent, Spent::Own | Spent::PageFault))
            .map(|stretch| stretch.end.saturating_since(stretch.start.max(came)))
            .fold(Duration::ZERO, Duration::saturating_add);
        let mut stolen = own.saturating_sub(executed);
        if stolen < NOISE {
            return;
        }
        // It is unknown at which point the host took the CPU, so the longest stretch is used first.
        while !stolen.is_zero() {
            let longest = (first..self.stretches.len())
                .filter(|&at| self.stretches[at].spent == Spent::Own)
                .max_by_key(|&at| self.stretches[at].length());
            let Some(at) = longest else {
                return;
            };
            let Stretch { start, end, .. } = self.stretches[at];
            let part = stolen.min(end.saturating_since(start));
            stolen = stolen.saturating_sub(part);
            let from = end - part;
            if from == start {
                self.stretches[at].spent = Spent::Stolen;
            } else {
                self.stretches[at].end = from;
                self.stretches.insert(at + 1, Stretch { start: from, end, spent: Spent::Stolen });
            }
        }
    }
}

/// Returns what a thread of this class, runnable since `since`, waits for while `runs` runs.
///
/// A CPU runs the most urgent class that is allowed to run (sched(7)). A thread that was put off
/// for a less urgent one is therefore throttled, and so is a SCHED_DEADLINE thread that waits for
/// longer than a switch takes.
fn waits(class: Class, put_off: bool, runs: Option<Seen>, since: Instant, at: Instant) -> Spent {
    let throttled = Spent::Throttled(Throttler::Kernel);
    let Some(runs) = runs else {
        return Spent::Unknown;
    };
    match runs.class {
        other if !is_lesser(other, class) && other != Class::Idle => Spent::Other(runs),
        _ if put_off => throttled,
        _ if at.saturating_since(since) <= SWITCH => Spent::Switching,
        _ if class == Class::Deadline => throttled,
        Class::Idle => Spent::Unknown,
        // A thread in the kernel may keep the CPU from a more urgent one for a while.
        _ => Spent::Other(runs),
    }
}

/// Returns whether class `runs` gives way to class `waits`.
pub(super) fn is_lesser(runs: Class, waits: Class) -> bool {
    let rank = |class| match class {
        Class::Idle => 0,
        Class::Ordinary => 1,
        Class::RealTime(_) => 2,
        Class::Deadline => 3,
    };
    rank(runs) < rank(waits)
}
