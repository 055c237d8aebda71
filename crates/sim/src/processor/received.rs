//! What a thread leaves that takes in messages as they come.

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;

use punctual_model::{Duration, Instant, Service};

use super::{Processor, Stretch};

/// A message for the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// When it comes; an instant before that of the message before counts as that one.
    pub at: Instant,
    /// The processor's time for all its packets.
    pub work: Service,
}

/// What was seen of the messages of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taking {
    /// Messages that came.
    pub came: u64,
    /// Those that were taken in.
    pub taken: u64,
    /// The longest time from coming to being taken in.
    pub longest: Duration,
}

/// Another processor, but for what a thread takes of it that receives messages in the order in which they come. Of
/// those that come at once the first source's is first.
pub struct Received<P, S> {
    processor: P,
    sources: Vec<S>,
    seen: Vec<Taking>,
    /// The next message of each source.
    coming: BinaryHeap<Reverse<(Instant, usize, Service)>>,
    /// Source, arrival and the work left.
    queue: VecDeque<(usize, Instant, Duration)>,
    now: Instant,
    /// What the processor said last.
    stretch: Stretch,
}

impl<P: Processor, S: Iterator<Item = Incoming>> Received<P, S> {
    /// Takes `sources` in on `processor`.
    pub fn new(processor: P, sources: Vec<S>) -> Self {
        let count = sources.len();
        let mut thread = Self {
            processor,
            sources,
            seen: (0..count).map(|_| Taking::default()).collect(),
            coming: BinaryHeap::with_capacity(count),
            queue: VecDeque::new(),
            now: Instant::ZERO,
            stretch: Stretch { served: false, until: Instant::ZERO },
        };
        (0..count).for_each(|source| thread.expect_from(source));
        thread
    }

    /// Runs until `until`, or until the sources have ended and all their messages are taken in; returns what was seen
    /// of each source.
    pub fn finish(&mut self, until: Instant) -> &[Taking] {
        while self.next() < until {
            self.step();
        }
        &self.seen
    }

    /// Returns when something happens next, if it does.
    fn next(&self) -> Instant {
        let coming = self.coming.peek().map_or(Instant::MAX, |Reverse((at, ..))| *at);
        let own = match self.queue.front() {
            None => Instant::MAX,
            Some(_) if !self.stretch.served => self.stretch.until,
            Some((.., left)) => self.now.saturating_add(*left).min(self.stretch.until),
        };
        coming.min(own).max(self.now)
    }

    fn step(&mut self) {
        let next = self.next();
        let passed = next.saturating_since(self.now);
        self.now = next;
        // What ends comes before what comes.
        if self.stretch.served
            && let Some((source, came, left)) = self.queue.front_mut()
        {
            *left = left.saturating_sub(passed);
            if left.is_zero() {
                let seen = &mut self.seen[*source];
                seen.taken += 1;
                seen.longest = seen.longest.max(next.saturating_since(*came));
                self.queue.pop_front();
            }
        }
        while let Some(&Reverse((at, source, work))) = self.coming.peek()
            && at <= next
        {
            self.coming.pop();
            self.seen[source].came += 1;
            self.queue.push_back((source, at, work.at_full_speed()));
            self.expect_from(source);
        }
        self.stretch = self.processor.at(next, !self.queue.is_empty());
    }

    fn expect_from(&mut self, source: usize) {
        if let Some(message) = self.sources[source].next() {
            self.coming.push(Reverse((message.at.max(self.now), source, message.work)));
        }
    }
}

impl<P: Processor, S: Iterator<Item = Incoming>> Processor for Received<P, S> {
    const WHOLE: bool = false;

    fn at(&mut self, now: Instant, wanted: bool) -> Stretch {
        while self.next() <= now && self.next() < Instant::MAX {
            self.step();
        }
        if !self.queue.is_empty() {
            return Stretch { served: false, until: self.next() };
        }
        let left = self.processor.at(now, wanted);
        Stretch { until: left.until.min(self.next()), ..left }
    }

    fn preempts(&self) -> bool {
        !self.queue.is_empty() || self.processor.preempts()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Whole;
    use super::*;

    #[test]
    fn a_burst_is_taken_in_one_after_the_other_and_nothing_runs_meanwhile() {
        let at = |micros: u64| Instant::from_nanos(micros * 1_000);
        let message = |micros| Incoming { at: at(micros), work: Service::from_micros(3) };
        let sources = [[message(5), message(5)], [message(5), message(40)]];
        let mut left =
            Received::new(Whole, sources.into_iter().map(IntoIterator::into_iter).collect());
        assert_eq!(left.at(at(0), true), Stretch { served: true, until: at(5) });
        assert_eq!(left.at(at(5), true), Stretch { served: false, until: at(8) });
        assert!(left.preempts());
        assert_eq!(left.at(at(8), true), Stretch { served: false, until: at(11) });
        assert_eq!(left.at(at(14), true), Stretch { served: true, until: at(40) });
        assert!(!left.preempts());
        let micros = Duration::from_micros;
        let seen = [
            Taking { came: 2, taken: 2, longest: micros(6) },
            Taking { came: 2, taken: 2, longest: micros(9) },
        ];
        assert_eq!(left.finish(at(100)), seen);
    }
}
