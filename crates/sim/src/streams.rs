//! Simulates streams: frames become ready, the turns of an upcall process them, and a channel sends
//! the messages that the turns hand over.
//!
//! This connects two other simulations: the turns are jobs of [`crate::tasks`], the channel is one
//! of [`crate::egress`]. A turn looks for work when it begins. It takes up to a batch of PDUs of
//! the frames that are ready then, in order, and hands them over as one message when it completes.
//! Frames that become ready meanwhile wait for the next turn. A turn runs for as long as its
//! arrival says, even if it finds nothing, because the admission test charges for it.
//!
//! [`Turns`] releases the turns, [`Working`] passes their events on, [`Streams::handed_over`] is
//! the source of the channel, and [`Sending`] reports the messages that left.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::mem;

use punctual_model::{Duration, Instant};
use punctual_trace::{Event, Kind};

use crate::arrivals::{Arrival, Arrivals};
use crate::egress::traffic;
use crate::egress::traffic::{Message, NotAccepted, Sent};

/// The terms of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The most PDUs that a turn takes.
    pub batch: u32,
    /// The most bytes of a PDU.
    pub pdu_bytes: u32,
    /// The part of each frame's PDUs that is not sent, in parts per million, rounded down to whole
    /// PDUs.
    pub tolerated_loss_ppm: u32,
    /// The longest allowed time from when a frame is ready to the end of its last packet.
    pub delay: Duration,
}

/// The counts of the frames of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameDelays {
    /// Frames that became ready.
    pub ready: u64,
    /// Frames whose last packet has left.
    pub sent: u64,
    /// Frames that took longer than the stream's delay.
    pub late: u64,
    /// The longest time from being ready to the end of the last packet.
    pub longest: Duration,
}

/// The frames of a running stream, as they become ready. Each message here is a frame.
type Frames = Box<dyn Iterator<Item = Message>>;

/// Streams between their upcalls and their channels, known by their positions.
pub struct Streams(RefCell<Vec<Stream>>);

struct Stream {
    terms: Terms,
    frames: Frames,
    /// The next frame that is not known to be ready.
    next: Option<Message>,
    /// For each ready frame, the instant since which it is ready and the number of PDUs left.
    waiting: VecDeque<(Instant, u32)>,
    /// The PDUs of the current turn, and the frames that end with it.
    taken: u32,
    ends: Vec<Instant>,
    /// The messages that were handed over and are not yet known to the channel.
    handed_over: VecDeque<Message>,
    /// For each frame that was handed over and not sent, the instant of the message with which it
    /// ends, and the instant since which it was ready.
    leaving: VecDeque<(Instant, Instant)>,
    seen: FrameDelays,
}

impl Streams {
    /// Makes streams from their terms and frames.
    pub fn new(streams: impl IntoIterator<Item = (Terms, Frames)>) -> Self {
        let stream = |(terms, mut frames): (Terms, Frames)| Stream {
            terms,
            next: frames.next(),
            frames,
            waiting: VecDeque::new(),
            taken: 0,
            ends: Vec::new(),
            handed_over: VecDeque::new(),
            leaving: VecDeque::new(),
            seen: FrameDelays::default(),
        };
        Self(RefCell::new(streams.into_iter().map(stream).collect()))
    }

    /// Returns the messages of `stream` as its turns hand them over. The iterator may return `None`
    /// now and more messages later.
    pub fn handed_over(&self, stream: usize) -> impl Iterator<Item = Message> {
        core::iter::from_fn(move || self.0.borrow_mut()[stream].handed_over.pop_front())
    }

    /// Returns the counts of each stream, including frames that were never taken.
    pub fn seen(self) -> Vec<FrameDelays> {
        let seen = |stream: Stream| {
            let left = u64::from(stream.next.is_some()) + stream.frames.count() as u64;
            FrameDelays { ready: stream.seen.ready + left, ..stream.seen }
        };
        self.0.into_inner().into_iter().map(seen).collect()
    }
}

impl Stream {
    /// Begins a turn.
    fn begin(&mut self, now: Instant) {
        let Terms { batch, pdu_bytes, tolerated_loss_ppm, .. } = self.terms;
        while let Some(frame) = self.next.take_if(|frame| frame.at <= now) {
            let pdus = frame.bytes.div_ceil(pdu_bytes);
            let lost = u64::from(pdus) * u64::from(tolerated_loss_ppm) / 1_000_000;
            self.waiting.push_back((frame.at, pdus - lost as u32));
            self.seen.ready += 1;
            self.next = self.frames.next();
        }
        while self.taken < batch
            && let Some((ready, left)) = self.waiting.front_mut()
        {
            let pdus = (*left).min(batch - self.taken);
            self.taken += pdus;
            *left -= pdus;
            if *left == 0 {
                self.ends.push(*ready);
                self.waiting.pop_front();
            }
        }
    }

    /// Completes a turn.
    fn complete(&mut self, now: Instant) {
        let taken = mem::take(&mut self.taken);
        if taken > 0 {
            let bytes = taken * self.terms.pdu_bytes;
            self.handed_over.push_back(Message { at: now, bytes });
            self.leaving.extend(self.ends.drain(..).map(|ready| (now, ready)));
        }
    }

    /// Records that the message that came at `came` has left.
    fn sent(&mut self, came: Instant, left: Instant) {
        while let Some(&(at, ready)) = self.leaving.front()
            && at == came
        {
            self.leaving.pop_front();
            let delay = left.saturating_since(ready);
            self.seen.sent += 1;
            self.seen.late += u64::from(delay > self.terms.delay);
            self.seen.longest = self.seen.longest.max(delay);
        }
    }
}

/// The arrivals of tasks, some of which are turns. Turns are strictly periodic from the first on,
/// because their frames do not wait for gaps in the pattern of the others.
pub struct Turns<A> {
    arrivals: A,
    /// For each turn, its period, and its next release if it has had one.
    turns: Vec<Option<(Duration, Option<Instant>)>>,
    begin_by: Instant,
}

impl<A: Arrivals> Turns<A> {
    /// Wraps `arrivals`. Tasks with a period are turns. The first turn is released within a period
    /// of `first`, when the first frame may become ready.
    pub fn new(
        arrivals: A,
        periods: impl IntoIterator<Item = Option<Duration>>,
        first: Instant,
    ) -> Self {
        let turns = periods.into_iter().map(|period| Some((period?, None))).collect();
        Self { arrivals, turns, begin_by: first }
    }
}

impl<A: Arrivals> Arrivals for Turns<A> {
    fn next(&mut self, task: u32) -> Arrival {
        let arrival = self.arrivals.next(task);
        let Some((period, next)) = &mut self.turns[task as usize] else { return arrival };
        let release = next.unwrap_or_else(|| {
            let past = arrival.release.saturating_since(self.begin_by.saturating_add(*period));
            arrival.release - *period * past.as_nanos().div_ceil(period.as_nanos())
        });
        *next = Some(release.saturating_add(*period));
        Arrival { release, known: release, ..arrival }
    }
}

/// A sink that passes the turns among the events of tasks to `streams`.
pub struct Working<'a, K> {
    /// The streams.
    pub streams: &'a Streams,
    /// The stream that each task processes, if any.
    pub of_task: &'a [Option<usize>],
    /// The sink of all events.
    pub sink: K,
}

impl<K: punctual_trace::Sink> punctual_trace::Sink for Working<'_, K> {
    fn record(&mut self, event: Event) {
        if let Some(at) = self.of_task[event.job.task as usize] {
            let stream = &mut self.streams.0.borrow_mut()[at];
            match event.kind {
                Kind::Start => stream.begin(event.at),
                Kind::Complete => stream.complete(event.at),
                _ => {}
            }
        }
        self.sink.record(event);
    }
}

/// A sink that reports to `streams` which messages left their channels.
pub struct Sending<'a, K> {
    /// The streams.
    pub streams: &'a Streams,
    /// The stream that each channel sends, if any.
    pub of_channel: &'a [Option<usize>],
    /// The sink of everything.
    pub sink: K,
}

impl<K: traffic::Sink> traffic::Sink for Sending<'_, K> {
    fn occupied(&mut self, by: traffic::Occupant, from: Instant, to: Instant) {
        self.sink.occupied(by, from, to);
    }

    fn sent(&mut self, message: Sent) {
        if let Some(at) = self.of_channel[message.channel] {
            self.streams.0.borrow_mut()[at].sent(message.came, message.left);
        }
        self.sink.sent(message);
    }

    fn refused(&mut self, channel: usize, at: Instant, why: NotAccepted) {
        if let Some(stream) = self.of_channel[channel] {
            // Its frames never leave.
            self.streams.0.borrow_mut()[stream]
                .leaving
                .retain(|(handed_over, _)| *handed_over != at);
        }
        self.sink.refused(channel, at, why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::traffic::Sink as _;
    use alloc::vec;
    use punctual_model::{JobId, Service};
    use punctual_trace::Sink as _;

    fn ns(n: u64) -> Instant {
        Instant::from_nanos(n)
    }

    /// A sink that ignores everything.
    struct Nothing;

    impl traffic::Sink for Nothing {
        fn sent(&mut self, _: Sent) {}
        fn refused(&mut self, _: usize, _: Instant, _: NotAccepted) {}
    }

    /// Makes frames of three PDUs and of one, in turns of two.
    fn streams(tolerated_loss_ppm: u32) -> Streams {
        let delay = Duration::from_nanos(50);
        let terms = Terms { batch: 2, pdu_bytes: 10, tolerated_loss_ppm, delay };
        let frames = vec![Message { at: ns(0), bytes: 25 }, Message { at: ns(5), bytes: 10 }];
        Streams::new([(terms, Box::new(frames.into_iter()) as Frames)])
    }

    fn turn(streams: &Streams, from: u64, to: u64) -> Option<Message> {
        let sink: Vec<Event> = Vec::new();
        let mut working = Working { streams, of_task: &[None, Some(0)], sink };
        for (at, kind) in [(from, Kind::Start), (to, Kind::Complete)] {
            let job = JobId { task: 1, index: 0 };
            working.record(Event { at: ns(at), job, release: ns(from), kind });
        }
        assert_eq!(working.sink.len(), 2);
        streams.handed_over(0).next()
    }

    fn sent(streams: &Streams, came: u64, left: u64) {
        let mut sending = Sending { streams, of_channel: &[Some(0)], sink: Nothing };
        let (came, logical, left) = (ns(came), ns(came), ns(left));
        sending.sent(Sent { channel: 0, bytes: 20, came, logical, left, conforming: true });
    }

    #[test]
    fn a_turn_takes_a_batch_of_what_is_ready_when_it_begins() {
        let streams = streams(0);
        assert_eq!(turn(&streams, 3, 8), Some(Message { at: ns(8), bytes: 20 }));
        assert_eq!(turn(&streams, 13, 18), Some(Message { at: ns(18), bytes: 20 }));
        assert_eq!(turn(&streams, 23, 28), None, "nothing is left");
        // No frame ends with the first message, and both end with the second.
        sent(&streams, 8, 30);
        sent(&streams, 18, 52);
        let longest = Duration::from_nanos(52);
        assert_eq!(streams.seen(), [FrameDelays { ready: 2, sent: 2, late: 1, longest }]);
    }

    #[test]
    fn what_may_be_lost_is_not_sent_and_what_nobody_took_counts() {
        // Of three PDUs one may be lost, of one none.
        let streams = streams(400_000);
        assert_eq!(turn(&streams, 3, 8), Some(Message { at: ns(8), bytes: 20 }));
        let mut sending = Sending { streams: &streams, of_channel: &[Some(0)], sink: Nothing };
        sending.refused(0, ns(8), NotAccepted::NoRoom { room: 0 });
        assert_eq!(streams.seen(), [FrameDelays { ready: 2, ..FrameDelays::default() }]);
    }

    #[test]
    fn turns_are_periodic_whatever_the_pattern_of_the_others() {
        struct Sparse(u64);
        impl Arrivals for Sparse {
            fn next(&mut self, _: u32) -> Arrival {
                self.0 += 35;
                Arrival { release: ns(self.0), known: ns(self.0 + 2), exec_time: Service::MAX }
            }
        }
        let period = Duration::from_nanos(10);
        let mut turns = Turns::new(Sparse(0), [None, Some(period)], ns(4));
        let known = |arrival: Arrival| (arrival.release.as_nanos(), arrival.known.as_nanos());
        assert_eq!(known(turns.next(0)), (35, 37));
        // A first turn at 70 would leave a frame at 4 waiting.
        assert_eq!([(); 3].map(|()| known(turns.next(1))), [(10, 10), (20, 20), (30, 30)]);
    }
}
