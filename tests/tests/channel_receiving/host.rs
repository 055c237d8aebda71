//! A receiving thread, its clients, and senders on another host.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::thread::JoinHandle;

use punctual_channel::account::{ReceivedAccount, ReceivedSnapshot};
use punctual_channel::client::{Geometry, ReceiveError, Receiving};
use punctual_channel::fragment::{Fragment, Fragments};
use punctual_channel::rings::{Puts, Side, both};
use punctual_channel::server::orders::{Desk, desk_and_post};
use punctual_channel::server::receiver::thread::{self, Order, Report};
use punctual_channel::server::receiver::{Channel, Ended, Opening, Receiver, Terms};
use punctual_channel::server::ringer::Ringers;
use punctual_linux::clock;
use punctual_linux::net::{Outgoing, Place, SendError, Setup, UdpSocket};
use punctual_linux::sched::{self, Class};
use punctual_model::channel::{Framing, LinearBounded, Traffic};
use punctual_model::{Duration, Instant};
use system_tests::live::eventually;
use system_tests::network::{Network, higher, lower};

/// The size of the longest message.
pub(crate) const MAX: u32 = 4_000;

/// The channel number in headers.
const NUMBER: u32 = 77;

/// The size of a fragment in bytes.
const FRAGMENT: u16 = 1_400;

/// The class of an ordinary thread.
pub(crate) const OTHER: Class = Class::Other { nice: 0 };

/// A receiving thread, which ends when this value is dropped.
pub(crate) struct Host {
    desk: Option<Desk<Order, Report>>,
    thread: Option<JoinHandle<Receiver>>,
}

/// A client of the receiver, and its sender.
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) receiving: Receiving,
    pub(crate) account: Arc<ReceivedAccount>,
    pub(crate) sender: UdpSocket,
}

/// Returns terms for messages of any size at 100,000 a second.
pub(crate) fn terms(framing: Framing, delay_bound: Option<Duration>) -> Terms {
    let arrivals = LinearBounded::new(1, MAX, Duration::from_micros(10), 2_000);
    Terms {
        traffic: Traffic::Bounded(arrivals.expect("valid")),
        delay_bound,
        framing,
        number: NUMBER,
        least_fragment: NonZeroU16::new(FRAGMENT).expect("not zero"),
        packet_bytes: FRAGMENT.into(),
        unevenness: Duration::from_millis(100),
        shared_clock: true,
    }
}

impl Host {
    /// Runs `receiver` in a thread of this class, if that is allowed.
    pub(crate) fn start(receiver: Receiver, class: Class) -> Self {
        let (desk, post) = desk_and_post(16, 16).expect("descriptors");
        let thread = std::thread::spawn(move || {
            if let Err(refused) = sched::set(punctual_linux::thread::current(), class) {
                println!("an ordinary thread receives: {refused}");
            }
            thread::run(receiver, post).expect("orders can be waited for")
        });
        Self { desk: Some(desk), thread: Some(thread) }
    }

    /// Opens a channel at the network's higher end, with a ring of `slots` slots.
    pub(crate) fn open(&mut self, network: &Network, id: u64, terms: Terms, slots: u32) -> Client {
        let geometry = Geometry::new(slots, MAX).expect("valid");
        let (client, server) = both::<Puts>(geometry).expect("memory");
        let (account, sender) = self.open_with(network, id, terms, server);
        Client { id, receiving: client.into(), account, sender }
    }

    /// Opens a channel with a ring made by the caller.
    pub(crate) fn open_with(
        &mut self,
        network: &Network,
        id: u64,
        terms: Terms,
        side: Side<Puts>,
    ) -> (Arc<ReceivedAccount>, UdpSocket) {
        // Alternates between both families.
        let v6 = id.is_multiple_of(2);
        let socket = Setup::at(higher(0).port(v6, 0));
        let socket = network.node_of(higher(0)).run(|| UdpSocket::open(&socket)).expect("opens");
        let to = Setup::to(socket.local_address().expect("bound"));
        let sender = network.node_of(lower(0)).run(|| UdpSocket::open(&to)).expect("opens");
        let bell = Ringers::default().enter(0, side.bell).expect("a thread");
        let opening = Opening::new(terms, socket, side.end, bell).expect("fits");
        let account = Arc::clone(opening.account());
        self.order(Order::Open(id, Box::new(opening)));
        match self.report() {
            Report::Opened(opened) if opened == id => (account, sender),
            other => panic!("{other:?}"),
        }
    }

    /// Closes a channel and returns it.
    pub(crate) fn close(&mut self, id: u64) -> Box<Channel> {
        self.order(Order::Close(id));
        match self.report() {
            Report::Closed(closed, channel, None) if closed == id => channel,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the next channel that ends by itself.
    pub(crate) fn ended(&mut self) -> (u64, Box<Channel>, Ended) {
        match self.report() {
            Report::Closed(id, channel, Some(ended)) => (id, channel, ended),
            other => panic!("{other:?}"),
        }
    }

    fn order(&mut self, order: Order) {
        self.desk.as_mut().expect("until the end").order(order).expect("few are on their way");
    }

    fn report(&mut self) -> Report {
        let desk = self.desk.as_mut().expect("until the end");
        let mut report = None;
        let came = eventually(|| {
            report = desk.report();
            report.is_some()
        });
        assert!(came, "the thread reports");
        report.expect("came")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.desk = None;
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            assert!(matches!(ended, Some(Ok(_))), "the thread ends well");
        }
    }
}

/// Returns the contents of a message.
pub(crate) fn content(message: u64, length: u32) -> Vec<u8> {
    (0..length).map(|at| (message as u8).wrapping_mul(31).wrapping_add(at as u8)).collect()
}

/// Returns the datagrams of a message in fragments.
pub(crate) fn fragments(message: u64, length: u32) -> Vec<Vec<u8>> {
    let fragment_bytes = NonZeroU16::new(FRAGMENT).expect("not zero");
    let bytes = content(message, length);
    let cut = Fragments { fragment_bytes, channel: NUMBER, message, length };
    cut.within(0..length, Some(clock::now()))
        .map(|Fragment { header, bytes: at }| {
            [&header.to_bytes()[..], &bytes[at.start as usize..at.end as usize]].concat()
        })
        .collect()
}

/// Sends a datagram. Returns whether it left; a queue on the path may have been full.
pub(crate) fn send(sender: &UdpSocket, bytes: &[u8]) -> bool {
    loop {
        match sender.send(&Outgoing::new(&[Place::of(bytes)])) {
            Ok(()) => return true,
            Err(SendError::QueueFull) => return false,
            Err(SendError::Full) => clock::sleep(Duration::from_micros(100)),
            Err(other) => panic!("{other}"),
        }
    }
}

impl Client {
    /// Sends a message with this channel's framing.
    pub(crate) fn send(&self, framing: Framing, message: u64, length: u32) {
        match framing {
            Framing::Datagram => {
                send(&self.sender, &content(message, length));
            }
            Framing::Fragments => {
                for datagram in fragments(message, length) {
                    send(&self.sender, &datagram);
                }
            }
        }
    }

    /// Returns the next message, if one comes in time, and its arrival time on this host.
    pub(crate) fn receive(&mut self) -> Option<(Vec<u8>, u64, Instant)> {
        let mut bytes = vec![0; MAX as usize];
        let until = clock::now() + Duration::from_secs(20);
        match self.receiving.receive_until(&mut bytes, until) {
            Ok(received) => {
                bytes.truncate(received.bytes);
                Some((bytes, received.number, received.arrived))
            }
            Err(ReceiveError::TimedOut | ReceiveError::ServerGone) => None,
            Err(other) => panic!("{other}"),
        }
    }

    /// Discards the messages in the ring, and returns how many there were.
    pub(crate) fn drain(&mut self) -> u64 {
        let mut bytes = [0; MAX as usize];
        let mut count = 0;
        while self.receiving.try_receive(&mut bytes).is_ok() {
            count += 1;
        }
        count
    }

    pub(crate) fn counters(&self) -> ReceivedSnapshot {
        self.account.snapshot()
    }

    /// Waits until the counters satisfy `wanted`.
    pub(crate) fn accounted(&self, wanted: impl Fn(&ReceivedSnapshot) -> bool) -> ReceivedSnapshot {
        let there = eventually(|| wanted(&self.counters()));
        assert!(there, "{:?}", self.counters());
        self.counters()
    }
}
