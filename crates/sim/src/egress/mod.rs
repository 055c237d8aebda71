//! Simulates the egress scheduler of a channel server: the same [`EgressScheduler`] that runs live,
//! driven by one thread.
//!
//! # The model
//! The thread sleeps until the scheduler has something for it, or until a message comes and the
//! pace allows a wake-up. It wakes up late, hands over the packets of a block one after the other,
//! and goes before everything below it on its processor. For the work below, a [`Server`] is itself
//! a [`Processor`]. The link takes packets in the order in which they are handed over. Doorbells
//! wake the thread no more often than the pace.

pub mod traffic;
use alloc::boxed::Box;
use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::mem;

use punctual_model::channel::{Channel, LinearBounded, Link, Packetisation, Policing, TooEarly};
use punctual_model::{Duration, Instant, Rank, Service};
use punctual_policy::egress::{Credits, EgressScheduler, Next, Offered, Promise, Sent, Terms};
use punctual_policy::queues::ServiceOrder;
use rand::{Rng, RngExt};

use crate::processor::{Processor, Stretch};
use traffic::{Backlog, Message, NotAccepted, Sink};

/// The parameters of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The link as the scheduler models it, without the processor time.
    pub link: Link,
    /// The packetisation of messages.
    pub cut: Packetisation,
    /// The worst-case processor time for a packet.
    pub per_packet: Service,
    /// The least time from one packet to the next, or zero for the link's.
    pub pace: Duration,
    /// The greatest lateness of the thread's wake-ups.
    pub wakes_within: Duration,
    /// The channels.
    pub channels: &'a [Channel],
    /// The policing of each channel. Channels without an entry use the default.
    pub held: &'a [Held],
    /// The most messages of one channel that have come and not left. Further ones are refused.
    pub room: u32,
    /// The best-effort senders, each with one message at a time.
    pub backlogs: &'a [Backlog],
}

/// The policing of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The treatment of early messages.
    pub too_early: TooEarly,
    /// The rule that says which messages are early. The first control interval of credits begins
    /// with the run.
    pub policing: Policing,
}

/// A message that the scheduler has.
#[derive(Clone, Copy, Debug)]
struct Inside {
    came: Instant,
    logical: Instant,
    conforming: bool,
    bytes: u32,
}

/// A block that is being handed over.
#[derive(Clone, Copy, Debug)]
struct Making {
    sender: usize,
    bytes_left: u32,
    /// The work left on the current packet.
    work_left: Duration,
}

/// The thread with its scheduler and its link.
pub struct Server<'a, P, S, C, K> {
    setup: Setup<'a>,
    processor: P,
    sources: Vec<S>,
    costs: C,
    sink: K,
    scheduler: EgressScheduler,
    /// The next message of each source.
    coming: BinaryHeap<Reverse<(Instant, usize, u32)>>,
    /// Channels whose sources had no message at the last request.
    dry: Vec<usize>,
    /// The messages of each channel that came and were not yet offered.
    queues: Vec<VecDeque<(Instant, u32)>>,
    /// The message that the scheduler has of each sender: channels first, then best effort.
    inside: Vec<Option<Inside>>,
    /// The instant of the next message of each best-effort sender, or never while the scheduler has
    /// one of it.
    refills: Vec<Instant>,
    now: Instant,
    /// The last answer of the processor.
    stretch: Stretch,
    making: Option<Making>,
    /// The next instant at which the thread looks for work, unless it is handing over a block.
    wake: Instant,
    /// The instant until which doorbells do not wake it.
    deaf_until: Instant,
    /// The instant at which the last packet handed over has left.
    link_free: Instant,
    /// The greatest lag of the link behind the scheduler's model. It comes from packets handed over
    /// late, and is caught up on.
    made_up: Duration,
}

impl<'a, P, S, C, K> Server<'a, P, S, C, K>
where
    P: Processor,
    S: Iterator<Item = Message>,
    C: Costs,
    K: Sink,
{
    /// Makes an idle server on `processor`. `sources` has one for each channel, in the same order.
    /// A source without a message is asked again whenever the remaining processor time is
    /// requested, because it may then have one that comes at that instant ([`crate::streams`]).
    ///
    /// # Panics
    /// If there are not as many sources as channels.
    pub fn new(setup: Setup<'a>, processor: P, sources: Vec<S>, costs: C, sink: K) -> Self {
        let Setup { link, cut, per_packet, pace, channels, backlogs, .. } = setup;
        assert_eq!(sources.len(), channels.len(), "each channel has one source");
        let senders = channels.len() + backlogs.len();
        let reckoned = link.later_by(per_packet.at_full_speed());
        let packet = reckoned.transmission_time(cut.packet_bytes());
        let block = packet.checked_mul(cut.packets_per_block().into());
        let room = u32::try_from(senders).unwrap_or(u32::MAX);
        let scheduler = EgressScheduler::new(reckoned, cut, ServiceOrder::Deadline, room);
        let mut server = Self {
            setup,
            processor,
            sources,
            costs,
            sink,
            scheduler: scheduler.with_pace(pace),
            coming: BinaryHeap::with_capacity(channels.len()),
            dry: (0..channels.len()).collect(),
            queues: channels.iter().map(|_| VecDeque::new()).collect(),
            inside: (0..senders).map(|_| None).collect(),
            refills: backlogs.iter().map(|backlog| backlog.first).collect(),
            now: Instant::ZERO,
            stretch: Stretch { served: false, until: Instant::ZERO },
            making: None,
            wake: Instant::MAX,
            deaf_until: Instant::ZERO,
            link_free: Instant::ZERO,
            made_up: block.unwrap_or(Duration::MAX).saturating_add(pace),
        };
        server.open_all();
        server.ask_again();
        server
    }

    /// Runs until `until`, or until the sources of all channels have ended and their messages have
    /// left. Returns the number of messages that have not left.
    pub fn finish(&mut self, until: Instant) -> u64 {
        loop {
            let left = self.left();
            if (left == 0 && self.coming.is_empty()) || self.next() >= until {
                return left;
            }
            self.step();
        }
    }

    fn open_all(&mut self) {
        for (at, channel) in self.setup.channels.iter().enumerate() {
            let Held { too_early, policing } = self.setup.held.get(at).copied().unwrap_or_default();
            let (rank, delay_bound) = (Rank(0), channel.delay_bound());
            let (promise, arrivals) = (Promise::RealTime { rank, delay_bound }, channel.arrivals());
            let in_order = self.scheduler.open(Terms { arrivals, promise, too_early });
            if let (Ok(opened), Policing::Credits(sensitivity)) = (in_order, policing) {
                let spacing = arrivals.min_inter_arrival();
                let credits = Credits::new(spacing, sensitivity, Instant::ZERO);
                let _is_open = self.scheduler.police_by(opened, credits);
            }
        }
        for backlog in self.setup.backlogs {
            let spacing = Duration::from_nanos(1);
            let arrivals = LinearBounded::fixed(backlog.bytes.max(1), spacing, 1);
            let arrivals = arrivals.expect("a size and a spacing that are not zero");
            let (promise, too_early) = (Promise::BestEffort, TooEarly::Wait);
            let _in_order = self.scheduler.open(Terms { arrivals, promise, too_early });
        }
    }

    /// Returns the number of messages of channels that have come and not left.
    fn left(&self) -> u64 {
        let inside = self.inside[..self.queues.len()].iter().flatten().count();
        let queued: usize = self.queues.iter().map(VecDeque::len).sum();
        (inside + queued) as u64
    }

    /// Returns whether the thread wants the processor.
    fn is_awake(&self) -> bool {
        self.making.is_some() || self.wake <= self.now
    }

    /// Returns when something happens next.
    fn next(&self) -> Instant {
        let coming = self.coming.peek().map_or(Instant::MAX, |Reverse((at, ..))| *at);
        let refill = self.refills.iter().copied().fold(Instant::MAX, Instant::min);
        let outside = coming.min(refill);
        let own = match self.making {
            None if self.wake > self.now => self.wake,
            _ if !self.stretch.served => self.stretch.until,
            None => self.now,
            Some(making) => self.now.saturating_add(making.work_left).min(self.stretch.until),
        };
        outside.min(own).max(self.now)
    }

    fn step(&mut self) {
        let next = self.next();
        let passed = next.saturating_since(self.now);
        if let Some(making) = self.making.as_mut().filter(|_| self.stretch.served) {
            making.work_left = making.work_left.saturating_sub(passed);
            let is_channel = making.sender < self.queues.len();
            let by = if is_channel {
                traffic::Occupant::Channels
            } else {
                traffic::Occupant::BestEffort
            };
            if !passed.is_zero() {
                self.sink.occupied(by, self.now, next);
            }
        }
        self.now = next;
        // What ends is handled before what comes.
        if self.making.is_some_and(|making| making.work_left.is_zero()) {
            self.handed_over();
        }
        self.messages_come();
        self.best_effort_comes();
        self.stretch = self.processor.at(self.now, self.is_awake());
        if self.making.is_none() && self.wake <= self.now && self.stretch.served {
            self.look();
            self.stretch = self.processor.at(self.now, self.is_awake());
        }
    }

    /// Asks the source of `channel` for its next message, and returns whether it has one.
    fn expect_from(&mut self, channel: usize) -> bool {
        let message = self.sources[channel].next();
        let coming =
            message.map(|message| Reverse((message.at.max(self.now), channel, message.bytes)));
        self.coming.extend(coming);
        coming.is_some()
    }

    fn ask_again(&mut self) {
        let mut dry = mem::take(&mut self.dry);
        dry.retain(|channel| !self.expect_from(*channel));
        self.dry = dry;
    }

    fn messages_come(&mut self) {
        while let Some(&Reverse((came, channel, bytes))) = self.coming.peek()
            && came <= self.now
        {
            self.coming.pop();
            let held = self.queues[channel].len() + usize::from(self.inside[channel].is_some());
            let room = self.setup.room;
            if held >= room as usize {
                self.sink.refused(channel, came, NotAccepted::NoRoom { room });
            } else {
                self.queues[channel].push_back((came, bytes));
                self.ring();
            }
            if !self.expect_from(channel) {
                self.dry.push(channel);
            }
        }
    }

    fn best_effort_comes(&mut self) {
        for at in 0..self.refills.len() {
            if self.refills[at] <= self.now {
                self.refills[at] = Instant::MAX;
                self.offer(self.queues.len() + at, self.now, self.setup.backlogs[at].bytes);
                self.ring();
            }
        }
    }

    /// Rings the doorbell, which wakes a sleeping thread.
    fn ring(&mut self) {
        let hears = self.now.max(self.deaf_until);
        if hears < self.wake {
            let late = self.wakes_late();
            self.wake = self.wake.min(hears.saturating_add(late));
        }
    }

    fn wakes_late(&mut self) -> Duration {
        let worst = Service::from_nanos(self.setup.wakes_within.as_nanos());
        self.costs.of(worst).at_full_speed()
    }

    /// Looks at all rings and does the next step.
    fn look(&mut self) {
        self.deaf_until = self.now.saturating_add(self.setup.pace);
        for channel in 0..self.queues.len() {
            while self.inside[channel].is_none()
                && let Some((came, bytes)) = self.queues[channel].pop_front()
            {
                self.offer(channel, came, bytes);
            }
        }
        self.wake = match self.scheduler.next(self.now) {
            Next::Send(block) => {
                let (sender, bytes_left) = (block.channel as usize, block.bytes);
                self.making = Some(Making { sender, bytes_left, work_left: self.packet() });
                Instant::MAX
            }
            Next::At(at) => {
                let late = self.wakes_late();
                at.saturating_add(late)
            }
            Next::Idle => Instant::MAX,
        };
    }

    fn offer(&mut self, sender: usize, came: Instant, bytes: u32) {
        match self.scheduler.offer(self.now, sender as u32, came, bytes) {
            Offered::Taken { logical, conforming } => {
                self.inside[sender] = Some(Inside { came, logical, conforming, bytes });
            }
            Offered::TooEarly { .. } => self.sink.refused(sender, came, NotAccepted::TooEarly),
            Offered::WrongSize => self.sink.refused(sender, came, NotAccepted::WrongSize { bytes }),
        }
    }

    fn packet(&mut self) -> Duration {
        self.costs.of(self.setup.per_packet).at_full_speed()
    }

    /// Completes a packet, and goes on with the next one of the block or the next step.
    fn handed_over(&mut self) {
        let Some(making) = self.making.take() else { return };
        let bytes = making.bytes_left.min(self.setup.cut.packet_bytes());
        let on_link = self.setup.link.transmission_time(bytes);
        self.link_free = self.link_free.max(self.now).saturating_add(on_link);
        let bytes_left = making.bytes_left - bytes;
        if bytes_left > 0 {
            self.making = Some(Making { bytes_left, work_left: self.packet(), ..making });
            return;
        }
        let sent = self.scheduler.sent(self.now);
        debug_assert!(self.link_free <= self.scheduler.free_at().saturating_add(self.made_up));
        if let Sent::Complete { .. } = sent
            && let Some(message) = self.inside[making.sender].take()
        {
            self.complete(making.sender, message);
        }
        self.wake = self.now;
    }

    fn complete(&mut self, sender: usize, message: Inside) {
        let Inside { came, logical, conforming, bytes } = message;
        match sender.checked_sub(self.queues.len()) {
            None => {
                let left = self.link_free;
                let channel = sender;
                self.sink.sent(traffic::Sent { channel, bytes, came, logical, left, conforming });
            }
            Some(at) => {
                let pause = self.setup.backlogs[at].pause;
                self.refills[at] = self.now.saturating_add(pause);
            }
        }
    }
}

/// The processor time that the thread leaves.
impl<P, S, C, K> Processor for Server<'_, P, S, C, K>
where
    P: Processor,
    S: Iterator<Item = Message>,
    C: Costs,
    K: Sink,
{
    const WHOLE: bool = false;

    fn at(&mut self, now: Instant, _: bool) -> Stretch {
        self.ask_again();
        while self.next() <= now {
            self.step();
        }
        if self.is_awake() {
            return Stretch { served: false, until: self.next() };
        }
        let left = self.processor.at(now, false);
        Stretch { until: left.until.min(self.next()), ..left }
    }

    fn preempts(&self) -> bool {
        self.is_awake() || self.processor.preempts()
    }
}

/// The actual duration of steps.
pub trait Costs {
    /// Returns the time of a step that takes at most `worst`.
    fn of(&mut self, worst: Service) -> Service;
}

impl<C: Costs + ?Sized> Costs for Box<C> {
    fn of(&mut self, worst: Service) -> Service {
        (**self).of(worst)
    }
}

/// Every step takes its worst-case time.
#[derive(Clone, Copy, Debug)]
pub struct Exact;

impl Costs for Exact {
    fn of(&mut self, worst: Service) -> Service {
        worst
    }
}

/// Each step takes a uniformly drawn time between `least_percent` of its worst case and its worst
/// case.
#[derive(Clone, Debug)]
pub struct Drawn<R> {
    /// The least time in percent of the worst case, at most 100.
    pub least_percent: u64,
    /// The source of the draws.
    pub rng: R,
}

impl<R: Rng> Costs for Drawn<R> {
    fn of(&mut self, worst: Service) -> Service {
        let percent = self.rng.random_range(self.least_percent.min(100)..=100);
        Service::from_nanos(worst.as_nanos() / 100 * percent)
    }
}
