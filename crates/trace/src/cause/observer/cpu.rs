//! Tracks the state of a CPU: the running thread, and the interrupt handlers above it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use punctual_model::Instant;

use super::Stretch;
use crate::cause::Spent;
use crate::kernel::{Interrupt, Seen};

/// The deepest nesting of interrupt handlers: a hard interrupt in a softirq, and some to spare.
const DEEPEST: usize = 4;
/// The number of past handler stretches that are remembered, to find the ones that delayed a timer.
const LATELY: usize = 64;

/// A handler that runs above threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Above {
    Hard(Interrupt),
    Soft(u8),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Cpu {
    pub(super) runs: Option<Seen>,
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
    pub(super) fn spent_above(&self) -> Option<Spent> {
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
