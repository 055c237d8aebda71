//! Measures what a message costs its sender, by sending some: through the client's ring, the bell,
//! the loop of the thread that carries channels, the egress scheduler and the transport, all as in
//! production.
//!
//! The caller's thread is client and carrier in turn, so that it chooses CPU and class. The time
//! includes only the carrier's work: not the switch to it, and not the client's own part.

use std::sync::Arc;
use std::{fmt, io};

use punctual_linux::clock;
use punctual_linux::net::UdpSocket;
use punctual_linux::pass::{Doorbell, PassError};
use punctual_model::channel::{CostError, Framing, LinearBounded, Link, Packetisation, TooEarly};
use punctual_model::{Duration, Instant, Rank};
use punctual_policy::egress::{EgressScheduler, Promise, Terms};
use punctual_policy::queues::ServiceOrder;
use punctual_ring::frames::{Corrupt, Geometry, GeometryError, Wake};
use rustix::event::epoll::{self, CreateFlags, EventData};
use rustix::io::Errno;
use thiserror::Error;

use super::run_loop::{BELLS, RunLoop};
use super::{Channel, Desk, Opening, Order, Report, Sender, desk_and_post};
use crate::account::{Account, Recorder};
use crate::rings::{Puts, RingError, Takes, both};
use crate::server::ringer::Ringers;
use crate::transport::{NullDevice, Udp, Wire};

/// The number of messages in the ring. Each is sent before the next is put in.
const SLOTS: u32 = 8;

/// The time for which a link may have no room for one message.
const PATIENCE: Duration = Duration::from_secs(1);

/// The destination of messages.
#[derive(Clone, Debug)]
pub enum Destination {
    /// Through a connected socket.
    Network {
        /// The socket.
        socket: Arc<UdpSocket>,
        /// True if a probe has seen UDP_SEGMENT work, as for [`Udp::new`].
        trains: bool,
    },
    /// Nowhere: a transport takes all packets and looks at none. The time that is left is the
    /// carrier's own.
    Nowhere,
}

/// The reason why nothing can be sent, or nothing was.
#[derive(Debug, Error)]
pub enum TrialError {
    /// Packets of this size make no message, or one that is too long.
    #[error(transparent)]
    Cut(#[from] CostError),
    /// The longest message is longer than a ring holds.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// Memory or descriptors are lacking.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The bell could not be created.
    #[error(transparent)]
    Bell(#[from] PassError),
    /// Descriptors are lacking.
    #[error("no channel can be made to send by ({0}): are descriptors and memory left?")]
    Descriptors(Errno),
    /// The thread could not be created.
    #[error("no thread can be made to wake a client by: {0}")]
    Ringer(io::Error),
    /// Our own memory is inconsistent.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// A message was not sent.
    #[error(
        "a message of {bytes} bytes was not sent ({lost}): is there a route, and do packets of \
         {packet_bytes} bytes fit into it?"
    )]
    NotSent {
        /// The bytes of the message.
        bytes: u32,
        /// The cause of its loss.
        lost: &'static str,
        /// The bytes of a packet, with no header counted.
        packet_bytes: u32,
    },
}

/// A channel of its own, and the loop that carries it.
pub struct Trial {
    run_loop: RunLoop,
    // Dropping this would end the loop.
    _desk: Desk<Order, Report>,
    puts: Puts,
    doorbell: Doorbell,
    account: Arc<Account>,
    packet_bytes: u32,
    sent: u64,
}

impl Trial {
    /// Creates a channel for messages of up to `packets` packets with the packetisation `cut`, as
    /// fragments. Its contract and its link delay nothing.
    ///
    /// # Errors
    /// Returns an error if memory or descriptors are lacking, or the messages would be too long.
    pub fn new(
        destination: &Destination,
        cut: Packetisation,
        packets: u32,
    ) -> Result<Self, TrialError> {
        let most = cut.packet_bytes().saturating_mul(packets.max(1));
        let geometry = Geometry::new(SLOTS, most)?;
        let link = Link::with_picos(Duration::ZERO, 0)?;
        let wire = match destination {
            Destination::Network { socket, trains } => {
                let mut udp = Udp::new(1, *trains);
                udp.attach(0, Arc::clone(socket));
                Wire::Udp(udp)
            }
            Destination::Nowhere => Wire::Null(NullDevice::new(link, u32::MAX, Duration::MAX, ())),
        };
        let (client, server) = both::<Takes>(geometry)?;
        let (mut puts, rings) = (client.end, client.doorbell);
        let content = vec![0x5a; geometry.max_message() as usize];
        for _ in 0..SLOTS {
            // Written once, as a client writes it: so its pages exist and are not all the same one.
            if let Some(mut slot) = puts.claim()? {
                slot.write(0, &content);
                slot.push(1, 0);
            }
        }
        // They are sent when the channel is opened.
        let _ = puts.publish();
        let bells = epoll::create(CreateFlags::CLOEXEC).map_err(TrialError::Descriptors)?;
        let (desk, post) = desk_and_post(1, 2).map_err(TrialError::Descriptors)?;
        let egress = EgressScheduler::new(link, cut, ServiceOrder::Deadline, 1);
        let mut run_loop = RunLoop {
            sender: Sender::new(egress, cut, 1, wire),
            post,
            bells: Arc::new(bells),
            looked: Arc::default(),
            idle: Arc::default(),
            pace: Duration::ZERO,
            deaf_until: Instant::ZERO,
        };
        let terms = Terms {
            // A message each nanosecond. A number that is not 0 is in the range.
            arrivals: LinearBounded::new(1, most.max(1), Duration::from_nanos(1), SLOTS)
                .expect("a message of some bytes"),
            promise: Promise::RealTime { rank: Rank(0), delay_bound: Duration::from_secs(1) },
            too_early: TooEarly::Wait,
        };
        let recorder = Recorder::new(None);
        let account = Arc::clone(recorder.account());
        let opening = Opening {
            terms,
            framing: Framing::Fragments,
            number: 0,
            takes: server.end,
            bell: Ringers::default().enter(0, server.bell).map_err(TrialError::Ringer)?,
            doorbell: server.doorbell,
            recorder,
            believed_from: Instant::ZERO,
        };
        opening.doorbell.watch(&*run_loop.bells, EventData::new_u64(0))?;
        let opened = run_loop.sender.open(clock::now(), 0, Channel::new(opening));
        assert!(opened.is_ok(), "the only channel");
        let packet_bytes = cut.packet_bytes();
        let mut trial =
            Self { run_loop, _desk: desk, puts, doorbell: rings, account, packet_bytes, sent: 0 };
        let _waited = trial.carry(&mut bells_that_rang());
        trial.sent = trial.account.snapshot().sent;
        Ok(trial)
    }

    /// Sends a message of `packets` packets, and returns the time from the look at its bell until
    /// nothing is left to do. Returns `None` if the link or its queue had no room meanwhile: then
    /// the time was spent waiting, not working.
    ///
    /// # Errors
    /// Returns an error if it was not sent.
    pub fn message(&mut self, packets: u32) -> Result<Option<Duration>, TrialError> {
        let bytes = self.packet_bytes.saturating_mul(packets);
        let packet_bytes = self.packet_bytes;
        let not_sent = |lost| TrialError::NotSent { bytes, lost, packet_bytes };
        let Some(slot) = self.puts.claim()? else {
            return Err(not_sent("its ring is full"));
        };
        slot.push(bytes as usize, 0);
        if self.puts.publish_with(|| clock::now().as_nanos()) == Wake::Ring {
            self.doorbell.ring()?;
        }
        let mut rung = bells_that_rang();
        let before = clock::now();
        let waited = self.carry(&mut rung);
        let took = clock::now() - before;
        self.sent += 1;
        let account = self.account.snapshot();
        if account.sent != self.sent {
            let lost = match account.losses {
                losses if losses.refused > 0 => "no packet of this size is taken",
                losses if losses.unreachable > 0 => "its destination cannot be reached",
                _ => "the link takes nothing",
            };
            return Err(not_sent(lost));
        }
        Ok((!waited).then_some(took))
    }

    /// Turns until nothing is left to do, or [`PATIENCE`] is over. Returns whether it had to wait.
    fn carry(&mut self, rung: &mut Vec<epoll::Event>) -> bool {
        let (mut waited, mut sleep) = (false, Some(Duration::ZERO));
        let mut given_up = None;
        while let Some(looked) = self.run_loop.hear(rung, sleep) {
            sleep = self.run_loop.work(looked);
            let Some(sleep) = sleep else { return waited };
            if !sleep.is_zero() {
                waited = true;
                let until = *given_up.get_or_insert(looked.saturating_add(PATIENCE));
                if looked > until {
                    break;
                }
            }
        }
        true
    }
}

/// Returns room for the bells that rang. Created anew for each message, before its time begins: it
/// cannot move from thread to thread with a trial.
fn bells_that_rang() -> Vec<epoll::Event> {
    Vec::with_capacity(BELLS)
}

impl fmt::Debug for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trial").field("packet_bytes", &self.packet_bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use punctual_linux::net::{Inbox, Readiness, Setup};

    use super::*;

    fn cut(packet_bytes: u32, packets_per_block: u32) -> Packetisation {
        Packetisation::new(packet_bytes, packets_per_block).expect("valid")
    }

    #[test]
    fn messages_to_nowhere_are_carried_whole() {
        let mut trial = Trial::new(&Destination::Nowhere, cut(100, 1), 8).expect("memory");
        let sent = trial.sent;
        for packets in [1, 8, 3] {
            let took = trial.message(packets).expect("a transport that takes all");
            assert!(took.is_some_and(|took| !took.is_zero()));
        }
        let account = trial.account.snapshot();
        assert_eq!((account.sent, trial.sent), (sent + 3, sent + 3));
        assert_eq!(account.sent_bytes, u64::from(SLOTS) + 1_200);
    }

    #[test]
    fn messages_to_a_socket_arrive_packet_by_packet() {
        let at = "127.0.0.1:0".parse().expect("an address");
        let receiver = UdpSocket::open(&Setup::at(at)).expect("a socket");
        let here = receiver.local_address().expect("bound");
        let socket = Arc::new(UdpSocket::open(&Setup::to(here)).expect("a socket"));
        for (trains, per_block) in [(false, 1), (true, 1), (true, 8)] {
            let destination = Destination::Network { socket: Arc::clone(&socket), trains };
            let mut trial = Trial::new(&destination, cut(500, per_block), 8).expect("memory");
            trial.message(5).expect("the loopback takes it");
            let mut got = Vec::new();
            let mut inbox = Inbox::new(64, 2_048);
            // Those with which the ring was filled, of a byte each, are first.
            while got.len() < SLOTS as usize + 5 {
                let soon = clock::now() + Duration::from_secs(10);
                assert!(receiver.wait(Readiness::Readable, soon).expect("a wait"), "{got:?}");
                receiver.receive(&mut inbox).expect("received");
                got.extend(inbox.datagrams().map(|one| one.bytes.len()));
            }
            assert_eq!(got[..SLOTS as usize], [33; SLOTS as usize]);
            assert_eq!(got[SLOTS as usize..], [532; 5]);
        }
    }

    #[test]
    fn a_message_that_cannot_be_sent_is_reported() {
        let socket = UdpSocket::open(&Setup::to("127.0.0.1:9".parse().expect("an address")));
        let socket = Arc::new(socket.expect("a socket"));
        let destination = Destination::Network { socket, trains: false };
        // Larger than any datagram.
        let mut trial = Trial::new(&destination, cut(65_500, 1), 1).expect("memory");
        let why = trial.message(1).expect_err("refused").to_string();
        assert!(why.contains("65500 bytes was not sent (no packet of this size"), "{why}");
    }
}
