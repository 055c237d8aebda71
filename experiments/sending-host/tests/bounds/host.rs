//! Simulates a sending host event by event, to be compared with the bounds of `channel`. It shares
//! no formula with them. Times are nanoseconds; `u64::MAX` is never.

use std::collections::{BTreeMap, VecDeque};

use punctual_model::channel::{LinkScheduling, Sender};
use punctual_sim::egress::Costs;

/// A message to be sent: its logical arrival and its bytes.
pub(crate) type Message = (u64, u32);

/// The order in which handlers run and packets leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Rank,
    /// By arrival plus the delay bound of the channel.
    Deadline,
}

/// Traffic without a promise: messages of a fixed size from `from` on, while fewer than `room`
/// packets wait, with a pause after each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backlog {
    pub(crate) bytes: u32,
    pub(crate) from: u64,
    pub(crate) room: usize,
    pub(crate) pause: u64,
}

/// The current activity of the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Idle,
    /// The change to a handler, then packets; `left` before it has to yield.
    Handler {
        of: usize,
        left: u32,
        changing: bool,
    },
    /// O2: the link thread.
    Thread,
}

/// Queue 1 and 2 in one: best effort has the last key.
type Key = (u64, u64, u64);

#[derive(Clone, Copy, Debug)]
struct Packet {
    of: usize,
    arrival: u64,
    last: bool,
    time: u64,
}

struct Pending {
    arrival: u64,
    bytes_left: u32,
    made: u32,
}

pub(crate) struct Host<'a, C> {
    sender: &'a Sender,
    costs: C,
    order: Order,
    delay_bounds: &'a [u64],
    /// Queue 3: not yet arrived, per channel.
    early: Vec<VecDeque<Message>>,
    /// Arrived, per channel, best effort last.
    current: Vec<VecDeque<Pending>>,
    backlog: Option<Backlog>,
    next_best_effort: u64,
    queue: BTreeMap<Key, Packet>,
    queued_best_effort: usize,
    made: u64,
    now: u64,
    piece: Piece,
    piece_end: u64,
    /// The handler that ran last; the link thread has the number after best effort.
    last: usize,
    /// A packet that is being picked, and when that is done.
    starting: Option<(Packet, u64)>,
    sending: Option<(Packet, u64)>,
    worst: Vec<u64>,
}

impl<'a, C: Costs> Host<'a, C> {
    pub(crate) fn new(
        sender: &'a Sender,
        costs: C,
        order: Order,
        delay_bounds: &'a [u64],
        messages: Vec<VecDeque<Message>>,
        backlog: Option<Backlog>,
    ) -> Self {
        let n = messages.len();
        Self {
            sender,
            costs,
            order,
            delay_bounds,
            early: messages,
            current: (0..=n).map(|_| VecDeque::new()).collect(),
            backlog,
            next_best_effort: backlog.map_or(u64::MAX, |backlog| backlog.from),
            queue: BTreeMap::new(),
            queued_best_effort: 0,
            made: 0,
            now: 0,
            piece: Piece::Idle,
            piece_end: u64::MAX,
            last: usize::MAX,
            starting: None,
            sending: None,
            worst: vec![0; n],
        }
    }

    /// Runs until every message is sent, at most until `until`. Returns the longest time of each
    /// channel.
    pub(crate) fn run(mut self, until: u64) -> Vec<u64> {
        loop {
            let arrival = self.early.iter().filter_map(|q| q.front()).map(|m| m.0).min();
            let starting = self.starting.map_or(u64::MAX, |(_, end)| end);
            let sending = self.sending.map_or(u64::MAX, |(_, end)| end);
            let best_effort = if self.idle() { self.next_best_effort } else { u64::MAX };
            let next =
                [arrival.unwrap_or(u64::MAX), starting, sending, self.piece_end, best_effort];
            self.now = next.into_iter().min().expect("five").max(self.now);
            let unsent = arrival.is_some()
                || self.current[..self.worst.len()].iter().any(|q| !q.is_empty())
                || self
                    .queue
                    .values()
                    .chain(self.sending.iter().map(|(p, _)| p))
                    .any(|p| p.of < self.worst.len())
                || self.starting.is_some_and(|(p, _)| p.of < self.worst.len());
            if self.now > until || !unsent {
                return self.worst;
            }
            // A piece that ends now has not seen what arrives now.
            if starting == self.now {
                self.start();
            } else if self.piece_end == self.now {
                self.piece_ends();
            } else if sending == self.now {
                self.sent();
            } else {
                self.arrive();
            }
        }
    }

    fn idle(&self) -> bool {
        self.piece == Piece::Idle && self.starting.is_none()
    }

    fn in_interrupt(&self) -> bool {
        self.sender.link_scheduling == LinkScheduling::InInterrupt
    }

    fn best_effort(&self) -> usize {
        self.worst.len()
    }

    fn arrive(&mut self) {
        for (channel, early) in self.early.iter_mut().enumerate() {
            while early.front().is_some_and(|m| m.0 <= self.now) {
                let (arrival, bytes) = early.pop_front().expect("is there");
                self.current[channel].push_back(Pending { arrival, bytes_left: bytes, made: 0 });
            }
        }
        self.dispatch();
    }

    /// Puts the packet on the link that the link thread or interrupt has picked.
    fn start(&mut self) {
        let (packet, _) = self.starting.take().expect("was starting");
        self.sending = Some((packet, self.now + packet.time));
        if self.in_interrupt() {
            self.dispatch();
        }
    }

    fn sent(&mut self) {
        let (packet, _) = self.sending.take().expect("was sending");
        if packet.of == self.best_effort() && self.next_best_effort == u64::MAX {
            self.next_best_effort = self.now;
        }
        if packet.last && packet.of < self.worst.len() {
            let took = self.now - packet.arrival;
            self.worst[packet.of] = self.worst[packet.of].max(took);
        }
        if self.in_interrupt() {
            self.pick();
        }
        self.dispatch();
    }

    /// O1: picks the next packet, if the link is free, at the cost of whatever runs.
    fn pick(&mut self) {
        if self.sending.is_some() || self.starting.is_some() {
            return;
        }
        if let Some((_, packet)) = self.take() {
            let cost = self.link_scheduling();
            self.starting = Some((packet, self.now + cost));
            if self.piece != Piece::Idle {
                self.piece_end += cost;
            }
        }
    }

    fn take(&mut self) -> Option<(Key, Packet)> {
        let first = self.queue.pop_first();
        if first.is_some_and(|(_, packet)| packet.of == self.worst.len()) {
            self.queued_best_effort -= 1;
        }
        first
    }

    fn piece_ends(&mut self) {
        match self.piece {
            Piece::Idle => unreachable!("idle has no end"),
            Piece::Thread => {
                self.piece = Piece::Idle;
                self.piece_end = u64::MAX;
                self.dispatch();
            }
            Piece::Handler { of, left, changing: true } => self.next_packet(of, left),
            Piece::Handler { of, left, changing: false } => self.packet_made(of, left),
        }
    }

    fn next_packet(&mut self, of: usize, left: u32) {
        let costs = self.sender.costs;
        let message = self.current[of].front().expect("has work");
        let cost = if message.made == 0 { costs.first_packet } else { costs.packet };
        self.piece = Piece::Handler { of, left, changing: false };
        self.piece_end = self.now + self.costs.of(cost).as_nanos();
    }

    fn change(&mut self) -> u64 {
        self.costs.of(self.sender.costs.change_of_handler()).as_nanos()
    }

    fn link_scheduling(&mut self) -> u64 {
        self.costs.of(self.sender.costs.link_scheduling).as_nanos()
    }

    fn packet_made(&mut self, of: usize, left: u32) {
        let size = self.sender.packetisation.packet_bytes();
        let message = self.current[of].front_mut().expect("has work");
        let bytes = message.bytes_left.min(size);
        message.bytes_left -= bytes;
        message.made += 1;
        let (arrival, last) = (message.arrival, message.bytes_left == 0);
        let time = self.sender.link.transmission_time(bytes).as_nanos();
        let (first, second) = self.key(of, arrival);
        self.made += 1;
        self.queue.insert((first, second, self.made), Packet { of, arrival, last, time });
        self.queued_best_effort += usize::from(of == self.worst.len());
        if last {
            self.current[of].pop_front();
            if of == self.best_effort() {
                self.next_best_effort = self.now + self.backlog.expect("is there").pause;
            }
        }
        let yields = last || left == 1;
        if yields {
            self.piece = Piece::Idle;
            self.piece_end = u64::MAX;
        } else {
            self.next_packet(of, left - 1);
        }
        if self.in_interrupt() {
            self.pick();
        }
        if yields {
            self.dispatch();
        }
    }

    fn key(&self, of: usize, arrival: u64) -> (u64, u64) {
        match (self.order, of == self.best_effort()) {
            (_, true) => (u64::MAX, 0),
            (Order::Rank, _) => (of as u64, arrival),
            (Order::Deadline, _) => (arrival + self.delay_bounds[of], of as u64),
        }
    }

    /// Gives an idle processor something to do.
    fn dispatch(&mut self) {
        if !self.idle() {
            return;
        }
        if !self.in_interrupt() && self.sending.is_none() && !self.queue.is_empty() {
            let (_, packet) = self.take().expect("one waits");
            let thread = self.best_effort() + 1;
            let change = if self.last == thread { 0 } else { self.change() };
            self.last = thread;
            self.piece = Piece::Thread;
            self.piece_end = self.now + change + self.link_scheduling();
            self.starting = Some((packet, self.piece_end));
            return;
        }
        self.refill();
        let waiting = (0..self.current.len())
            .filter_map(|of| Some((self.key(of, self.current[of].front()?.arrival), of)));
        let Some((_, of)) = waiting.min() else {
            return;
        };
        let left = self.sender.packetisation.packets_per_block();
        if self.last == of {
            self.next_packet(of, left);
        } else {
            self.last = of;
            self.piece = Piece::Handler { of, left, changing: true };
            self.piece_end = self.now + self.change();
        }
    }

    fn refill(&mut self) {
        let Some(backlog) = self.backlog else {
            return;
        };
        let of = self.best_effort();
        if self.now >= self.next_best_effort && self.current[of].is_empty() {
            if self.queued_best_effort < backlog.room {
                let message = Pending { arrival: self.now, bytes_left: backlog.bytes, made: 0 };
                self.current[of].push_back(message);
            } else {
                // Checked again when a packet has left.
                self.next_best_effort = u64::MAX;
            }
        }
    }
}
