//! A modem whose line leads to another host: RTP both ways, without separate signalling.
//!
//! **A stream is the call.** The calling end sends, silence at first. The far end rings when that
//! stream begins. When it answers it sends too, and so the calling end learns of the answer. An end
//! that hangs up stops sending: the other modem loses its carrier. There is no SIP, so a busy line
//! looks like one that does not answer.
//!
//! A stream is validated after two packets in a row (RFC 3550 A.1). During a call only packets from
//! the peer's address count. Each call has a source identifier of its own, and packets with the
//! identifier of the last call are ignored, so that those still in flight at a hang-up do not ring.
//!
//! Pure: packets come in with their arrival times and go out with their destination.

use std::net::SocketAddr;

use punctual_model::{Duration, Instant};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::exchange::{BLOCK, MOST_RINGS, RING_CYCLE};
use crate::rtp::packet::Packet;
use crate::rtp::{Law, Receiver, SAMPLES_PER_PACKET, Sender};
use crate::station::{LineSignal, Signal, Station};

const _: () = assert!(BLOCK == SAMPLES_PER_PACKET, "a step fills one packet");

/// The time after which an unanswered call is given up.
pub const NO_ANSWER: Duration = Duration::from_secs(60);

/// The silence after which a caller has given up.
pub const GIVEN_UP: Duration = Duration::from_secs(2);

/// The parameters of a trunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrunkConfig {
    /// The address that any number reaches; `None`: there is no dial tone.
    pub calls: Option<SocketAddr>,
    /// True if other hosts can call.
    pub listens: bool,
    /// The law of the samples sent; both are understood.
    pub law: Law,
    /// The delay of the jitter buffer in samples, at most half of [`crate::rtp::jitter::RING`].
    pub delay: u32,
    /// The seed of source identifiers and of the first numbers of streams: random, except in tests.
    pub seed: u64,
}

/// The packet counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrunkStats {
    /// Packets given out for sending.
    pub sent: u64,
    /// Packets that went to the jitter buffer.
    pub received: u64,
    /// Datagrams dropped: no RTP, no G.711, no stream yet, or not of this call.
    pub dropped: u64,
    /// Packets that came after they should have been played.
    pub late: u64,
    /// Times that the jitter buffer had to set up its delay again.
    pub slips: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    OnHook,
    /// Off hook, without a far end.
    OffHook,
    Ringing {
        rings: u32,
        next: Instant,
    },
    Calling {
        since: Instant,
    },
    Through,
}

/// The modem and its line. Every 20 ms, call [`packet`](Self::packet) for each datagram that came,
/// then [`step`](Self::step).
pub struct Trunk {
    config: TrunkConfig,
    station: Station,
    state: State,
    /// The address of the far end, calling or called.
    peer: Option<SocketAddr>,
    receiver: Receiver,
    sender: Option<Sender>,
    /// The far source of the last call.
    ended: Option<u32>,
    random: ChaCha8Rng,
    /// The counters, except those of the present receiver.
    past: TrunkStats,
}

impl Trunk {
    /// Creates a trunk on hook.
    pub fn new(config: TrunkConfig) -> Self {
        Self {
            config,
            station: Station::new(),
            state: State::OnHook,
            peer: None,
            receiver: Receiver::new(config.delay),
            sender: None,
            ended: None,
            random: ChaCha8Rng::seed_from_u64(config.seed),
            past: TrunkStats::default(),
        }
    }

    /// Returns the modem.
    pub fn station(&mut self) -> &mut Station {
        &mut self.station
    }

    /// Takes a datagram that came at `now`. One that does not belong to this call, or is no RTP, is
    /// dropped and counted.
    pub fn packet(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) {
        let is_of_last_call = self.ended.is_some()
            && Packet::parse(bytes).is_ok_and(|packet| Some(packet.ssrc) == self.ended);
        let is_wanted = match self.state {
            State::OnHook => self.config.listens,
            State::OffHook => false,
            State::Ringing { .. } | State::Calling { .. } | State::Through => {
                self.peer == Some(from)
            }
        };
        if is_of_last_call || !is_wanted {
            self.past.dropped += 1;
            return;
        }
        if self.receiver.packet(now, bytes).is_err() {
            // The receiver counts it.
            return;
        }
        match self.state {
            State::OnHook => {
                self.peer = Some(from);
                self.state = State::Ringing { rings: 0, next: now };
            }
            State::Calling { .. } => {
                self.state = State::Through;
                self.station.line_signal(now, LineSignal::Answered);
            }
            State::OffHook | State::Ringing { .. } | State::Through => {}
        }
    }

    /// Runs 20 ms of the modem. If it returns an address, `packet` must be sent there.
    #[must_use = "a packet that is not sent is silence at the far end"]
    pub fn step(&mut self, now: Instant, packet: &mut Vec<u8>) -> Option<SocketAddr> {
        self.look_at_the_clock(now);
        // Played also while it rings, so that the delay is right when the call is answered.
        let mut received = [0; BLOCK];
        self.receiver.play(&mut received);
        if self.state != State::Through {
            received = [0; BLOCK];
        }
        let mut sent = [0; BLOCK];
        self.station.exchange(now, &received, &mut sent);
        while let Some(signal) = self.station.next_signal() {
            self.signal(now, &signal);
        }
        let (to, sender) = self.peer.zip(self.sender.as_mut())?;
        let mut is_full = false;
        for sample in sent {
            is_full |= sender.sample(sample, packet);
        }
        self.past.sent += u64::from(is_full);
        is_full.then_some(to)
    }

    /// Returns true if both ends send.
    pub fn is_through(&self) -> bool {
        self.state == State::Through
    }

    /// Returns the packet counters.
    pub fn stats(&self) -> TrunkStats {
        let present = self.receiver.stats();
        TrunkStats {
            sent: self.past.sent,
            received: self.past.received + present.accepted,
            dropped: self.past.dropped + present.refused,
            late: self.past.late + present.played.late,
            slips: self.past.slips + present.played.slips,
        }
    }

    fn look_at_the_clock(&mut self, now: Instant) {
        match self.state {
            State::Ringing { rings, next } => {
                let last = self.receiver.last_received();
                let given_up = last.is_none_or(|last| now.saturating_since(last) >= GIVEN_UP);
                if given_up || rings == MOST_RINGS && now >= next {
                    self.clear();
                } else if now >= next {
                    self.state = State::Ringing { rings: rings + 1, next: next + RING_CYCLE };
                    self.station.line_signal(now, LineSignal::Ring);
                }
            }
            State::Calling { since } if now.saturating_since(since) >= NO_ANSWER => {
                self.station.line_signal(now, LineSignal::NoAnswer);
            }
            _ => {}
        }
    }

    fn signal(&mut self, now: Instant, signal: &Signal) {
        let rings = matches!(self.state, State::Ringing { .. });
        match signal {
            Signal::Dial(_) if rings => self.station.line_signal(now, LineSignal::Busy),
            Signal::Dial(_) => {
                self.clear();
                match self.config.calls {
                    Some(to) => {
                        self.peer = Some(to);
                        self.transmit_samples();
                        self.state = State::Calling { since: now };
                    }
                    None => self.station.line_signal(now, LineSignal::NoDialtone),
                }
            }
            Signal::Answer if rings => {
                self.transmit_samples();
                self.state = State::Through;
            }
            Signal::Answer => {
                self.clear();
                self.state = State::OffHook;
            }
            // A modem that dials during an incoming call is told that the line is busy, and it
            // keeps ringing.
            Signal::HangUp if rings => {}
            Signal::HangUp => self.clear(),
        }
    }

    /// Begins a new outgoing stream.
    fn transmit_samples(&mut self) {
        let random = [(); 3].map(|()| self.random.next_u32());
        self.sender = Some(Sender::new(self.config.law, random));
    }

    /// Goes on hook and resets everything but the counters.
    fn clear(&mut self) {
        self.past = self.stats();
        self.ended = self.receiver.source().or(self.ended);
        self.receiver = Receiver::new(self.config.delay);
        (self.sender, self.peer, self.state) = (None, None, State::OnHook);
    }
}
