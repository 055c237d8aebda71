//! The link: selects the packet that goes on it, and handles its departure.

use punctual_model::channel::LinkScheduling;
use punctual_model::{Duration, Instant};
use punctual_sim::egress::Costs;
use punctual_sim::egress::traffic::{Message, Sent};

use super::{Host, Piece, Work};
use crate::policy::Point;
use crate::simulation::sink::Sink;

impl<S, C, K> Host<'_, S, C, K>
where
    S: Iterator<Item = Message>,
    C: Costs,
    K: Sink,
{
    /// Puts the packet on the link when the link scheduler has done its work.
    pub(super) fn started(&mut self) {
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

    pub(super) fn sent(&mut self) {
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
    pub(super) fn pick(&mut self, at: Point) {
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

    pub(super) fn link_scheduling(&mut self) -> Duration {
        let cost = self.costs.of(self.setup.sender.costs.link_scheduling);
        self.totals.link_scheduling = self.totals.link_scheduling.saturating_add(cost);
        cost.at_full_speed()
    }
}
