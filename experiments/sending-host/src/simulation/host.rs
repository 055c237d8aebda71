//! The events of a sending host: its state, the order of events, and input from outside; its
//! processor, with handlers that make packets, changes between them, and the link thread; and its
//! link, with the selection of the packet that goes on it, and the handling of its departure.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use punctual_model::channel::LinkScheduling;
use punctual_model::{Duration, Instant, Service};
use punctual_sim::egress::Costs;
use punctual_sim::egress::traffic::{Message, Sent};

use super::Setup;
use super::refills::Refills;
use super::sink::{Occupant, Sink, Totals};
use super::sources::Hogs;
use crate::policy::{Handlers, LinkScheduler, Next, Point, Shaper, YieldPoint};

/// The current activity of the processor.
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
    refills: Refills,
    hogs: Hogs,
    now: Instant,
    piece: Piece,
    piece_end: Instant,
    piece_cost: Service,
    /// When the first early message becomes current, if the processor is idle.
    wake: Instant,
    /// The handler that ran last; the link thread has the number after all handlers.
    last: u32,
    starting: Option<Packet>,
    starting_end: Instant,
    sending: Option<Packet>,
    sending_end: Instant,
    /// When the hogs' work ends.
    hogs_end: Instant,
    totals: Totals,
}

impl<'a, S, C, K> Host<'a, S, C, K>
where
    S: Iterator<Item = Message>,
    C: Costs,
    K: Sink,
{
    /// Makes a host at rest; `setup` was checked.
    pub(super) fn new(setup: &'a Setup<'a>, sources: Vec<S>, costs: C, sink: &'a mut K) -> Self {
        let (channels, cut) = (setup.channels, setup.sender.packetisation);
        let refills = Refills::new(setup.backlogs, cut);
        // All messages that may be inside, as packets.
        let of_channel = |c: &punctual_model::channel::Channel| {
            cut.packets_of(c.arrivals().max_message()) as usize * setup.room as usize
        };
        let real_time_room = channels.iter().map(of_channel).sum();
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
                refills.len() as u32,
            ),
            link: LinkScheduler::new(setup.sender.link_scheduling, real_time_room, refills.room()),
            refills,
            hogs: Hogs::new(setup.hogs),
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
        host
    }

    pub(super) fn run(mut self, until: Instant) -> Totals {
        loop {
            let coming = self.coming.peek().map_or(Instant::MAX, |Reverse((at, ..))| *at);
            let next = [
                coming,
                self.refills.next(),
                self.hogs.next(),
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
            if let Some(by) = self.occupant().filter(|_| next > self.now) {
                self.sink.occupied(by, self.now, next);
            }
            self.now = next;
            // The order at one instant: hogs, then ends, then arrivals.
            if self.hogs.next() <= next {
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
            } else if self.refills.next() <= next {
                self.refill();
                self.dispatch();
            } else {
                self.wake = Instant::MAX;
                self.dispatch();
            }
        }
    }

    /// Returns the occupant of the processor from now on.
    fn occupant(&self) -> Option<Occupant> {
        match self.piece {
            _ if self.hogged() => Some(Occupant::Hogs),
            _ if self.starting.is_some() => Some(Occupant::Link),
            Piece::Idle => None,
            Piece::Thread => Some(Occupant::Link),
            Piece::Change(handler) | Piece::Packet(handler) => match self.channel(handler) {
                Some(_) => Some(Occupant::Channels),
                None => Some(Occupant::BestEffort),
            },
        }
    }

    fn hogged(&self) -> bool {
        self.hogs_end != Instant::MAX
    }

    fn thread(&self) -> u32 {
        (self.shapers.len() + self.refills.len()) as u32
    }

    /// Returns the channel of this handler, or `None` for best effort.
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

    /// Takes in the due best-effort messages, where there is room.
    fn refill(&mut self) {
        while let Some((sender, bytes)) = self.refills.take(self.now) {
            let came = self.now;
            let work =
                Work { came, logical: came, conforming: true, bytes, bytes_left: bytes, made: 0 };
            let handler = (self.shapers.len() + sender) as u32;
            let taken = self.handlers.arrive(came, handler, came, work);
            debug_assert!(taken.is_ok(), "one message at a time");
        }
    }

    /// Takes the processor away from all of the sender.
    fn hogs_come(&mut self) {
        while let Some(work) = self.hogs.take(self.now) {
            self.totals.hogs = self.totals.hogs.saturating_add(work);
            let work = work.at_full_speed();
            let from = if self.hogged() { self.hogs_end } else { self.now };
            self.hogs_end = from.saturating_add(work);
            // A piece that ends now has ended; the others are delayed. Never stays never.
            for end in [&mut self.piece_end, &mut self.starting_end] {
                if *end > self.now {
                    *end = end.saturating_add(work);
                }
            }
        }
    }
}

impl<S, C, K> Host<'_, S, C, K>
where
    S: Iterator<Item = Message>,
    C: Costs,
    K: Sink,
{
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
                    self.refills.made(handler as usize - self.shapers.len(), self.now);
                    self.refill();
                }
                self.pick(Point::PacketMade);
                self.dispatch();
            }
        }
    }

    /// Gives an idle processor something to do.
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

impl<S, C, K> Host<'_, S, C, K>
where
    S: Iterator<Item = Message>,
    C: Costs,
    K: Sink,
{
    /// Puts the packet on the link when the link scheduler has done its work.
    fn started(&mut self) {
        self.starting_end = Instant::MAX;
        let Some(packet) = self.starting.take() else { return };
        let time = self.setup.sender.link.transmission_time(packet.bytes);
        self.sending_end = self.now.saturating_add(time);
        self.sending = Some(packet);
        self.hogs.packet_starts(self.now);
        self.hogs_come();
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
                self.refills.left(packet.handler as usize - self.shapers.len());
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
}
