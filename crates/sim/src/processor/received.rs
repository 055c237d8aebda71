//! Models the processor time that a thread leaves while it receives messages.

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;

use punctual_model::{Duration, Instant, Service};
use punctual_policy::ingress::{Order, Police, QUANTUM, Regulator, Terms, Urgency};

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
/// the same [`Regulator`] limits what it reads, and the same [`Police`] decides which messages
/// conform. Each channel has a socket that keeps as many datagrams as on a live host. Each datagram
/// takes the same time, after which it is judged, and so does a turn that finds nothing. Work above
/// the thread may interrupt a turn; another turn may not. A client takes a message as soon as it is
/// delivered.
pub struct Received<P, S> {
    processor: P,
    per_datagram: Duration,
    channels: Vec<Channel<S>>,
    order: Order<u32>,
    /// The next message of each channel.
    coming: BinaryHeap<Reverse<(Instant, u32, u32)>>,
    /// Channels that may not read yet, by the instants from which they may.
    pauses: BinaryHeap<Reverse<(Instant, u32)>>,
    turn: Option<Turn>,
    /// The instant at which the order is consulted again, unless a turn is in progress.
    due: Instant,
    now: Instant,
    /// The last answer of the processor.
    stretch: Stretch,
}

struct Channel<S> {
    messages: S,
    delay_bound: Option<Duration>,
    police: Police,
    regulator: Option<Regulator>,
    /// True while it is in the order, has its turn or is paused.
    waits: bool,
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
    /// When it began, the most datagrams that it may read, and the number it has read.
    since: Instant,
    most: u32,
    read: u32,
    /// The work left on the current datagram.
    work_left: Duration,
}

impl<P: Processor, S: Iterator<Item = Incoming>> Received<P, S> {
    /// Receives the messages of channels with these terms on `processor`, each datagram in
    /// `per_datagram`. Channels without a deadline get all that the others leave.
    pub fn new(
        processor: P,
        per_datagram: Service,
        channels: impl IntoIterator<Item = (Terms, S)>,
    ) -> Self {
        let channel = |(terms, messages): (Terms, S)| Channel {
            messages,
            delay_bound: terms.delay_bound,
            police: Police::new(terms),
            regulator: Regulator::of(&terms),
            waits: false,
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
            pauses: BinaryHeap::with_capacity(channels.len()),
            channels,
            order: Order::default(),
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
        let paused = self.pauses.peek().map_or(Instant::MAX, |Reverse((until, _))| *until);
        coming.min(paused).min(own).max(self.now)
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
        self.end_pauses();
        self.messages_come();
        self.stretch = self.processor.at(next, self.is_awake());
        if self.turn.is_none() && self.due <= self.now && self.stretch.served {
            self.take_a_turn();
            self.stretch = self.processor.at(next, self.is_awake());
        }
    }

    fn take_a_turn(&mut self) {
        self.due = match self.order.next_turn() {
            Some(of) => {
                let (since, work_left) = (self.now, self.per_datagram);
                // It was added when it might read one.
                let most = self.channels[of as usize].most(since).unwrap_or(1);
                self.turn = Some(Turn { of, since, most, read: 0, work_left });
                Instant::MAX
            }
            None => Instant::MAX,
        };
    }

    /// Reads a datagram, and returns the rest of the turn, if any. A channel whose turn ends before
    /// it found its socket empty waits for another one.
    fn go_on(&mut self, turn: Turn) -> Option<Turn> {
        let channel = &mut self.channels[turn.of as usize];
        let came = channel.read(self.now);
        let turn = Turn {
            read: turn.read + u32::from(came.is_some()),
            work_left: self.per_datagram,
            ..turn
        };
        if turn.read < turn.most && channel.kept > 0 {
            return Some(turn);
        }
        if let Some(regulator) = &mut channel.regulator {
            regulator.read(turn.since, turn.read);
        }
        channel.waits = false;
        if turn.read == turn.most {
            // The messages behind it came no sooner.
            self.comes_to(turn.of, came.unwrap_or(self.now));
        }
        self.due = self.now;
        None
    }

    /// Has a channel wait for its next turn, or for the time from which it may have one.
    fn comes_to(&mut self, of: u32, came: Instant) {
        let channel = &mut self.channels[of as usize];
        channel.waits = true;
        match channel.most(self.now) {
            Ok(_) => {
                self.order.add(of, Urgency::within(channel.delay_bound, came));
                self.due = self.due.min(self.now);
            }
            Err(again) => self.pauses.push(Reverse((again, of))),
        }
    }

    fn end_pauses(&mut self) {
        while let Some(&Reverse((until, of))) = self.pauses.peek()
            && until <= self.now
        {
            self.pauses.pop();
            self.comes_to(of, self.now);
        }
    }

    fn messages_come(&mut self) {
        while let Some(&Reverse((at, of, datagrams))) = self.coming.peek()
            && at <= self.now
        {
            self.coming.pop();
            let channel = &mut self.channels[of as usize];
            channel.comes(at, datagrams);
            if !channel.waits {
                self.comes_to(of, self.now);
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

    /// Returns how many datagrams a turn at `now` may read, or when one may.
    fn most(&self, now: Instant) -> Result<u32, Instant> {
        self.regulator.as_ref().map_or(Ok(QUANTUM), |regulator| regulator.most(now))
    }

    /// Reads the oldest datagram, and returns when it came, or `None` if there is none.
    fn read(&mut self, now: Instant) -> Option<Instant> {
        let message = self.socket.front_mut()?;
        let came = message.came;
        message.conforms &= !self.in_fragments || self.police.datagram(came);
        message.left -= 1;
        self.kept -= 1;
        let Waiting { left, whole, conforms, .. } = *message;
        if left > 0 {
            return Some(came);
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
        Some(came)
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
    use punctual_model::channel::{Framing, LinearBounded, ReadLimit};
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    const MICRO: Duration = Duration::from_micros(1);

    fn at(micros: u64) -> Instant {
        Instant::ZERO + MICRO * micros
    }

    fn terms(spacing: u64, burst: u32, delay_bound: Option<u64>) -> Terms {
        let arrivals = LinearBounded::fixed(100, MICRO * spacing, burst).expect("valid");
        Terms {
            arrivals,
            reads: ReadLimit::of(arrivals, Framing::Datagram, 100),
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
        channels: Vec<(Terms, vec::IntoIter<Incoming>)>,
    ) -> Received<Whole, vec::IntoIter<Incoming>> {
        Received::new(Whole, Service::from_micros(3), channels)
    }

    #[test]
    fn a_burst_is_taken_in_one_after_the_other_and_nothing_runs_meanwhile() {
        let all = terms(1, 2, Some(10));
        let mut left = received(vec![(all, messages(&[5, 5])), (all, messages(&[5, 40]))]);
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
    fn what_breaks_the_contract_is_discarded_and_takes_no_more_than_the_limit() {
        // One message each 90 µs, and two at once, are allowed: of five at once, three are too
        // many. Three may be read at once, and then one each 80 µs.
        let hostile = (terms(90, 2, Some(0)), messages(&[0, 0, 0, 0, 0, 1, 2]));
        let honest = (terms(90, 1, Some(50)), messages(&[7]));
        let seen = received(vec![hostile, honest]).finish(at(1_000));
        let hostile =
            Taking { came: 7, taken: 2, non_conforming: 5, longest: MICRO * 6, dropped: 0 };
        assert_eq!(seen[0], hostile);
        // It comes during the hostile channel's turn.
        assert_eq!((seen[1].taken, seen[1].longest), (1, MICRO * 5));
    }

    /// Returns the stretches in which the thread has the processor, up to `until`.
    fn busy<P: Processor, S: Iterator<Item = Incoming>>(
        left: &mut Received<P, S>,
        until: Instant,
    ) -> Vec<(Instant, Instant)> {
        let (mut now, mut busy) = (at(0), Vec::new());
        while now < until {
            let stretch = left.at(now, true);
            let end = stretch.until.min(until);
            if !stretch.served {
                busy.push((now, end));
            }
            now = end;
        }
        busy
    }

    /// Floods channels with datagrams, misfits and fragments of any number. In no window does the
    /// thread take more than admission charges: the bursts, and a datagram each spacing, where
    /// nothing delays the thread.
    #[test]
    fn no_window_takes_more_than_the_channels_were_charged() {
        let (mut fullest, mut dropped) = (0, 0);
        for seed in 0..100 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let until = at(3_000);
            let mut limits = Vec::new();
            let mut channel = |rng: &mut ChaCha8Rng| {
                let datagrams = rng.random_range(1..4);
                let arrivals = LinearBounded::fixed(
                    datagrams * 100,
                    MICRO * rng.random_range(60..400),
                    rng.random_range(1..4),
                );
                let arrivals = arrivals.expect("valid");
                let reads = ReadLimit::of(arrivals, Framing::Fragments, 100);
                limits.push(reads);
                let terms = Terms {
                    arrivals,
                    delay_bound: Some(MICRO * rng.random_range(0..1_000)),
                    unevenness: MICRO * rng.random_range(0..500),
                    // A sender may cut its messages smaller than was charged.
                    datagrams: datagrams * rng.random_range(1..4),
                    reads,
                };
                let density = rng.random_range(1..200);
                let mut come = at(0);
                let all: Vec<Incoming> = core::iter::from_fn(|| {
                    let pause = if rng.random_ratio(1, 20) { 500 } else { density };
                    come += MICRO * rng.random_range(0..pause);
                    let datagrams = rng.random_range(1..2 * terms.datagrams + 1);
                    (come < until).then_some(Incoming { at: come, datagrams })
                })
                .collect();
                (terms, all.into_iter())
            };
            let channels: Vec<_> = (0..3).map(|_| channel(&mut rng)).collect();
            let per_datagram = MICRO * rng.random_range(1..8);
            let service = Service::from_nanos(per_datagram.as_nanos());
            let mut left = Received::new(Whole, service, channels);
            let busy = busy(&mut left, until);
            for (first, (from, _)) in busy.iter().enumerate() {
                let mut taken = 0;
                for (begin, end) in &busy[first..] {
                    taken += (*end - *begin).as_nanos();
                    let window = *end - *from;
                    // A turn that was begun before the window is as long as the busy stretch.
                    let most = |limit: &ReadLimit| limit.burst() + window / limit.spacing() + 1;
                    let most: u64 = limits.iter().map(most).sum();
                    let most = most * per_datagram.as_nanos();
                    assert!(taken <= most, "seed {seed}: {taken} ns in {window}, {most}");
                    fullest = fullest.max(taken * 100 / most.min(window.as_nanos()));
                }
            }
            dropped += left.finish(until).iter().map(|seen| seen.dropped).sum::<u64>();
        }
        assert!(fullest == 100 && dropped > 1_000, "{fullest} {dropped}");
    }

    #[test]
    fn fragments_are_policed_too_and_a_message_without_one_is_lost() {
        let terms = terms(100, 1, Some(0));
        let reads = ReadLimit::of(terms.arrivals, Framing::Fragments, 25);
        let terms = Terms { datagrams: 4, reads, ..terms };
        let message = |micros, datagrams| Incoming { at: at(micros), datagrams };
        let all = vec![message(0, 4), message(1, 4), message(2, 1), message(100, 4)];
        let seen =
            Received::new(Whole, Service::ZERO, [(terms, all.into_iter())]).finish(at(1_000))[0];
        assert_eq!((seen.came, seen.taken, seen.non_conforming), (4, 2, 2));
    }
}
