//! Measures what packets cost their receiver, by receiving some: from a socket of the channel's own
//! through the receiving thread's loop into the client's ring, all as in production.
//!
//! The caller's thread is sender, carrier and client in turn, so that it chooses CPU and class. The
//! time includes only the carrier's work: not the kernel's work until the packets were in the
//! socket, not the switch to the carrier, and not the client's own part. The client's bell is rung
//! as for a client that sleeps, but wakes no thread.

#[cfg(test)]
mod tests;

use std::io;
use std::num::NonZeroU16;
use std::sync::Arc;

use punctual_linux::clock;
use punctual_linux::net::{Outgoing, Place, Readiness, SendError, UdpSocket};
use punctual_linux::pass::{Bell, PassError};
use punctual_model::channel::{Framing, LinearBounded, TrafficError};
use punctual_model::{Duration, Instant};
use punctual_ring::frames::{Corrupt, Geometry, GeometryError, Rest};
use rustix::io::Errno;
use thiserror::Error;

use super::{Order, Report, Round, RunLoop};
use crate::account::{ReceivedAccount, ReceivedSnapshot};
use crate::fragment::Fragments;
use crate::rings::{Puts, RingError, Takes, both};
use crate::server::orders::{Desk, desk_and_post};
use crate::server::receiver::{OpenError, Opening, QUANTUM, Receiver, Terms};
use crate::server::ringer::Ringers;

/// The number of the only channel, and the number in its fragments' headers.
const ID: u64 = 0;
const NUMBER: u32 = 0;

/// The number of messages in the ring: as many datagrams as are read in one go.
const SLOTS: u32 = QUANTUM;

/// The contract: packets that are sent one by one are never faster.
const SPACING: Duration = Duration::from_micros(1);
const DELAY_BOUND: Duration = Duration::from_millis(5);

/// The smallest fragments that a broker's receiver takes; they determine its bookkeeping.
const LEAST_FRAGMENT: u16 = 256;

/// The time for which packets may be under way on a busy host.
const PATIENCE: Duration = Duration::from_secs(10);

/// The reason why nothing can be received, or nothing was.
#[derive(Debug, Error)]
pub enum TrialError {
    /// The longest message is longer than a ring holds.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// Packets of this size make no message.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// Memory or descriptors are lacking.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The bell could not be created, or does not ring.
    #[error(transparent)]
    Bell(#[from] PassError),
    /// Descriptors are lacking.
    #[error("no channel can be made to receive by ({0}): are descriptors and memory left?")]
    Descriptors(#[from] Errno),
    /// The thread could not be created.
    #[error("no thread can be made to wake a client by: {0}")]
    Ringer(io::Error),
    /// The channel cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Our own memory is inconsistent.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// A packet cannot be put into the socket.
    #[error("no packet can be sent to be received: {0}")]
    Send(#[from] SendError),
    /// Packets were sent and not received.
    #[error(
        "{packets} packets of {packet_bytes} bytes were sent, and not all received ({what}): are the \
         limits of socket buffers (net.core.rmem_max) large enough for them?"
    )]
    NotReceived {
        /// The number of packets.
        packets: u32,
        /// The bytes of each, with no header counted.
        packet_bytes: u32,
        /// The place where they may be.
        what: &'static str,
    },
}

/// A channel of its own, its sender, and its receiver.
#[derive(Debug)]
pub struct Trial {
    run_loop: RunLoop,
    // Dropping this would end the loop.
    _desk: Desk<Order, Report>,
    near: UdpSocket,
    takes: Takes,
    bell: Bell,
    account: Arc<ReceivedAccount>,
    framing: Framing,
    packet_bytes: u32,
    content: Vec<u8>,
    /// The number of messages sent.
    sent: u64,
    patience: Duration,
}

impl Trial {
    /// Creates a channel that listens at `far`, to which `near` is connected. Its messages are
    /// single packets ([`Framing::Datagram`]), or of up to `packets` packets each
    /// ([`Framing::Fragments`]). A packet has `packet_bytes` beside the header of fragments. Its
    /// contract delays nothing.
    ///
    /// # Errors
    /// Returns an error if memory or descriptors are lacking, the messages would be too long, or no
    /// packet arrives.
    pub fn new(
        near: UdpSocket,
        far: UdpSocket,
        framing: Framing,
        packet_bytes: NonZeroU16,
        packets: u32,
    ) -> Result<Self, TrialError> {
        let packet_bytes = u32::from(packet_bytes.get());
        let most = match framing {
            Framing::Datagram => packet_bytes,
            Framing::Fragments => packet_bytes.saturating_mul(packets.max(1)),
        };
        let geometry = Geometry::new(SLOTS, most)?;
        let (client, server) = both::<Puts>(geometry)?;
        let least = packet_bytes.min(LEAST_FRAGMENT.into());
        let terms = Terms {
            traffic: LinearBounded::new(1, most, SPACING, SLOTS)?.into(),
            delay_bound: Some(DELAY_BOUND),
            framing,
            number: NUMBER,
            // The smaller of two numbers that are not zero.
            least_fragment: NonZeroU16::new(least as u16).unwrap_or(NonZeroU16::MIN),
            packet_bytes,
            unevenness: Duration::ZERO,
            // Sender and receiver are one host.
            shared_clock: true,
        };
        let bell = Ringers::default().enter(0, server.bell).map_err(TrialError::Ringer)?;
        let opening = Opening::new(terms, far, server.end, bell)?;
        let account = Arc::clone(opening.account());
        let mut receiver = Receiver::new()?;
        receiver.open(clock::now(), ID, opening)?;
        let (desk, post) = desk_and_post(1, 2)?;
        let run_loop = RunLoop::new(receiver, post)?;
        let content = vec![0x5a; most as usize];
        let (sent, _desk) = (0, desk);
        let mut trial = Self {
            run_loop,
            _desk,
            near,
            takes: client.end,
            bell: client.bell,
            account,
            framing,
            packet_bytes,
            content,
            sent,
            patience: PATIENCE,
        };
        trial.turn_until_idle();
        trial.take_all()?;
        // This allocates the pages of all slots.
        let longest = if framing == Framing::Datagram { 1 } else { packets.max(1) };
        for _ in 0..SLOTS {
            let _first = trial.packets(longest)?;
        }
        Ok(trial)
    }

    /// Sends `packets` packets, clamped to 1 to 16: as messages, or as one message of at most the
    /// packets for which the trial was made. Returns the time from the look at the socket in which
    /// they wait until they are in the client's ring and nothing is left to do. Returns `None` if
    /// none waited there yet, or not all were read in that time: then the time was spent waiting,
    /// not working.
    ///
    /// # Errors
    /// Returns an error if they cannot be sent, or do not come.
    pub fn packets(&mut self, packets: u32) -> Result<Option<Duration>, TrialError> {
        let packets = packets.clamp(1, QUANTUM);
        self.send(packets)?;
        let waits = self.waits();
        let before = clock::now();
        self.turn_until_idle();
        let after = clock::now();
        let at_once = waits && self.seen().received == self.sent;
        self.turn_until_received(packets, before.saturating_add(self.patience))?;
        self.take_all()?;
        Ok(at_once.then(|| after - before))
    }

    /// Puts packets into the socket.
    fn send(&mut self, packets: u32) -> Result<(), TrialError> {
        let packet = self.packet_bytes as usize;
        if self.framing == Framing::Datagram {
            let content = &self.content[..packet];
            for _ in 0..packets {
                self.near.send(&Outgoing::new(&[Place::of(content)]))?;
                self.sent += 1;
            }
            return Ok(());
        }
        let length = (self.content.len() as u32).min(self.packet_bytes.saturating_mul(packets));
        // It was given as 16 bits.
        let fragment_bytes = NonZeroU16::new(packet as u16).unwrap_or(NonZeroU16::MIN);
        let message = Fragments { fragment_bytes, channel: NUMBER, message: self.sent, length };
        for piece in message.within(0..length, Some(clock::now())) {
            let of = piece.bytes.start as usize..piece.bytes.end as usize;
            let header = piece.header.to_bytes();
            let parts = [Place::of(&header), Place::of(&self.content[of])];
            self.near.send(&Outgoing::new(&parts))?;
        }
        self.sent += 1;
        Ok(())
    }

    /// Returns whether something waits in the socket.
    fn waits(&self) -> bool {
        let channel = self.run_loop.receiver.get(ID);
        channel.is_some_and(|it| it.socket().wait(Readiness::Readable, Instant::ZERO) == Ok(true))
    }

    fn seen(&self) -> ReceivedSnapshot {
        self.account.snapshot()
    }

    fn turn_until_idle(&mut self) {
        while self.run_loop.go() == Round::On {}
    }

    fn turn_until_received(&mut self, packets: u32, until: Instant) -> Result<(), TrialError> {
        while self.seen().received != self.sent {
            let lost = self.seen().losses;
            let what = match () {
                () if self.run_loop.receiver.get(ID).is_none() => "their channel has ended",
                () if lost.discarded > 0 => "no packet of this size is taken",
                () if lost.socket > 0 => "their socket had no room",
                () if lost.total() > 0 || clock::now() > until => "some are lost",
                () => {
                    // The loop sleeps until something comes, half a second at most.
                    self.turn_until_idle();
                    continue;
                }
            };
            let packet_bytes = self.packet_bytes;
            return Err(TrialError::NotReceived { packets, packet_bytes, what });
        }
        Ok(())
    }

    /// Does the client's part: takes all messages, then waits at its bell.
    fn take_all(&mut self) -> Result<(), TrialError> {
        self.takes.rise();
        loop {
            let mut taken = 0;
            while self.takes.take()?.is_some() {
                taken += 1;
            }
            let _ = self.takes.release(taken);
            self.bell.silence()?;
            if self.takes.rest()? == Rest::Sleep {
                return Ok(());
            }
            self.takes.rise();
        }
    }
}
