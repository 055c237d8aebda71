//! The choice of the next frame (V.42 §8.4).

use punctual_model::Instant;

use crate::lapm::frame::{Head, Kind, MODULUS};
use crate::lapm::hdlc::Frame;

use crate::lapm::xid::Offer;

use super::{Closed, Link, Phase, Reply};

impl Link {
    /// Returns the frame to send now, or `None` to send flags. The frame counts as sent at `now`.
    pub fn next_frame(&mut self, now: Instant) -> Option<Frame> {
        self.handle_timeout(now);
        if let Some(reply) = self.reply.take() {
            return Some(self.unnumbered(reply));
        }
        if std::mem::take(&mut self.last_words) {
            return Some(self.head(true, Kind::Disc, true, &[]));
        }
        if std::mem::take(&mut self.command_due) {
            self.run_t401(now);
            return match self.phase {
                Phase::Negotiating => {
                    let compression = self.parameters.compression;
                    let offer = Offer { limits: self.limits, compression };
                    Some(self.head(true, Kind::Xid, false, &offer.write()))
                }
                Phase::Beginning => Some(self.head(true, Kind::Sabme, true, &[])),
                Phase::Releasing => Some(self.head(true, Kind::Disc, true, &[])),
                _ => None,
            };
        }
        if self.phase != Phase::Connected {
            return None;
        }
        self.settle_busy();
        let nr = (self.vr % u64::from(MODULUS)) as u8;
        if std::mem::take(&mut self.final_due) {
            return Some(self.status(false, nr, true));
        }
        if std::mem::take(&mut self.poll_due) {
            self.run_t401(now);
            return Some(self.status(true, nr, true));
        }
        if std::mem::take(&mut self.reject_due) {
            self.acknowledge_due = false;
            return Some(self.head(false, Kind::Rej { nr }, false, &[]));
        }
        if self.has_information() {
            return Some(self.information_frame(now, nr));
        }
        std::mem::take(&mut self.acknowledge_due).then(|| self.status(false, nr, false))
    }

    /// Decides whether RNR or RR is due because the room for a whole window vanished or returned.
    fn settle_busy(&mut self) {
        let room = self.room();
        let busy =
            if self.busy { room < 2 * self.whole_window() } else { room < self.whole_window() };
        if busy != self.busy {
            self.busy = busy;
            self.acknowledge_due = true;
        }
    }

    /// Builds RR, or RNR while there is no room. It acknowledges in any case.
    fn status(&mut self, command: bool, nr: u8, poll: bool) -> Frame {
        self.acknowledge_due = false;
        let kind = if self.busy { Kind::Rnr { nr } } else { Kind::Rr { nr } };
        self.head(command, kind, poll, &[])
    }

    /// Returns true if an I frame is to be repeated, or if there is a new one and the window allows
    /// it. Called at the end of each flag.
    #[inline]
    fn has_information(&self) -> bool {
        // An I frame carries N(R) but cannot say that we are busy: RNR goes first.
        let rnr_due = self.busy && self.acknowledge_due;
        if self.recovering || self.peer_busy || rnr_due {
            return false;
        }
        let window_full = || self.highest - self.va >= u64::from(self.limits.k_sent);
        self.vs < self.highest || (!self.unsent.is_empty() && !window_full())
    }

    /// Builds the next I frame; only call it if there is one.
    fn information_frame(&mut self, now: Instant, nr: u8) -> Frame {
        if self.vs == self.highest {
            let index = self.slot_index(self.highest);
            let slot = &mut self.window[index];
            slot.len = self.unsent.len().min(self.limits.n401_sent.into());
            for (place, byte) in slot.bytes.iter_mut().zip(self.unsent.drain(..slot.len)) {
                *place = byte;
            }
            self.highest += 1;
        } else {
            self.stats.frames_repeated += 1;
            if self.vs == self.va {
                self.repeats += 1;
                if self.repeats > self.parameters.repeats {
                    self.close(Closed::LineLost);
                    return self.head(true, Kind::Disc, true, &[]);
                }
            }
        }
        self.stats.frames_sent += 1;
        let ns = (self.vs % u64::from(MODULUS)) as u8;
        let slot = self.slot(self.vs);
        let head = Head { command: true, kind: Kind::I { ns, nr }, poll: false };
        let frame = head.write(self.role, &slot.bytes[..slot.len]);
        self.vs += 1;
        if self.t401.is_none() {
            self.run_t401(now);
        }
        self.acknowledge_due = false;
        frame
    }

    fn unnumbered(&self, reply: Reply) -> Frame {
        match reply {
            Reply::Ua(poll) => self.head(false, Kind::Ua, poll, &[]),
            Reply::Dm(poll) => self.head(false, Kind::Dm, poll, &[]),
            Reply::Xid => {
                let offer = Offer { limits: self.limits, compression: self.compression };
                self.head(false, Kind::Xid, false, &offer.write())
            }
        }
    }

    fn head(&self, command: bool, kind: Kind, poll: bool, information: &[u8]) -> Frame {
        Head { command, kind, poll }.write(self.role, information)
    }

    fn run_t401(&mut self, now: Instant) {
        self.t401 = Some(now.saturating_add(self.parameters.t401));
    }
}
