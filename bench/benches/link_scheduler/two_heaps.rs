//! The same rule on two binary heaps of the standard library.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use punctual_model::Instant;
use punctual_policy::queues::Urgency;

use crate::hold::Queues;

/// Current packets by urgency and early ones by logical arrival; ties in order of arrival.
pub(crate) struct TwoHeaps {
    current: BinaryHeap<Reverse<(Urgency, u64, u32)>>,
    early: BinaryHeap<Reverse<(Instant, Urgency, u64, u32)>>,
    pushed: u64,
}

impl TwoHeaps {
    pub(crate) fn new(channels: usize) -> Self {
        Self {
            current: BinaryHeap::with_capacity(channels),
            early: BinaryHeap::with_capacity(channels),
            pushed: 0,
        }
    }
}

impl TwoHeaps {
    /// Returns the number of early packets.
    pub(crate) fn early(&self) -> usize {
        self.early.len()
    }
}

impl Queues for TwoHeaps {
    fn put(&mut self, now: Instant, logical: Instant, urgency: Urgency, channel: u32) {
        self.pushed += 1;
        if logical <= now {
            self.current.push(Reverse((urgency, self.pushed, channel)));
        } else {
            self.early.push(Reverse((logical, urgency, self.pushed, channel)));
        }
    }

    fn take(&mut self, now: Instant) -> Option<u32> {
        while self.early.peek().is_some_and(|Reverse((logical, ..))| *logical <= now) {
            let Reverse((_, urgency, pushed, channel)) = self.early.pop()?;
            self.current.push(Reverse((urgency, pushed, channel)));
        }
        self.current.pop().map(|Reverse((.., channel))| channel)
    }
}
