//! Drives the egress scheduler in virtual time: sources, one thread that hands over, a wire.

use punctual_model::channel::{LinearBounded, Link, Packetisation, TooEarly};
use punctual_model::{Duration, Instant};
use punctual_policy::egress::{EgressScheduler, Next, Offered, Promise, Sent, Terms};
use punctual_policy::queues::ServiceOrder;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// A server and its wire.
pub(crate) struct System {
    /// The greatest processor time for handing over a packet.
    pub(crate) cpu: Duration,
    /// The link on which a packet travels after it was handed over.
    pub(crate) wire: Link,
    pub(crate) cut: Packetisation,
    /// The least time from one packet to the next.
    pub(crate) pace: Duration,
    /// The message sizes of the best-effort senders, which always have something to send.
    pub(crate) best_effort: Vec<u32>,
}

impl System {
    /// Returns the link as the egress scheduler models it.
    pub(crate) fn link(&self) -> Link {
        let (nothing, byte) = (self.wire.transmission_time(0), self.wire.transmission_time(1));
        Link::new(nothing + self.cpu, (byte - nothing).as_nanos()).expect("as the wire")
    }
}

/// A channel and its source.
pub(crate) struct Stream {
    pub(crate) terms: Terms,
    pub(crate) source: Source,
}

/// A client's messages, in order.
pub(crate) struct Source(Box<dyn Iterator<Item = Message>>);

/// A message of a client.
#[derive(Clone, Copy)]
pub(crate) struct Message {
    /// `None` means as soon as there is room for it.
    at: Option<Instant>,
    bytes: u32,
}

impl Source {
    /// Returns a source that sends the largest allowed bursts, then as fast as allowed.
    pub(crate) fn greedy(
        of: LinearBounded,
        first: Instant,
        until: Instant,
        mut rng: ChaCha8Rng,
    ) -> Self {
        let (spacing, burst) = (of.min_inter_arrival(), u64::from(of.max_burst()));
        let times = (0..).map(move |n: u64| first + spacing * n.saturating_sub(burst - 1));
        let largest = rng.random_bool(0.7);
        Self(Box::new(times.take_while(move |at| *at < until).map(move |at| {
            let least = if largest { of.max_message() } else { of.min_message() };
            Message { at: Some(at), bytes: rng.random_range(least..=of.max_message()) }
        })))
    }

    /// Returns a source with any conforming traffic.
    pub(crate) fn drawn(
        of: LinearBounded,
        first: Instant,
        until: Instant,
        mut rng: ChaCha8Rng,
    ) -> Self {
        let spacing = of.min_inter_arrival().as_nanos();
        let early = of.jitter().expect("small").as_nanos();
        let (mut at, mut due) = (first.as_nanos(), 0_u64);
        let messages = std::iter::from_fn(move || {
            // As early as the contract allows, or later.
            at = at.max(due.saturating_sub(early));
            if rng.random_bool(0.4) {
                at += rng.random_range(0..2 * spacing);
            }
            due = due.max(at) + spacing;
            let bytes = rng.random_range(of.min_message()..=of.max_message());
            Some(Message { at: Some(Instant::from_nanos(at)), bytes })
        });
        Self(Box::new(messages.take_while(move |message| message.at < Some(until))))
    }

    /// Returns a source with ten times the allowed messages, some of them too large.
    pub(crate) fn flood(
        of: LinearBounded,
        first: Instant,
        until: Instant,
        mut rng: ChaCha8Rng,
    ) -> Self {
        let gap = Duration::from_nanos(of.min_inter_arrival().as_nanos().div_ceil(10));
        let times = (0..).map(move |n: u64| first + gap * n);
        let burst = 3 * u64::from(of.max_burst()) as usize;
        let times = std::iter::repeat_n(first, burst).chain(times);
        Self(Box::new(times.take_while(move |at| *at < until).enumerate().map(move |(n, at)| {
            let wrong = n == 0 || rng.random_bool(0.2);
            let bytes = of.max_message();
            Message { at: Some(at), bytes: if wrong { bytes + 1 } else { bytes } }
        })))
    }

    /// Returns a source that always has a message.
    pub(crate) fn always(bytes: u32) -> Self {
        Self(Box::new(std::iter::repeat(Message { at: None, bytes })))
    }
}

/// The results for the messages of a channel.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) offered: u64,
    pub(crate) complete: u64,
    pub(crate) wrong_size: u64,
    pub(crate) too_early: u64,
    pub(crate) not_conforming: u64,
    /// The longest delay from logical arrival to the end on the wire.
    pub(crate) longest: Duration,
    /// The logical arrival of each accepted message.
    pub(crate) logical: Vec<Instant>,
    /// The actual arrival of each accepted message.
    arrived: Vec<Instant>,
    largest: u32,
    smallest: Option<u32>,
}

impl Tally {
    /// Checks that the accepted messages conform to the contract in every window between two
    /// arrivals: always by logical arrivals, as for a channel that sends no bursts; by actual
    /// arrivals only if no early message was held.
    pub(crate) fn assert_policed(&self, of: LinearBounded, held: bool, seed: u64) {
        let no_burst = LinearBounded::new(1, 1, of.min_inter_arrival(), 1).expect("valid");
        assert_conforming(&self.logical, no_burst, seed);
        if !held {
            assert_conforming(&self.arrived, of, seed);
        }
        assert!(self.largest <= of.max_message(), "seed {seed}");
        assert!(self.smallest.is_none_or(|least| least >= of.min_message()), "seed {seed}");
    }
}

fn assert_conforming(times: &[Instant], of: LinearBounded, seed: u64) {
    for (at, first) in times.iter().enumerate() {
        // Long windows are checked only from the first arrival on, where a drift would show.
        let windows = if at == 0 { times.len() } else { 300 };
        for (more, last) in times[at..].iter().enumerate().take(windows) {
            let window = *last - *first + Duration::from_nanos(1);
            let most = of.arrivals_in(window).expect("small");
            assert!((more as u64) < most, "seed {seed}: {first} to {last}");
        }
    }
}

/// Runs `streams` and the best effort of `system` until `until`, and then until all messages are
/// complete. Returns the results for each stream.
pub(crate) fn drive(
    system: &System,
    order: ServiceOrder,
    mut streams: Vec<Stream>,
    until: Instant,
    rng: &mut ChaCha8Rng,
) -> Vec<Tally> {
    let promised = streams.len();
    streams.extend(system.best_effort.iter().map(|&bytes| {
        let arrivals = LinearBounded::fixed(bytes, Duration::from_nanos(1), 1).expect("valid");
        let promise = Promise::BestEffort;
        let terms = Terms { arrivals, promise, too_early: TooEarly::Wait };
        Stream { terms, source: Source::always(bytes) }
    }));
    let mut egress = EgressScheduler::new(system.link(), system.cut, order, streams.len() as u32)
        .with_pace(system.pace);
    let mut waiting: Vec<Option<Message>> = Vec::new();
    for (at, stream) in streams.iter_mut().enumerate() {
        assert_eq!(egress.open(stream.terms), Ok(at as u32));
        waiting.push(stream.source.0.next());
    }
    let mut tallies: Vec<Tally> = streams.iter().map(|_| Tally::default()).collect();
    let mut inside: Vec<Option<Instant>> = vec![None; streams.len()];
    // A processor that takes less than its worst, down to this percentage.
    let least_percent = if rng.random_bool(0.5) { 100 } else { rng.random_range(0..100) };
    let (mut now, mut wire_free) = (Instant::ZERO, Instant::ZERO);
    loop {
        let mut next_arrival = Instant::MAX;
        for (at, stream) in streams.iter_mut().enumerate() {
            while let (None, Some(message)) = (inside[at], waiting[at]) {
                let arrived = message.at.unwrap_or(now);
                if arrived > now || (message.at.is_none() && now >= until) {
                    next_arrival = next_arrival.min(message.at.unwrap_or(Instant::MAX));
                    break;
                }
                waiting[at] = stream.source.0.next();
                inside[at] = offer(&mut egress, &mut tallies[at], now, at as u32, arrived, message);
            }
        }
        match egress.next(now) {
            Next::Send(block) => {
                let packets = u64::from(system.cut.packets_of(block.bytes));
                let mut left = block.bytes;
                let begun = now;
                for _ in 0..packets {
                    let percent = rng.random_range(least_percent..=100);
                    now += Duration::from_nanos(system.cpu.as_nanos() * percent / 100);
                    let bytes = left.min(system.cut.packet_bytes());
                    left -= bytes;
                    wire_free = wire_free.max(now) + system.wire.transmission_time(bytes);
                }
                assert_eq!(left, 0);
                let at = block.channel as usize;
                let sent = egress.sent(now);
                assert!(
                    egress.free_at() >= wire_free,
                    "reckoned faster than the wire since {begun}"
                );
                if let Sent::Complete { .. } = sent {
                    let logical = inside[at].take().expect("a message was inside");
                    tallies[at].complete += 1;
                    tallies[at].longest = tallies[at].longest.max(wire_free - logical);
                }
            }
            Next::At(at) => now = at.min(next_arrival),
            Next::Idle if next_arrival == Instant::MAX => break,
            Next::Idle => now = next_arrival,
        }
    }
    tallies.truncate(promised);
    tallies
}

/// Returns the logical arrival of the message if it was accepted.
fn offer(
    egress: &mut EgressScheduler,
    tally: &mut Tally,
    now: Instant,
    channel: u32,
    arrived: Instant,
    message: Message,
) -> Option<Instant> {
    tally.offered += 1;
    match egress.offer(now, channel, arrived, message.bytes) {
        Offered::Taken { logical, conforming } => {
            tally.not_conforming += u64::from(!conforming);
            tally.logical.push(logical);
            tally.arrived.push(arrived);
            tally.largest = tally.largest.max(message.bytes);
            tally.smallest = Some(tally.smallest.map_or(message.bytes, |s| s.min(message.bytes)));
            Some(logical)
        }
        Offered::TooEarly { conforms_at } => {
            assert!(conforms_at > arrived);
            tally.too_early += 1;
            None
        }
        Offered::WrongSize => {
            tally.wrong_size += 1;
            None
        }
    }
}
