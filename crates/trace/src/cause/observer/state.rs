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
pub(super) const NOISE: Duration = Duration::from_micros(20);

/// A handler that runs above threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Above {
    Hard(Interrupt),
    Soft(u8),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Cpu {
    pub(super) runs: Option<Seen>,
    /// The instant of the switch to that thread.
    pub(super) came: Instant,
    /// The instant of the newest record.
    pub(super) latest: Instant,
    above: Vec<Above>,
    /// The instant at which the current stretch, in a handler or in none, began.
    since: Instant,
    /// The latest stretches in handlers, the newest last.
    was_above: VecDeque<Stretch>,
    /// The instant at which the timer was due whose interrupt is being handled, and the thread that
    /// sleeps for it, if that is known.
    pub(super) due: Option<(Instant, Option<u32>)>,
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
        (self.runs, self.came) = (Some(next), at);
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
        /// The mechanism that does not allow it to run.
        held: Option<Throttler>,
    },
    Asleep {
        cpu: u16,
        sleep: Sleep,
    },
    /// It ran or waited, and what it does since is not known. It does not sleep unless it is woken
    /// next.
    Unseen {
        since: Instant,
        exec_ns: u64,
    },
}

/// The kind of a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sleep {
    /// The thread waits for something.
    Waits { uninterruptible: bool, syscall: Option<u32> },
    /// It is held by someone else.
    Held(Spent),
}

/// A wake-up that came while the thread was believed to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Woken {
    pub(super) at: Instant,
    pub(super) due: Option<Instant>,
    pub(super) waker: Option<Seen>,
}

/// The longest time from a wake-up to the end of the switch that it came too late for: the two
/// happen at once on two CPUs.
const RACE: Duration = Duration::from_millis(1);

impl Woken {
    /// Returns true if the thread then left its CPU at about the same time.
    pub(super) fn is_just_before(&self, left: Option<(Instant, u64)>) -> bool {
        left.is_some_and(|(left, _)| left.saturating_since(self.at) <= RACE)
    }
}

impl State {
    /// Returns the CPU on which it runs or waits.
    pub(super) fn cpu(self) -> Option<u16> {
        match self {
            Self::Running { cpu, .. } | Self::Runnable { cpu, .. } => Some(cpu),
            Self::Unknown | Self::Asleep { .. } | Self::Unseen { .. } => None,
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
    /// The instant at which it last left a CPU, and its execution time then.
    pub(super) left: Option<(Instant, u64)>,
    /// The system call whose sleep was interrupted to stop or freeze the thread.
    pub(super) interrupted: Option<Option<u32>>,
    /// The instant at which the timer for which it still sleeps was due: it expired while frozen.
    pub(super) due: Option<Instant>,
    /// The latest wake-up while it ran.
    pub(super) woken: Option<Woken>,
    /// It was woken and has not left its CPU since.
    pub(super) is_just_woken: bool,
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
            left: None,
            interrupted: None,
            due: None,
            woken: None,
            is_just_woken: false,
            remembered,
        }
    }

    /// Accounts its time up to `at` as running or waiting on this CPU, according to the CPU's
    /// state.
    pub(super) fn account(&mut self, cpu: &Cpu, at: Instant) {
        let spent = match self.state {
            State::Running { .. } => cpu.spent_above().unwrap_or(Spent::Own),
            State::Runnable { held: Some(by @ Throttler::Quota { .. }), .. } => {
                Spent::Throttled(by)
            }
            State::Runnable { since, held, .. } => cpu
                .spent_above()
                .unwrap_or_else(|| waits(self.class, held.is_some(), cpu.runs, since, at)),
            State::Unknown | State::Asleep { .. } | State::Unseen { .. } => return,
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
        let is_fault = |spent: Spent| {
            spent.is_own() || matches!(spent, Spent::Blocked { uninterruptible: true, .. })
        };
        self.rededicate(took, Spent::PageFault, is_fault);
    }

    /// Reclassifies its work since `from`, or if that is not known `took` of its latest work, as
    /// work in a system call.
    pub(super) fn was_in_system_call(
        &mut self,
        syscall: Option<u32>,
        took: Duration,
        from: Option<Instant>,
    ) {
        let to = Spent::System { syscall };
        let Some(from) = from else {
            return self.rededicate(took, to, |spent| spent == Spent::Own);
        };
        self.change_since(from, |spent| if spent == Spent::Own { to } else { spent });
    }

    /// Changes the use of its time since `from`.
    fn change_since(&mut self, from: Instant, to: impl Fn(Spent) -> Spent) {
        let first = self.stretches.partition_point(|stretch| stretch.end <= from);
        let Some(&Stretch { start, end, spent }) = self.stretches.get(first) else { return };
        if start < from && to(spent) != spent {
            self.stretches[first].end = from;
            self.stretches.insert(first + 1, Stretch { start: from, end, spent });
        }
        for stretch in self.stretches.range_mut(first..).filter(|stretch| stretch.start >= from) {
            stretch.spent = to(stretch.spent);
        }
    }

    /// Takes back what is accounted since `from`.
    pub(super) fn take_back(&mut self, from: Instant, at: Instant) {
        self.change_since(from, |_| Spent::Unknown);
        self.catch_up(at, Spent::Unknown);
    }

    /// Forgets its state: the thread may have slept unseen.
    pub(super) fn forget_state(&mut self) {
        self.state = State::Unknown;
        (self.left, self.interrupted, self.due, self.woken) = (None, None, None, None);
        self.is_just_woken = false;
    }

    /// Takes back what is accounted since `from`, but for its execution: it ran for the last
    /// `executed` before `at`, as the scheduler accounts it.
    pub(super) fn ran_last(&mut self, from: Instant, at: Instant, executed: Duration) {
        self.take_back(from, at);
        let executed = executed.min(at.saturating_since(from));
        let came = Instant::from_nanos(at.as_nanos() - executed.as_nanos());
        self.change_since(came, |_| Spent::Own);
    }

    /// Takes back what it waited for since `from`: another thread ran, or none.
    pub(super) fn doubt_since(&mut self, from: Instant) {
        self.change_since(from, |spent| match spent {
            Spent::Other(_) | Spent::Switching | Spent::Throttled(Throttler::Kernel) => {
                Spent::Unknown
            }
            sure => sure,
        });
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
            .filter(|stretch| stretch.spent.is_own() || stretch.spent == Spent::PageFault)
            .map(|stretch| stretch.end.saturating_since(stretch.start.max(came)))
            .fold(Duration::ZERO, Duration::saturating_add);
        let mut stolen = own.saturating_sub(executed);
        if stolen < NOISE {
            return;
        }
        // It is unknown at which point the host took the CPU, so the longest stretch is used first.
        while !stolen.is_zero() {
            let longest = (first..self.stretches.len())
                .filter(|&at| self.stretches[at].spent.is_own())
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
