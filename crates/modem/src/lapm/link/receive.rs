//! The handling of a received frame (V.42 §8.4.1 to §8.4.8, §8.10).

use punctual_model::Instant;

use crate::lapm::frame::{Head, Kind, MODULUS};
use crate::lapm::xid::Offer;
use crate::modem::Role;

use super::{Closed, Link, Phase, Reply};

impl Link {
    /// Takes a received frame whose check sequence was correct and has been removed.
    pub fn frame(&mut self, now: Instant, bytes: &[u8]) {
        self.handle_timeout(now);
        let far = if self.role == Role::Calling { Role::Answering } else { Role::Calling };
        let Some((head, information)) = Head::parse(far, bytes) else {
            self.stats.not_understood += 1;
            return;
        };
        if let Some(t403) = self.parameters.t403 {
            self.t403 = Some(now.saturating_add(t403));
        }
        match (self.phase, head.kind) {
            (_, Kind::Sabme) if head.command => self.handle_sabme(now, head.poll),
            (_, Kind::Disc) if head.command => self.handle_disc(head.poll),
            (_, Kind::Xid) => self.negotiate(head.command, information),
            (Phase::Beginning, Kind::Ua) if head.poll => self.connected(now),
            (Phase::Negotiating | Phase::Beginning, Kind::Dm) => self.close(Closed::Refused),
            (Phase::Releasing, Kind::Ua | Kind::Dm) => self.close(Closed::Released),
            (Phase::Connected, Kind::Dm) => self.close(Closed::ByPeer),
            (Phase::Connected, Kind::Frmr) => self.fail(),
            (Phase::Connected, Kind::I { ns, nr }) => {
                self.information(now, head, ns, nr, information)
            }
            (Phase::Connected, Kind::Rr { nr } | Kind::Rnr { nr } | Kind::Rej { nr }) => {
                self.supervisory(now, head, nr);
            }
            // Not agreed on, out of place, or a break signal: changes no state here.
            _ => self.stats.not_understood += 1,
        }
    }

    /// Handles SABME. On a connection that carried no data the far end missed our UA. On any other
    /// it lost its state, and with it the data from this end.
    fn handle_sabme(&mut self, now: Instant, poll: bool) {
        match self.phase {
            Phase::Awaiting => {
                self.reply = Some(Reply::Ua(poll));
                self.connected(now);
            }
            Phase::Connected if self.role == Role::Answering && self.va == 0 && self.vr == 0 => {
                self.reply = Some(Reply::Ua(poll));
                self.connected(now);
            }
            Phase::Connected => {
                self.reply = Some(Reply::Dm(poll));
                self.close(Closed::PeerReset);
            }
            _ => self.reply = Some(Reply::Dm(poll)),
        }
    }

    fn handle_disc(&mut self, poll: bool) {
        match self.phase {
            Phase::Closed(_) => self.reply = Some(Reply::Dm(poll)),
            Phase::Releasing => {
                self.reply = Some(Reply::Ua(poll));
                self.close(Closed::Released);
            }
            _ => {
                self.reply = Some(Reply::Ua(poll));
                self.close(Closed::ByPeer);
            }
        }
    }

    /// Handles XID: the calling end offers and the answering end replies with what it accepts, as
    /// often as it is asked.
    fn negotiate(&mut self, command: bool, information: &[u8]) {
        let Some(far) = Offer::parse(information) else {
            self.stats.not_understood += 1;
            return;
        };
        match (self.phase, command) {
            (Phase::Awaiting, true) => {
                self.agree(far);
                self.reply = Some(Reply::Xid);
            }
            (Phase::Negotiating, false) => {
                self.agree(far);
                self.phase = Phase::Beginning;
                (self.command_due, self.tries, self.t401) = (true, 0, None);
            }
            _ => self.stats.not_understood += 1,
        }
    }

    fn agree(&mut self, far: Offer) {
        self.limits = self.limits.agreed_with(far.limits);
        self.compression = self.parameters.compression.agreed_with(far.compression);
    }

    fn connected(&mut self, now: Instant) {
        self.phase = Phase::Connected;
        self.vs = self.va;
        (self.t401, self.tries) = (None, 0);
        (self.recovering, self.peer_busy, self.rejecting) = (false, false, None);
        self.repeats = 0;
        (self.final_due, self.poll_due, self.reject_due) = (false, false, false);
        self.acknowledge_due = false;
        self.t403 = self.parameters.t403.map(|t403| now.saturating_add(t403));
    }

    pub(super) fn fail(&mut self) {
        self.last_words = true;
        self.close(Closed::ProtocolError);
    }

    fn information(&mut self, now: Instant, head: Head, ns: u8, nr: u8, information: &[u8]) {
        if !self.acknowledged(now, nr) {
            return;
        }
        let modulus = u64::from(MODULUS);
        let ahead = (u64::from(ns) + modulus - self.vr % modulus) % modulus;
        let awaited = ahead == 0;
        if awaited && information.len() <= self.room() {
            self.unread.extend(information);
            self.vr += 1;
            self.rejecting = None;
            self.reject_due = false;
            self.acknowledge_due = true;
            self.stats.frames_received += 1;
        } else if awaited {
            // It is requested again when there is room, by RR or by the far end's poll.
            self.stats.no_room += 1;
        } else {
            self.stats.out_of_order += 1;
            // Frames come in the order sent. A frame no further on than the last one was sent
            // again, and so was the missing one, before it: that was lost again.
            self.reject_due |= self.rejecting.is_none_or(|last| ahead <= last);
            self.rejecting = Some(ahead);
        }
        self.final_due |= head.command && head.poll;
    }

    fn supervisory(&mut self, now: Instant, head: Head, nr: u8) {
        if !self.acknowledged(now, nr) {
            return;
        }
        let was_busy = self.peer_busy;
        self.peer_busy = matches!(head.kind, Kind::Rnr { .. });
        if head.command && head.poll {
            self.final_due = true;
            // All frames sent before the poll have arrived or are lost: the next may be requested
            // anew.
            self.rejecting = None;
        }
        let answers_poll = !head.command && head.poll && self.recovering;
        if answers_poll {
            (self.recovering, self.poll_due, self.tries) = (false, false, 0);
            self.vs = self.va;
            self.t401 = None;
        } else if !self.recovering && matches!(head.kind, Kind::Rej { .. }) {
            self.vs = self.va;
            self.t401 = None;
        } else if !self.recovering && was_busy && !self.peer_busy {
            // It may have had no room for the frames in flight: ask, rather than wait for T401.
            if self.va < self.highest {
                self.recovering = true;
                self.poll_due = true;
            }
            self.t401 = None;
        }
        if self.peer_busy && self.t401.is_none() {
            // The far end's RR may be lost: poll for it.
            self.t401 = Some(now.saturating_add(self.parameters.t401));
        }
    }

    /// Takes an N(R). Returns false if it acknowledges a frame that was never sent, which ends the
    /// link.
    fn acknowledged(&mut self, now: Instant, nr: u8) -> bool {
        let modulus = u64::from(MODULUS);
        let advance = (u64::from(nr) + modulus - self.va % modulus) % modulus;
        if advance > self.highest - self.va {
            self.fail();
            return false;
        }
        if advance > 0 {
            self.va += advance;
            self.repeats = 0;
            self.vs = self.vs.max(self.va);
            if !self.recovering {
                self.tries = 0;
                let outstanding = self.va < self.highest;
                self.t401 = outstanding.then(|| now.saturating_add(self.parameters.t401));
            }
        }
        true
    }
}
