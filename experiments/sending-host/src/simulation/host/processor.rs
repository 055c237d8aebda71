//! The processor: handlers that make packets, changes between them, and the link thread.

use punctual_model::{Duration, Instant, Service};
use punctual_sim::egress::Costs;
use punctual_sim::egress::traffic::Message;

use super::{Host, Packet, Piece};
use crate::policy::{Next, Point, YieldPoint};
use crate::simulation::sink::Sink;

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

    pub(super) fn piece_ends(&mut self) {
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
    pub(super) fn dispatch(&mut self) {
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
