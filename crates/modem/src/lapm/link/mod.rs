//! LAPM: the protocol over frames (V.42 §8.4, after Q.921).
//!
//! # Order of calls
//! Give each frame with a correct check sequence to [`Link::frame`]. Whenever the line can take
//! another frame, send the one from [`Link::next_frame`]. Call [`Link::handle_timeout`] when
//! [`Link::next_timeout`] passes. Bytes go in at [`Link::write`] and come out at [`Link::read`];
//! both move as many bytes as there is room for, and that is the flow control. Frames may be lost
//! but must not overtake one another.
//!
//! # Recovery
//! The receiver discards a frame that is out of order and asks once, with REJ, for all frames from
//! the missing one on. If frames come that it has discarded before, the missing one was lost again,
//! and it asks again. If frames stay unacknowledged for T401, the sender asks for the receiver's
//! position, up to N400 times, and continues from there. It also gives up if the far end answers
//! but never receives one frame, however often it is sent. Numbers have 64 bits here and 7 on the
//! line: a received number is one of the at most k + 1 that it can mean, or an error.

mod receive;
mod send;

use std::collections::VecDeque;

use punctual_model::{Duration, Instant};

use super::xid::{Compression, DEFAULT_K, DEFAULT_N401, Limits, MAX_N401};
use crate::modem::Role;

/// The longest time that a frame should take. A line that garbles a hundredth of the time in pieces
/// of 20 ms spares half of the frames of this length, and hardly any four times as long.
const FRAME_MS: u64 = 1_300;

/// The shortest frames worth their seven bytes of head, check sequence and flag.
const LEAST_N401: u16 = 16;

/// The information of a frame that was sent and is not acknowledged.
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
    /// No compression until the far end has agreed to it.
    compression: Compression,
    phase: Phase,

    /// V(S), V(A) and V(R) in 64 bits; `highest` is one above the highest number ever sent.
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
    /// T401 expired on the connection: no I frame is sent until the far end reports its position.
    recovering: bool,
    peer_busy: bool,
    /// RNR was sent and not yet revoked.
    busy: bool,
    /// REJ was sent and the requested frame has not come. The value is the distance beyond that
    /// frame of the last frame discarded.
    rejecting: Option<u64>,
    /// The number of times that the frame V(A) was sent again.
    repeats: u32,

    // The frames that are due, in the order of `send::next_frame`.
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
    /// Creates a link that begins at `now`: the calling end asks, the answering end waits.
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

    /// Returns the state of the link.
    pub fn state(&self) -> LinkState {
        match self.phase {
            Phase::Negotiating | Phase::Beginning | Phase::Awaiting => LinkState::Establishing,
            Phase::Connected => LinkState::Connected,
            Phase::Releasing => LinkState::Releasing,
            Phase::Closed(why) => LinkState::Closed(why),
        }
    }

    /// Takes bytes for the far end, as many as there is room for, and returns their number. Bytes
    /// may be given before the link is connected. None are taken once it ends.
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

    /// Moves bytes from the far end to the front of `into` and returns their number.
    pub fn read(&mut self, into: &mut [u8]) -> usize {
        let count = into.len().min(self.unread.len());
        for (slot, byte) in into.iter_mut().zip(self.unread.drain(..count)) {
            *slot = byte;
        }
        count
    }

    /// Returns the number of bytes that can be read.
    pub fn readable(&self) -> usize {
        self.unread.len()
    }

    /// Returns the number of bytes written that the far end has not acknowledged: zero means that
    /// all arrived.
    pub fn unacknowledged(&self) -> usize {
        let sent = (self.va..self.highest).map(|number| self.slot(number).len).sum::<usize>();
        sent + self.unsent.len()
    }

    /// Begins to end the link. Bytes not acknowledged yet may or may not arrive; wait for
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

    /// Returns the time at which [`Link::handle_timeout`] has something to do, if nothing else
    /// happens.
    pub fn next_timeout(&self) -> Option<Instant> {
        match self.phase {
            Phase::Closed(_) => None,
            // T403 supervises only an idle connection (V.42 §8.4.8).
            Phase::Connected if self.t401.is_none() && !self.recovering => self.t403,
            _ => self.t401,
        }
    }

    /// Does the work due at `now`.
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

    /// Returns the counters so far.
    pub fn stats(&self) -> LinkStats {
        self.stats
    }

    /// Returns the limits that hold between the ends: final once the link is connected.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns the compression agreed on: final once the link is connected. The link itself does
    /// not compress.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Returns the number of bytes written that have not been sent yet.
    pub(super) fn unsent(&self) -> usize {
        self.unsent.len()
    }

    /// Ends the link because its content makes no sense.
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

    /// Returns the room for a whole window. RNR is sent below it, RR again above twice that.
    fn whole_window(&self) -> usize {
        usize::from(self.limits.n401_received) * usize::from(self.limits.k_received)
    }

    fn room(&self) -> usize {
        self.unread.capacity() - self.unread.len()
    }
}

/// The state of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// Negotiating and setting up the connection.
    Establishing,
    /// Bytes flow.
    Connected,
    /// This end has requested the end.
    Releasing,
    /// Over. Bytes that have arrived can still be read.
    Closed(Closed),
}

/// The reason why a link is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// This end ended it, and the far end agreed or did not answer.
    #[error("error control ended as asked")]
    Released,
    /// The far end ended it.
    #[error("the far end ended error control")]
    ByPeer,
    /// The far end refused the connection.
    #[error("the far end refused error control")]
    Refused,
    /// The far end never answered.
    #[error("the far end did not answer with error control")]
    NoPeer,
    /// The far end has answered, and no longer does.
    #[error("the far end no longer answers: the line is lost")]
    LineLost,
    /// The far end began again in the middle, so it is unknown which bytes arrived.
    #[error("the far end began error control again in the middle")]
    PeerReset,
    /// The far end acknowledged frames that were not sent.
    #[error("the far end broke the rules of error control")]
    ProtocolError,
}

/// The counters of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// I frames sent, including repetitions.
    pub frames_sent: u64,
    /// I frames sent again.
    pub frames_repeated: u64,
    /// I frames received in order.
    pub frames_received: u64,
    /// I frames discarded because another was expected.
    pub out_of_order: u64,
    /// I frames discarded for want of room: the far end ignored RNR.
    pub no_room: u64,
    /// Frames that could not be parsed or had no meaning in the state of the link.
    pub not_understood: u64,
    /// Times that T401 ran out.
    pub timeouts: u64,
}

/// The steps of [`LinkState`] in detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The calling end sent XID.
    Negotiating,
    /// The calling end sent SABME.
    Beginning,
    /// The answering end waits for XID or SABME.
    Awaiting,
    Connected,
    Releasing,
    Closed(Closed),
}

/// An unnumbered response that is due, with its F bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    Ua(bool),
    Dm(bool),
    Xid,
}

/// The parameters of a link. All of them may differ between the ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// N401 and k each way, before negotiation. Values above [`MAX_N401`] and
    /// [`MAX_K`](super::MAX_K) are reduced to these.
    pub limits: Limits,
    /// The time to wait for an answer.
    pub t401: Duration,
    /// The number of times to ask again before giving up.
    pub n400: u8,
    /// The number of times to send the same I frame again, while the far end answers but does not
    /// receive it, before giving up.
    pub repeats: u32,
    /// The time without a frame after which to ask whether the far end is there; `None`: never.
    pub t403: Option<Duration>,
    /// True if the calling end sends XID first.
    pub negotiate: bool,
    /// The compression that this end wants; only negotiation can enable it.
    pub compression: Compression,
}

/// Returns the milliseconds that a frame with `n401` bytes of information takes, with worst-case
/// stuffing.
fn frame_ms(n401: u16, bit_rate: u32) -> u64 {
    (u64::from(n401) + 8) * 8 * 6 / 5 * 1_000 / u64::from(bit_rate.max(1))
}

/// Returns N401 for a direction: V.42's default, halved until a frame takes a short enough time.
fn n401(bit_rate: u32) -> u16 {
    let mut bytes = DEFAULT_N401;
    while bytes > LEAST_N401 && frame_ms(bytes, bit_rate) > FRAME_MS {
        bytes /= 2;
    }
    bytes
}

impl Parameters {
    /// Returns the parameters for a line of `bit_rate` bit/s each way and no unusual delay.
    pub fn for_rate(bit_rate: u32) -> Self {
        Self::for_rates(bit_rate, bit_rate)
    }

    /// Returns the parameters for a line of `sent` bit/s from this end and `received` bit/s to it,
    /// and no unusual delay.
    ///
    /// T401 covers the longest wait for an acknowledgement that was not lost: the frame itself, the
    /// one that the far end is sending, and its next one with the acknowledgement, each with its
    /// stuffing; plus a second for the modems, the line and the drivers.
    pub fn for_rates(sent: u32, received: u32) -> Self {
        let limits = Limits {
            n401_sent: n401(sent),
            n401_received: n401(received),
            k_sent: DEFAULT_K,
            k_received: DEFAULT_K,
        };
        let wait = frame_ms(limits.n401_sent, sent) + 2 * frame_ms(limits.n401_received, received);
        Self {
            limits,
            t401: Duration::from_millis(wait + 1_000),
            n400: 6,
            repeats: 24,
            t403: Some(Duration::from_secs(30)),
            negotiate: true,
            compression: Compression::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_lines_have_short_frames_and_fast_ones_the_default() {
        for (rate, bytes) in [(75, 16), (300, 32), (1_200, 128), (2_400, 128), (0, 16)] {
            let parameters = Parameters::for_rate(rate);
            assert_eq!(parameters.limits, Limits::both(bytes, DEFAULT_K), "{rate} bit/s");
        }
        let uneven = Parameters::for_rates(75, 1_200).limits;
        assert_eq!((uneven.n401_sent, uneven.n401_received), (16, 128));
    }
}
