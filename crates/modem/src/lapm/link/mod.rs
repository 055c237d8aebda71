//! LAPM: the protocol over frames (V.42 §8.4, after Q.921).
//!
//! # Order of calls
//! Give each frame with a right check sequence to [`Link::frame`]; whenever the line can take
//! another frame, send what [`Link::next_frame`] gives; call [`Link::handle_timeout`] when
//! [`Link::next_timeout`] passes. Bytes go in at [`Link::write`] and come out at [`Link::read`];
//! both take and give as much as there is room for, and that is the flow control. Frames must not
//! overtake one another; they may be lost.
//!
//! # How it recovers
//! The receiver of a frame out of order discards it and asks once, with REJ, for all from the
//! missing one on; when frames come that it has discarded before, the missing one was lost again,
//! and it asks again. The sender of frames that nobody acknowledges for T401 asks where the receiver
//! is, up to N400 times, and goes on from there. It gives up too if the far end answers and still does
//! not get one frame, however often it is sent. Numbers are kept in 64 bits here and travel in
//! 7: a number received is one of the at most k + 1 that can be meant, or an error.

mod parameters;
mod receive;
mod send;
mod state;

use std::collections::VecDeque;

use punctual_model::Instant;

use crate::modem::Role;

use super::MAX_N401;
use super::xid::{Compression, Limits};

pub use parameters::Parameters;
pub use state::{Closed, LinkState, LinkStats};
use state::{Phase, Reply};

/// Information of a frame sent and not acknowledged.
#[derive(Clone, Copy)]
struct Slot {
    bytes: [u8; MAX_N401],
    len: usize,
}

/// One end of a link.
pub struct Link {
    role: Role,
    parameters: Parameters,
    limits: Limits,
    /// None, until the far end has agreed.
    compression: Compression,
    phase: Phase,

    /// V(S), V(A), V(R) in 64 bits; `highest` is one above the highest number ever sent.
    vs: u64,
    va: u64,
    highest: u64,
    vr: u64,
    window: Vec<Slot>,
    unsent: VecDeque<u8>,
    unread: VecDeque<u8>,

    /// T401, while it runs.
    t401: Option<Instant>,
    /// T403.
    t403: Option<Instant>,
    tries: u8,
    /// T401 ran out in a connection: no I frame is sent before the far end said where it is.
    recovering: bool,
    peer_busy: bool,
    /// RNR was said, and not yet taken back.
    busy: bool,
    /// REJ was sent, and what it asked for has not come: how far beyond that the frame discarded
    /// last was.
    rejecting: Option<u64>,
    /// How often the frame V(A) was sent again.
    repeats: u32,

    // What is due, in the order of `send::next_frame`.
    reply: Option<Reply>,
    command_due: bool,
    last_words: bool,
    final_due: bool,
    poll_due: bool,
    reject_due: bool,
    acknowledge_due: bool,

    stats: LinkStats,
}

impl Link {
    /// A link that begins at `now`: the calling end asks, the answering end waits to be asked.
    pub fn new(now: Instant, role: Role, parameters: Parameters) -> Self {
        let limits = parameters.limits.bounded();
        let calling = role == Role::Calling;
        let phase = match (calling, parameters.negotiate) {
            (true, true) => Phase::Negotiating,
            (true, false) => Phase::Beginning,
            (false, _) => Phase::Awaiting,
        };
        let window = |n401: u16, k: u8| usize::from(n401) * usize::from(k);
        let to_send = window(limits.n401_sent, limits.k_sent);
        let to_receive = window(limits.n401_received, limits.k_received);
        Self {
            role,
            parameters,
            limits,
            compression: Compression::default(),
            phase,
            vs: 0,
            va: 0,
            highest: 0,
            vr: 0,
            window: vec![Slot { bytes: [0; MAX_N401], len: 0 }; limits.k_sent.into()],
            unsent: VecDeque::with_capacity(to_send),
            unread: VecDeque::with_capacity(4 * to_receive),
            // The answering end waits as long as the calling end tries, for XID and for SABME.
            t401: (!calling).then(|| {
                now.saturating_add(parameters.t401 * (2 * u64::from(parameters.n400) + 2))
            }),
            t403: None,
            tries: 0,
            recovering: false,
            peer_busy: false,
            busy: false,
            rejecting: None,
            repeats: 0,
            reply: None,
            command_due: calling,
            last_words: false,
            final_due: false,
            poll_due: false,
            reject_due: false,
            acknowledge_due: false,
            stats: LinkStats::default(),
        }
    }

    /// Where the link is.
    pub fn state(&self) -> LinkState {
        match self.phase {
            Phase::Negotiating | Phase::Beginning | Phase::Awaiting => LinkState::Establishing,
            Phase::Connected => LinkState::Connected,
            Phase::Releasing => LinkState::Releasing,
            Phase::Closed(why) => LinkState::Closed(why),
        }
    }

    /// Takes bytes for the far end, as many as there is room for; returns how many. They may be
    /// given before the link is connected, and are not taken once it ends.
    #[must_use = "bytes beyond the number returned were not taken"]
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        if matches!(self.phase, Phase::Releasing | Phase::Closed(_)) {
            return 0;
        }
        let room = self.unsent.capacity() - self.unsent.len();
        let taken = &bytes[..bytes.len().min(room)];
        self.unsent.extend(taken);
        taken.len()
    }

    /// Moves bytes from the far end to the front of `into`; returns how many.
    pub fn read(&mut self, into: &mut [u8]) -> usize {
        let count = into.len().min(self.unread.len());
        for (slot, byte) in into.iter_mut().zip(self.unread.drain(..count)) {
            *slot = byte;
        }
        count
    }

    /// Bytes that can be read.
    pub fn readable(&self) -> usize {
        self.unread.len()
    }

    /// Bytes written that the far end has not acknowledged: zero means that all arrived.
    pub fn unacknowledged(&self) -> usize {
        let sent = (self.va..self.highest).map(|number| self.slot(number).len).sum::<usize>();
        sent + self.unsent.len()
    }

    /// Asks for the end. What is not acknowledged yet may or may not arrive: wait for
    /// [`Link::unacknowledged`] to be zero first, if that matters.
    pub fn release(&mut self) {
        match self.phase {
            Phase::Connected => {
                self.phase = Phase::Releasing;
                (self.command_due, self.tries) = (true, 0);
                (self.t401, self.recovering, self.poll_due) = (None, false, false);
            }
            Phase::Releasing | Phase::Closed(_) => {}
            _ => {
                self.last_words = self.role == Role::Calling;
                self.close(Closed::Released);
            }
        }
    }

    /// When [`Link::handle_timeout`] has something to do, if nothing else happens.
    pub fn next_timeout(&self) -> Option<Instant> {
        match self.phase {
            Phase::Closed(_) => None,
            // T403 watches only over an idle connection (V.42 §8.4.8).
            Phase::Connected if self.t401.is_none() && !self.recovering => self.t403,
            _ => self.t401,
        }
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.next_timeout().is_none_or(|due| now < due) {
            return;
        }
        let idle = self.t401.take().is_none();
        if !idle {
            self.stats.timeouts += 1;
        }
        match self.phase {
            Phase::Closed(_) => {}
            Phase::Awaiting => self.close(Closed::NoPeer),
            _ if self.tries >= self.parameters.n400 => match self.phase {
                Phase::Releasing => self.close(Closed::Released),
                Phase::Connected => {
                    self.last_words = true;
                    self.close(Closed::LineLost);
                }
                _ => self.close(Closed::NoPeer),
            },
            Phase::Connected => {
                self.recovering = true;
                self.poll_due = true;
            }
            _ => self.command_due = true,
        }
        self.tries += 1;
    }

    /// What the link did so far.
    pub fn stats(&self) -> LinkStats {
        self.stats
    }

    /// What holds between the ends: final once the link is connected.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The compression agreed on: final once the link is connected. The link itself compresses
    /// nothing.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Bytes written that have not been sent yet.
    pub(super) fn unsent(&self) -> usize {
        self.unsent.len()
    }

    /// Ends the link because what it carried makes no sense.
    pub(super) fn break_off(&mut self) {
        if self.phase == Phase::Connected {
            self.fail();
        }
    }

    fn close(&mut self, why: Closed) {
        self.phase = Phase::Closed(why);
        (self.t401, self.t403) = (None, None);
        self.command_due = false;
    }

    fn slot(&self, number: u64) -> &Slot {
        &self.window[self.slot_index(number)]
    }

    fn slot_index(&self, number: u64) -> usize {
        (number % self.window.len() as u64) as usize
    }

    /// Room for a whole window: below it RNR is said, above twice of it RR again.
    fn whole_window(&self) -> usize {
        usize::from(self.limits.n401_received) * usize::from(self.limits.k_received)
    }

    fn room(&self) -> usize {
        self.unread.capacity() - self.unread.len()
    }
}
