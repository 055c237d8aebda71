//! Models the processor time that a thread leaves while it receives messages.

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;

use punctual_model::{Duration, Instant, Service};
use punctual_policy::ingress::{BestEffort, Next, Order, Police, Terms};

use super::{Processor, Stretch};

/// A message for the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// The instant at which it comes. An instant before that of the previous message counts as that
    /// one.
    pub at: Instant,
    /// The number of its datagrams, at least one. All come at once.
    pub datagrams: u32,
}

/// The counts of the messages of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taking {
    /// Messages that came.
    pub came: u64,
    /// Messages that were received.
    pub taken: u64,
    /// Messages that were read and discarded, because they broke the contract.
    pub non_conforming: u64,
    /// Messages for which the socket did not have enough room.
    pub dropped: u64,
    /// The longest time from the arrival of a message to its receipt.
    pub longest: Duration,
}

/// The rest of another processor, after a thread that receives messages took its part.
///
/// The thread is that of the channel server: the same [`Order`] chooses the channel of each turn,
/// and the same [`Police`] decides which messages conform. Each channel has a socket that keeps as
/// many datagrams as on a live host. Each datagram takes the same time, after which it is judged.
/// Work above the thread may interrupt a turn; another turn may not. A client takes a message as
/// soon as it is delivered.
pub struct Received<P, S> {
    processor: P,
    per_datagram: Duration,
    channels: Vec<Channel<S>>,
    order: Order<u32>,
    /// The next message of each channel.
    coming: BinaryHeap<Reverse<(Instant, u32, u32)>>,
    turn: Option<Turn>,
    /// The instant at which the order is consulted again, unless a turn is in progress.
    due: Instant,
    now: Instant,
    /// The last answer of the processor.
    stretch: Stretch,
}

struct Channel<S> {
    messages: S,
    police: Police,
    /// True if its messages are also policed by the datagram.
    in_fragments: bool,
    /// The number of datagrams that fit into the socket, and the number in it.
    room: u64,
    kept: u64,
    socket: VecDeque<Waiting>,
    seen: Taking,
}

/// A message in the socket.
#[derive(Clone, Copy)]
struct Waiting {
    came: Instant,
    /// The datagrams that have not been read.
    left: u32,
    /// True if none of its datagrams was dropped.
    whole: bool,
    /// True if none of the datagrams read so far broke the contract.
    conforms: bool,
}

#[derive(Clone, Copy)]
struct Turn {
    of: u32,
    /// The most datagrams that this turn may read, and the number it has read.
    most: u32,
    read: u32,
    shared: bool,
    /// The work left on the current datagram.
    work_left: Duration,
}

impl<P: Processor, S: Iterator<Item = Incoming>> Received<P, S> {
    /// Receives the messages of channels with these terms on `processor`, each datagram in
    /// `per_datagram`. Channels without a deadline share `best_effort`, or, if it is `None`, all
    /// that the others leave.
    pub fn new(
        processor: P,
        per_datagram: Service,
        best_effort: Option<BestEffort>,
        channels: impl IntoIterator<Item = (Terms, S)>,
    ) -> Self {
        let channel = |(terms, messages): (Terms, S)| Channel {
            messages,
            police: Police::new(terms),
            in_fragments: terms.datagrams > 1,
            room: terms.kept(),
            kept: 0,
            socket: VecDeque::new(),
            seen: Taking::default(),
        };
        let channels: Vec<_> = channels.into_iter().map(channel).collect();
        let mut thread = Self {
            processor,
            per_datagram: per_datagram.at_full_speed(),
            coming: BinaryHeap::with_capacity(channels.len()),
            channels,
            order: Order::new(best_effort),
            turn: None,
            due: Instant::MAX,
            now: Instant::ZERO,
            stretch: Stretch { served: false, until: Instant::ZERO },
        };
        (0..thread.channels.len() as u32).for_each(|channel| thread.expect_from(channel));
        thread
    }

    /// Runs until `until`, or until the sources have ended and all their messages are read. Returns
    /// the counts of each.
    pub fn finish(&mut self, until: Instant) -> Vec<Taking> {
        while self.next() < until {
            self.step();
        }
        self.channels.iter().map(|channel| channel.seen).collect()
    }

    /// Returns whether the thread wants the processor.
    fn is_awake(&self) -> bool {
        self.turn.is_some() || self.due <= self.now
    }

    /// Returns when something happens next, if anything does.
    fn next(&self) -> Instant {
        let coming = self.coming.peek().map_or(Instant::MAX, |Reverse((at, ..))| *at);
        let own = match self.turn {
            None if self.due > self.now => self.due,
            _ if !self.stretch.served => self.stretch.until,
            None => self.now,
            Some(turn) => self.now.saturating_add(turn.work_left).min(self.stretch.until),
        };
        coming.min(own).max(self.now)
    }

    fn step(&mut self) {
        let next = self.next();
        let passed = next.saturating_since(self.now);
        if let Some(turn) = self.turn.as_mut().filter(|_| self.stretch.served) {
            turn.work_left = turn.work_left.saturating_sub(passed);
        }
        self.now = next;
        // What ends is handled before what comes.
        if let Some(turn) = self.turn.take_if(|turn| turn.work_left.is_zero()) {
            self.turn = self.go_on(turn);
        }
        self.messages_come();
        self.stretch = self.processor.at(next, self.is_awake());
        if self.turn.is_none() && self.due <= self.now && self.stretch.served {
            self.take_a_turn();
            self.stretch = self.processor.at(next, self.is_awake());
        }
    }

    fn take_a_turn(&mut self) {
        self.due = match self.order.next(self.now) {
            Next::Turn { of, most, shared } => {
                let work_left = self.per_datagram;
                self.turn = Some(Turn { of, most, read: 0, shared, work_left });
                Instant::MAX
            }
            Next::At(at) => at,
            Next::Idle => Instant::MAX,
        };
    }

    /// Reads a datagram, and returns the rest of the turn, if any.
    fn go_on(&mut self, turn: Turn) -> Option<Turn> {
        let channel = &mut self.channels[turn.of as usize];
        let came = channel.read(self.now);
        let turn = Turn { read: turn.read + 1, work_left: self.per_datagram, ..turn };
        if turn.read < turn.most && channel.kept > 0 {
            return Some(turn);
        }
        if turn.shared {
            self.order.used(turn.read);
        }
        if channel.kept > 0 {
            // The messages behind it came no sooner.
            self.order.add(turn.of, channel.police.urgency(self.now, came));
        }
        self.due = self.now;
        None
    }

    fn messages_come(&mut self) {
        while let Some(&Reverse((at, of, datagrams))) = self.coming.peek()
            && at <= self.now
        {
            self.coming.pop();
            let channel = &mut self.channels[of as usize];
            let waits = channel.kept > 0 || self.turn.is_some_and(|turn| turn.of == of);
            channel.comes(at, datagrams);
            if !waits {
                self.order.add(of, channel.police.urgency(self.now, self.now));
                self.due = self.due.min(self.now);
            }
            self.expect_from(of);
        }
    }

    fn expect_from(&mut self, of: u32) {
        if let Some(message) = self.channels[of as usize].messages.next() {
            self.coming.push(Reverse((message.at.max(self.now), of, message.datagrams)));
        }
    }
}

impl<S> Channel<S> {
    /// Puts a message into the socket.
    fn comes(&mut self, came: Instant, datagrams: u32) {
        self.seen.came += 1;
        let fit = u64::from(datagrams).min(self.room - self.kept) as u32;
        if fit == 0 {
            self.seen.dropped += 1;
            return;
        }
        self.kept += u64::from(fit);
        let whole = fit == datagrams;
        self.socket.push_back(Waiting { came, left: fit, whole, conforms: true });
    }

    /// Reads the oldest datagram, and returns when it came.
    fn read(&mut self, now: Instant) -> Instant {
        let Some(message) = self.socket.front_mut() else { return now };
        let came = message.came;
        message.conforms &= !self.in_fragments || self.police.datagram(came);
        message.left -= 1;
        self.kept -= 1;
        let Waiting { left, whole, conforms, .. } = *message;
        if left > 0 {
            return came;
        }
        self.socket.pop_front();
        let seen = &mut self.seen;
        if !whole {
            seen.dropped += 1;
        } else if conforms && self.police.message(came) {
            seen.taken += 1;
            seen.longest = seen.longest.max(now.saturating_since(came));
        } else {
            seen.non_conforming += 1;
        }
        came
    }
}

impl<P: Processor, S: Iterator<Item = Incoming>> Processor for Received<P, S> {
    const WHOLE: bool = false;

    fn at(&mut self, now: Instant, wanted: bool) -> Stretch {
        while self.next() <= now && self.next() < Instant::MAX {
            self.step();
        }
        if self.is_awake() {
            return Stretch { served: false, until: self.next() };
        }
        let left = self.processor.at(now, wanted);
        Stretch { until: left.until.min(self.next()), ..left }
    }

    fn preempts(&self) -> bool {
        self.is_awake() || self.processor.preempts()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Whole;
    use super::*;
    use alloc::vec;
    use core::num::NonZeroU32;
    use punctual_model::channel::LinearBounded;

    const MICRO: Duration = Duration::from_micros(1);

    fn at(micros: u64) -> Instant {
        Instant::ZERO + MICRO * micros
    }

    fn terms(spacing: u64, burst: u32, delay_bound: Option<u64>) -> Terms {
        Terms {
            arrivals: LinearBounded::fixed(100, MICRO * spacing, burst).expect("valid"),
            delay_bound: delay_bound.map(|bound| MICRO * bound),
            unevenness: Duration::ZERO,
            datagrams: 1,
        }
    }

    fn messages(micros: &[u64]) -> vec::IntoIter<Incoming> {
        let message = |&micros| Incoming { at: at(micros), datagrams: 1 };
        micros.iter().map(message).collect::<Vec<_>>().into_iter()
    }

    fn received(
        best_effort: Option<BestEffort>,
        channels: Vec<(Terms, vec::IntoIter<Incoming>)>,
    ) -> Received<Whole, vec::IntoIter<Incoming>> {
        Received::new(Whole, Service::from_micros(3), best_effort, channels)
    }

    #[test]
    fn a_burst_is_taken_in_one_after_the_other_and_nothing_runs_meanwhile() {
        let all = terms(1, 2, Some(10));
        let mut left = received(None, vec![(all, messages(&[5, 5])), (all, messages(&[5, 40]))]);
        assert_eq!(left.at(at(0), true), Stretch { served: true, until: at(5) });
        assert_eq!(left.at(at(5), true), Stretch { served: false, until: at(8) });
        assert!(left.preempts());
        assert_eq!(left.at(at(8), true), Stretch { served: false, until: at(11) });
        assert_eq!(left.at(at(14), true), Stretch { served: true, until: at(40) });
        assert!(!left.preempts());
        let seen =
            |longest| Taking { came: 2, taken: 2, longest: MICRO * longest, ..Taking::default() };
        assert_eq!(left.finish(at(100)), [seen(6), seen(9)]);
    }

    #[test]
    fn what_breaks_the_contract_is_discarded_and_waits_behind_the_others() {
        // One message each 100 µs, and two at once, are allowed: of five at once, three are too
        // many.
        let hostile = (terms(100, 2, Some(0)), messages(&[0, 0, 0, 0, 0, 1, 2]));
        let honest = (terms(100, 1, Some(50)), messages(&[16]));
        let seen = received(None, vec![hostile, honest]).finish(at(1_000));
        let hostile =
            Taking { came: 7, taken: 2, non_conforming: 5, longest: MICRO * 6, dropped: 0 };
        assert_eq!(seen[0], hostile);
        // It comes during the hostile channel's turn.
        assert_eq!((seen[1].taken, seen[1].longest), (1, MICRO * 8));
    }

    #[test]
    fn who_breaks_its_contract_reads_no_more_than_the_share() {
        let some = |n| NonZeroU32::new(n).expect("not zero");
        let share = BestEffort { datagrams_a_second: some(10_000), burst: some(1) };
        let flood: Vec<u64> = (0..1_000).collect();
        let hostile = (terms(1_000, 1, Some(0)), messages(&flood));
        let mut left = received(Some(share), vec![hostile]);
        let (mut now, mut busy) = (at(0), Duration::ZERO);
        while now < at(1_000) {
            let stretch = left.at(now, true);
            let until = stretch.until.min(at(1_000));
            busy += if stretch.served { Duration::ZERO } else { until - now };
            now = until;
        }
        // Ten datagrams of the share, and a turn of sixteen while it still had a deadline.
        assert!(busy <= MICRO * 3 * 27, "{busy}");
        let seen = left.finish(at(100_000))[0];
        assert_eq!((seen.came, seen.taken), (1_000, 1));
        // The socket has room for 64.
        assert!(seen.dropped > 800, "{seen:?}");
        assert_eq!(seen.taken + seen.non_conforming + seen.dropped, seen.came);
    }

    #[test]
    fn fragments_are_policed_too_and_a_message_without_one_is_lost() {
        let terms = Terms { datagrams: 4, ..terms(100, 1, Some(0)) };
        let message = |micros, datagrams| Incoming { at: at(micros), datagrams };
        let all = vec![message(0, 4), message(1, 4), message(2, 1), message(100, 4)];
        let seen = Received::new(Whole, Service::ZERO, None, [(terms, all.into_iter())])
            .finish(at(1_000))[0];
        assert_eq!((seen.came, seen.taken, seen.non_conforming), (4, 2, 2));
    }
}
