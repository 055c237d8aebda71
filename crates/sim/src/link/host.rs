//! The events of a sending host.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use punctual_model::channel::LinkScheduling;
use punctual_model::{Duration, Instant, Service};
use punctual_policy::link::{Handlers, LinkScheduler, Next, Point, Shaper, YieldPoint};

use super::sink::{Sent, Sink, Totals};
use super::sources::{Backlog, Hog, HogPattern, Message};
use super::{Costs, Setup};

/// What the processor is busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Idle,
    /// The change to a handler.
    Change(u32),
    /// A packet of a handler.
    Packet(u32),
    /// O2: the link thread.
    Thread,
}

/// A message at its handler.
#[derive(Clone, Copy, Debug)]
struct Work {
    came: Instant,
    logical: Instant,
    conforming: bool,
    bytes: u32,
    bytes_left: u32,
    made: u32,
}

/// A packet at the link; `message` with its last one.
#[derive(Clone, Copy, Debug)]
struct Packet {
    handler: u32,
    bytes: u32,
    message: Option<Work>,
}

/// A best-effort sender's own view.
#[derive(Clone, Copy, Debug)]
struct Refill {
    backlog: Backlog,
    packets: u32,
    inside: u32,
    /// When the next message comes, if there is room then; never while one is being made.
    next: Instant,
}

#[derive(Clone, Copy, Debug)]
struct HogState {
    hog: Hog,
    next: Instant,
    /// How often it came.
    times: u64,
    /// When one that chases starts may come again.
    allowed_from: Instant,
}

pub(super) struct Host<'a, S, C, K> {
    setup: &'a Setup<'a>,
    sources: Vec<S>,
    costs: C,
    sink: &'a mut K,
    /// The next message of each source.
    coming: BinaryHeap<Reverse<(Instant, u32, u32)>>,
    shapers: Vec<Shaper>,
    handlers: Handlers<Work>,
    link: LinkScheduler<Packet>,
    refills: Vec<Refill>,
    next_refill: Instant,
    hogs: Vec<HogState>,
    next_hog: Instant,
    now: Instant,
    piece: Piece,
    piece_end: Instant,
    piece_cost: Service,
    /// When the first early message becomes current, if the processor is idle.
    wake: Instant,
    /// Who ran last; the link thread has the number after all handlers.
    last: u32,
    starting: Option<Packet>,
    starting_end: Instant,
    sending: Option<Packet>,
    sending_end: Instant,
    /// Until then hogs run.
    hogs_end: Instant,
    totals: Totals,
}

impl<'a, S, C, K> Host<'a, S, C, K>
where
    S: Iterator<Item = Message>,
    C: Costs,
    K: Sink,
{
    pub(super) fn new(setup: &'a Setup<'a>, sources: Vec<S>, costs: C, sink: &'a mut K) -> Self {
        let (channels, cut) = (setup.channels, setup.sender.packetisation);
        assert_eq!(sources.len(), channels.len(), "one source a channel");
        assert!(setup.hogs.iter().all(|hog| !hog.period.is_zero()), "a hog without a period");
        let refill = |backlog: &Backlog| {
            let packets = cut.packets_of(backlog.bytes);
            assert!(packets > 0 && packets <= backlog.room, "room for at least one message");
            Refill { backlog: *backlog, packets, inside: 0, next: backlog.first }
        };
        let refills: Vec<Refill> = setup.backlogs.iter().map(refill).collect();
        // All messages that may be inside, as packets.
        let of_channel = |c: &punctual_model::channel::Channel| {
            cut.packets_of(c.arrivals().max_message()) as usize * setup.room as usize
        };
        let real_time_room = channels.iter().map(of_channel).sum();
        let best_effort_room = refills.iter().map(|refill| refill.backlog.room as usize).sum();
        let count = refills.len() as u32;
        let shaper = |c: &punctual_model::channel::Channel| Shaper::new(c.arrivals(), setup.room);
        let mut host = Self {
            setup,
            sources,
            costs,
            sink,
            coming: BinaryHeap::with_capacity(channels.len()),
            shapers: channels.iter().map(shaper).collect(),
            handlers: Handlers::new(
                setup.order,
                cut.packets_per_block(),
                channels,
                setup.room as usize,
                count,
            ),
            link: LinkScheduler::new(
                setup.sender.link_scheduling,
                real_time_room,
                best_effort_room,
            ),
            refills,
            next_refill: Instant::ZERO,
            hogs: setup.hogs.iter().map(|&hog| HogState::new(hog)).collect(),
            next_hog: Instant::ZERO,
            now: Instant::ZERO,
            piece: Piece::Idle,
            piece_end: Instant::MAX,
            piece_cost: Service::ZERO,
            wake: Instant::MAX,
            last: u32::MAX,
            starting: None,
            starting_end: Instant::MAX,
            sending: None,
            sending_end: Instant::MAX,
            hogs_end: Instant::MAX,
            totals: Totals::default(),
        };
        for channel in 0..channels.len() as u32 {
            host.expect_from(channel);
        }
        host.find_next_refill();
        host.find_next_hog();
        host
    }

    pub(super) fn run(mut self, until: Instant) -> Totals {
        loop {
            let coming = self.coming.peek().map_or(Instant::MAX, |Reverse((at, ..))| *at);
            let next = [
                coming,
                self.next_refill,
                self.next_hog,
                self.hogs_end,
                self.piece_end,
                self.starting_end,
                self.sending_end,
                self.wake,
            ];
            let next = next.into_iter().fold(Instant::MAX, Instant::min).max(self.now);
            let all_left = self.totals.inside == 0
                && coming == Instant::MAX
                && !self.setup.channels.is_empty();
            if all_left || next >= until {
                let end = if all_left { self.now } else { until };
                self.totals.length = end.saturating_since(Instant::ZERO);
                return self.totals;
            }
            self.now = next;
            // The order at one instant: hogs, then what ends, then what comes.
            if self.next_hog <= next {
                self.hogs_come();
            } else if self.starting_end <= next {
                self.started();
            } else if self.piece_end <= next {
                self.piece_ends();
            } else if self.hogs_end <= next {
                self.hogs_end = Instant::MAX;
                self.pick(Point::Completed);
                self.dispatch();
            } else if self.sending_end <= next {
                self.sent();
            } else if coming <= next {
                self.message_comes();
            } else if self.next_refill <= next {
                self.refill();
                self.dispatch();
            } else {
                self.wake = Instant::MAX;
                self.dispatch();
            }
        }
    }

    fn hogged(&self) -> bool {
        self.hogs_end != Instant::MAX
    }

    fn thread(&self) -> u32 {
        (self.shapers.len() + self.refills.len()) as u32
    }

    /// The channel of this handler; `None`: best effort.
    fn channel(&self, handler: u32) -> Option<usize> {
        Some(handler as usize).filter(|&channel| channel < self.shapers.len())
    }

    fn expect_from(&mut self, channel: u32) {
        if let Some(message) = self.sources[channel as usize].next() {
            self.coming.push(Reverse((message.at.max(self.now), channel, message.bytes)));
        }
    }

    fn message_comes(&mut self) {
        let Some(Reverse((came, channel, bytes))) = self.coming.pop() else { return };
        match self.shapers[channel as usize].arrive(came, bytes) {
            Ok(arrival) => {
                let logical = arrival.logical;
                let work = Work {
                    came,
                    logical,
                    conforming: arrival.conforming,
                    bytes,
                    bytes_left: bytes,
                    made: 0,
                };
                let taken = self.handlers.arrive(self.now, channel, logical, work);
                debug_assert!(taken.is_ok(), "the shaper counts the same room");
                self.totals.inside += 1;
            }
            Err(why) => self.sink.refused(channel as usize, came, why),
        }
        self.expect_from(channel);
        self.dispatch();
    }

    /// Best-effort messages that are due come, where there is room.
    fn refill(&mut self) {
        let first_handler = self.shapers.len() as u32;
        for (refill, handler) in self.refills.iter_mut().zip(first_handler..) {
            let Refill { backlog, packets, .. } = *refill;
            if refill.next > self.now || refill.inside + packets > backlog.room {
                continue;
            }
            refill.next = Instant::MAX;
            refill.inside += packets;
            let (came, bytes) = (self.now, backlog.bytes);
            let work =
                Work { came, logical: came, conforming: true, bytes, bytes_left: bytes, made: 0 };
            let taken = self.handlers.arrive(self.now, handler, came, work);
            debug_assert!(taken.is_ok(), "one message at a time");
        }
        self.find_next_refill();
    }

    fn find_next_refill(&mut self) {
        let due = self.refills.iter().filter(|r| r.inside + r.packets <= r.backlog.room);
        self.next_refill = due.map(|refill| refill.next).fold(Instant::MAX, Instant::min);
    }

    fn find_next_hog(&mut self) {
        self.next_hog = self.hogs.iter().map(|hog| hog.next).fold(Instant::MAX, Instant::min);
    }

    /// The processor is taken away from all of the sender.
    fn hogs_come(&mut self) {
        for at in 0..self.hogs.len() {
            while self.hogs[at].next <= self.now {
                let work = self.hogs[at].hog.work.at_full_speed();
                self.hogs[at].advance(self.now);
                self.totals.hogs = self.totals.hogs.saturating_add(work.as_full_service());
                let from = if self.hogged() { self.hogs_end } else { self.now };
                self.hogs_end = from.saturating_add(work);
                // What ends now has ended; the rest is delayed. Never stays never.
                for end in [&mut self.piece_end, &mut self.starting_end] {
                    if *end > self.now {
                        *end = end.saturating_add(work);
                    }
                }
            }
        }
        self.find_next_hog();
    }

    /// The link scheduler has done its work: off goes the packet.
    fn started(&mut self) {
        self.starting_end = Instant::MAX;
        let Some(packet) = self.starting.take() else { return };
        let time = self.setup.sender.link.transmission_time(packet.bytes);
        self.sending_end = self.now.saturating_add(time);
        self.sending = Some(packet);
        let mut any = false;
        for state in &mut self.hogs {
            if state.hog.pattern == HogPattern::AtStarts && state.allowed_from <= self.now {
                state.next = self.now;
                any = true;
            }
        }
        if any {
            self.hogs_come();
        }
        if self.in_interrupt() {
            self.dispatch();
        }
    }

    fn in_interrupt(&self) -> bool {
        self.setup.sender.link_scheduling == LinkScheduling::InInterrupt
    }

    fn sent(&mut self) {
        self.sending_end = Instant::MAX;
        let Some(packet) = self.sending.take() else { return };
        self.link.completed();
        let time = self.setup.sender.link.transmission_time(packet.bytes);
        self.totals.link_busy = self.totals.link_busy.saturating_add(time);
        self.totals.packets += 1;
        match self.channel(packet.handler) {
            Some(channel) => {
                self.totals.channel_bytes += u64::from(packet.bytes);
                if let Some(Work { came, logical, conforming, bytes, .. }) = packet.message {
                    self.shapers[channel].sent();
                    self.totals.inside -= 1;
                    let left = self.now;
                    self.sink.sent(Sent { channel, bytes, came, logical, left, conforming });
                }
            }
            None => {
                self.totals.best_effort_bytes += u64::from(packet.bytes);
                self.refills[packet.handler as usize - self.shapers.len()].inside -= 1;
                self.refill();
            }
        }
        self.pick(Point::Completed);
        self.dispatch();
    }

    /// O1: starts a packet, if one has to, at the cost of whatever runs.
    fn pick(&mut self, at: Point) {
        if self.hogged() {
            return;
        }
        let Some(packet) = self.link.pick(self.now, at) else { return };
        let cost = self.link_scheduling();
        self.starting = Some(packet);
        self.starting_end = self.now.saturating_add(cost);
        if self.piece != Piece::Idle {
            self.piece_end = self.piece_end.saturating_add(cost);
        }
    }

    fn link_scheduling(&mut self) -> Duration {
        let cost = self.costs.of(self.setup.sender.costs.link_scheduling);
        self.totals.link_scheduling = self.totals.link_scheduling.saturating_add(cost);
        cost.at_full_speed()
    }

    fn change(&mut self) -> Service {
        let cost = self.costs.of(self.setup.sender.costs.change_of_handler());
        self.totals.changing = self.totals.changing.saturating_add(cost);
        cost
    }

    fn begin(&mut self, piece: Piece, cost: Duration) {
        self.piece = piece;
        self.piece_end = self.now.saturating_add(cost);
        self.wake = Instant::MAX;
    }

    fn piece_ends(&mut self) {
        match self.piece {
            Piece::Idle => self.piece_end = Instant::MAX,
            Piece::Change(handler) => self.next_packet(handler),
            Piece::Packet(handler) => self.packet_made(handler),
            Piece::Thread => {
                self.idle();
                self.dispatch();
            }
        }
    }

    fn idle(&mut self) {
        self.piece = Piece::Idle;
        self.piece_end = Instant::MAX;
    }

    fn next_packet(&mut self, handler: u32) {
        let is_first = self.handlers.message_mut(handler).is_none_or(|work| work.made == 0);
        let costs = self.setup.sender.costs;
        let worst = if is_first { costs.first_packet } else { costs.packet };
        self.piece_cost = self.costs.of(worst);
        let mut cost = self.piece_cost.at_full_speed();
        if self.hogged() {
            cost = cost.saturating_add(self.hogs_end.saturating_since(self.now));
        }
        self.begin(Piece::Packet(handler), cost);
    }

    fn packet_made(&mut self, handler: u32) {
        let size = self.setup.sender.packetisation.packet_bytes();
        let class = self.handlers.class(handler);
        let Some(work) = self.handlers.message_mut(handler) else { return };
        let bytes = work.bytes_left.min(size);
        work.bytes_left -= bytes;
        work.made += 1;
        let is_last = work.bytes_left == 0;
        let message = is_last.then_some(*work);
        let queued = self.link.ready(self.now, class, Packet { handler, bytes, message });
        debug_assert!(queued.is_ok(), "all messages inside have room as packets");
        self.totals.making = self.totals.making.saturating_add(self.piece_cost);
        match self.handlers.made(self.now, is_last) {
            YieldPoint::Continue => {
                self.next_packet(handler);
                self.pick(Point::PacketMade);
            }
            YieldPoint::Yield => {
                self.idle();
                self.pick(Point::PacketMade);
                self.dispatch();
            }
            YieldPoint::Complete(_) => {
                self.idle();
                if self.channel(handler).is_none() {
                    let refill = &mut self.refills[handler as usize - self.shapers.len()];
                    refill.next = self.now.saturating_add(refill.backlog.pause);
                    self.refill();
                }
                self.pick(Point::PacketMade);
                self.dispatch();
            }
        }
    }

    /// Gives a processor that has nothing to go on with something to do.
    fn dispatch(&mut self) {
        if self.piece != Piece::Idle || self.starting.is_some() || self.hogged() {
            return;
        }
        if let Some(packet) = self.link.pick(self.now, Point::Yield) {
            let thread = self.thread();
            let change = if self.last == thread { Service::ZERO } else { self.change() };
            self.last = thread;
            let cost = change.at_full_speed().saturating_add(self.link_scheduling());
            self.begin(Piece::Thread, cost);
            self.starting = Some(packet);
            self.starting_end = self.piece_end;
            return;
        }
        match self.handlers.next(self.now) {
            Next::Idle { until } => self.wake = until,
            Next::Run(handler) if handler == self.last => self.next_packet(handler),
            Next::Run(handler) => {
                self.last = handler;
                let change = self.change().at_full_speed();
                self.begin(Piece::Change(handler), change);
            }
        }
    }
}

impl HogState {
    fn new(hog: Hog) -> Self {
        let next = match hog.pattern {
            HogPattern::Periodic { first, late } => first.saturating_add(late),
            HogPattern::AtStarts => Instant::MAX,
        };
        Self { hog, next, times: 0, allowed_from: Instant::ZERO }
    }

    fn advance(&mut self, now: Instant) {
        match self.hog.pattern {
            HogPattern::Periodic { first, late } => {
                self.times += 1;
                let due = self.hog.period.checked_mul(self.times).unwrap_or(Duration::MAX);
                let due = first.saturating_add(due);
                self.next = due.max(first.saturating_add(late));
            }
            HogPattern::AtStarts => {
                self.allowed_from = now.saturating_add(self.hog.period);
                self.next = Instant::MAX;
            }
        }
    }
}
