//! The receivers: a plain socket for all, separate plain sockets, or the channel server's threads.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::thread::JoinHandle;

use punctual_bpf::Policer;
use punctual_channel::client::{Geometry, ReceiveError, Receiving};
use punctual_channel::rings::{Puts, both};
use punctual_channel::server::orders::{Desk, desk_and_post};
use punctual_channel::server::receiver::thread::{self, Order, Report};
use punctual_channel::server::receiver::{Opening, Receiver, Terms};
use punctual_channel::server::ringer::Ringers;
use punctual_linux::clock;
use punctual_linux::net::early::XdpMode;
use punctual_linux::net::{Inbox, Readiness, Setup, UdpSocket};
use punctual_linux::sched::{self, Class};
use punctual_model::channel::{Framing, LinearBounded, Traffic};
use punctual_model::{Duration, Instant};
use system_tests::network::{Network, higher};

use crate::work::{Counts, Work};

/// The longest wait before checking whether the run is over.
const LOOK: Duration = Duration::from_millis(10);

/// The size of the longest message.
const LONGEST: u32 = 1_500;

/// The class of the threads that process guaranteed datagrams, above those that process best
/// effort; the thread that receives for a class of traffic is above its clients, or beside them. All are above ordinary threads, so that
/// other programs take nothing from them.
const WORKS: Class = Class::Fifo { priority: 9 };
const RECEIVES: Class = Class::Fifo { priority: 10 };
pub(crate) const BELOW: Class = Class::Fifo { priority: 1 };

/// The kind of receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One socket and one thread for all.
    Shared,
    /// A socket and a thread for each traffic class, the guaranteed one's above the other.
    Own,
    /// The channel server's threads. An XDP policer discards in the given mode what is not read, or
    /// the socket does.
    Ours { xdp: Option<XdpMode> },
}

/// The place and conditions of receiving.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) network: &'a Network,
    pub(crate) cpu: usize,
    pub(crate) work: Work,
}

/// The receiving threads, which end when this value is dropped.
pub(crate) struct Receivers {
    pub(crate) guaranteed: SocketAddr,
    pub(crate) others: SocketAddr,
    pub(crate) counts: Arc<Counts>,
    desks: Vec<Desk<Order, Report>>,
    threads: Vec<JoinHandle<()>>,
}

impl Receivers {
    /// Starts the receivers. The error says why this host cannot.
    pub(crate) fn start(kind: Kind, at: Place<'_>) -> Result<Self, String> {
        let sockets = [at.socket(), at.socket()];
        let to = [0, 1].map(|which: usize| sockets[which].local_address().expect("bound"));
        let mut this = Self {
            guaranteed: to[0],
            others: to[1],
            counts: Arc::default(),
            desks: Vec::new(),
            threads: Vec::new(),
        };
        let [guaranteed, others] = sockets;
        match kind {
            Kind::Shared => {
                this.others = to[0];
                this.plain(at, guaranteed, BELOW);
            }
            Kind::Own => {
                this.plain(at, guaranteed, RECEIVES);
                this.plain(at, others, BELOW);
            }
            Kind::Ours { xdp } => this.ours(at, [guaranteed, others], xdp)?,
        }
        Ok(this)
    }

    /// Starts a thread on the receivers' CPU.
    fn thread(&mut self, at: Place<'_>, class: Class, body: impl FnOnce() + Send + 'static) {
        let cpu = at.cpu;
        self.threads.push(std::thread::spawn(move || {
            punctual_linux::thread::pin_to(cpu).expect("one of our own CPUs");
            sched::set(punctual_linux::thread::current(), class).expect("was tried out");
            body();
        }));
    }

    /// Starts a thread that reads its socket and does the work itself.
    fn plain(&mut self, at: Place<'_>, socket: UdpSocket, class: Class) {
        let (counts, work) = (Arc::clone(&self.counts), at.work);
        self.thread(at, class, move || {
            let mut inbox = Inbox::new(16, LONGEST as usize);
            while !counts.is_stopped() {
                if socket.receive(&mut inbox).expect("reads") == 0 {
                    socket.wait(Readiness::Readable, clock::now() + LOOK).expect("waits");
                }
                for datagram in inbox.datagrams() {
                    counts.work_on(work, datagram.bytes.first());
                }
            }
        });
    }

    /// Starts the channel server's threads, and a client for each traffic class.
    fn ours(
        &mut self,
        at: Place<'_>,
        sockets: [UdpSocket; 2],
        xdp: Option<XdpMode>,
    ) -> Result<(), String> {
        let mut best_effort = Receiver::new().expect("descriptors");
        if let Some(mode) = xdp {
            let interface = at.network.interface(higher(0));
            let attached = at.network.node_of(higher(0)).run(|| {
                let mut policer = Policer::load(16)?;
                policer.attach(&interface, mode).map(|()| policer)
            });
            best_effort.police_by(Box::new(attached.map_err(|why| why.to_string())?));
        }
        let spacing = Duration::from_micros(500);
        let guaranteed = LinearBounded::new(1, LONGEST, spacing, 64).expect("valid");
        // Any pattern up to 500,000 a second: only what is read matters.
        let others = LinearBounded::new(1, LONGEST, Duration::from_micros(2), 10_000);
        let all = [
            (guaranteed, Some(Duration::from_secs(1)), RECEIVES, WORKS),
            (others.expect("valid"), None, BELOW, BELOW),
        ];
        let receivers = [Receiver::new().expect("descriptors"), best_effort];
        for (id, ((socket, receiver), (arrivals, delay_bound, receives, class))) in
            sockets.into_iter().zip(receivers).zip(all).enumerate()
        {
            let (mut desk, post) = desk_and_post(16, 16).expect("descriptors");
            self.thread(at, receives, move || {
                thread::run(receiver, post).expect("orders can be waited for");
            });
            let geometry = Geometry::new(1_024, LONGEST).expect("valid");
            let (client, server) = both::<Puts>(geometry).expect("memory");
            let bell = Ringers::default().enter(0, server.bell).expect("a thread");
            let opening =
                Opening::new(terms(arrivals, delay_bound), socket, server.end, bell).expect("fits");
            desk.order(Order::Open(id as u64, Box::new(opening))).expect("few are on their way");
            self.client(at, client.into(), class);
            self.desks.push(desk);
        }
        Ok(())
    }

    fn client(&mut self, at: Place<'_>, mut receiving: Receiving, class: Class) {
        let (counts, work) = (Arc::clone(&self.counts), at.work);
        self.thread(at, class, move || {
            let mut bytes = [0; LONGEST as usize];
            while !counts.is_stopped() {
                match receiving.receive_until(&mut bytes, clock::now() + LOOK) {
                    Ok(_) => counts.work_on(work, bytes.first()),
                    Err(ReceiveError::TimedOut) => {}
                    Err(ReceiveError::ServerGone) => return,
                    Err(other) => panic!("{other}"),
                }
            }
        });
    }

    /// Waits until `guaranteed` guaranteed datagrams have been processed, or no more arrive.
    pub(crate) fn settle(&self, guaranteed: u64) {
        let until: Instant = clock::now() + Duration::from_millis(300);
        while self.counts.guaranteed() < guaranteed && clock::now() < until {
            clock::sleep(Duration::from_millis(5));
        }
    }
}

impl Place<'_> {
    fn socket(&self) -> UdpSocket {
        let setup = Setup::at(higher(0).port(false, 0));
        self.network.node_of(higher(0)).run(|| UdpSocket::open(&setup)).expect("opens")
    }
}

fn terms(arrivals: LinearBounded, delay_bound: Option<Duration>) -> Terms {
    Terms {
        traffic: Traffic::Bounded(arrivals),
        delay_bound,
        framing: Framing::Datagram,
        number: 1,
        least_fragment: NonZeroU16::new(1_400).expect("not zero"),
        packet_bytes: 1_400,
        unevenness: Duration::from_millis(100),
        shared_clock: true,
    }
}

impl Drop for Receivers {
    fn drop(&mut self) {
        self.counts.stop();
        self.desks.clear();
        for thread in self.threads.drain(..) {
            // A panic of the thread was printed.
            let _ = thread.join();
        }
    }
}
