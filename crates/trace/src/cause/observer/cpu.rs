//! What is known of a CPU: who runs, and what runs above it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use punctual_model::Instant;

use super::Stretch;
use crate::cause::Spent;
use crate::kernel::{Interrupt, Seen};

/// Interrupt handlers nest this deep at most: a hard one in a softirq, and some to spare.
const DEEPEST: usize = 4;
/// Stretches above threads that are remembered: a timer that one of them held up is looked for.
const LATELY: usize = 64;

/// What runs above threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Above {
    Hard(Interrupt),
    Soft(u8),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Cpu {
    pub(super) runs: Option<Seen>,
    above: Vec<Above>,
    /// Since when something is above, or something else is.
    since: Instant,
    /// What was above lately, the newest last.
    was_above: VecDeque<Stretch>,
    /// When the timer was due whose interrupt is being handled.
    pub(super) due: Option<Instant>,
    /// The watched threads that run or wait here.
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

    /// An exit whose entry was not seen changes nothing.
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

    /// What was above threads in `[from, until)`, in order, `until` being now.
    pub(super) fn above_in(&self, from: Instant, until: Instant) -> impl Iterator<Item = Stretch> {
        let now = self.spent_above().map(|spent| Stretch { start: self.since, end: until, spent });
        let first = self.was_above.partition_point(|stretch| stretch.end <= from);
        self.was_above.range(first..).copied().chain(now).filter_map(move |stretch| {
            let (start, end) = (stretch.start.max(from), stretch.end.min(until));
            (start < end).then_some(Stretch { start, end, ..stretch })
        })
    }

    /// Nobody is in two interrupts' way: a switch is never above threads.
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
