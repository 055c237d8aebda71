//! A flood of best effort beside 2,000 guaranteed messages a second: this host loses none of these,
//! and accounts for every datagram of the flood.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use punctual_bpf::Policer;
use punctual_channel::server::receiver::{Receiver, Terms};
use punctual_linux::clock;
use punctual_linux::net::early::XdpMode;
use punctual_linux::net::{Outgoing, Place, UdpSocket};
use punctual_linux::sched::Class;
use punctual_model::channel::{Framing, LinearBounded, Traffic};
use punctual_model::{Duration, Instant};
use system_tests::live::eventually;
use system_tests::network::{End, Network, higher, lower};

use crate::host::{Client, Host, MAX, OTHER, content, send, terms};

const GUARANTEED: u64 = 2_000;
const SPACING: Duration = Duration::from_micros(500);

/// Returns guaranteed terms with a long delay bound: on a busy host the sender comes late and then
/// all at once.
fn guaranteed() -> Terms {
    let arrivals = LinearBounded::new(1, MAX, SPACING, 64).expect("valid");
    Terms {
        traffic: Traffic::Bounded(arrivals),
        ..terms(Framing::Datagram, Some(Duration::from_secs(1)))
    }
}

/// Returns best effort of 5,000 messages a second.
fn best_effort() -> Terms {
    let arrivals = LinearBounded::new(1, MAX, Duration::from_micros(200), 64).expect("valid");
    Terms { traffic: Traffic::Bounded(arrivals), ..terms(Framing::Datagram, None) }
}

/// Returns the packets that the link itself dropped because the queue at its other end was full.
fn dropped_by(network: &Network, end: End) -> u64 {
    let all = network.node_of(end).run(|| std::fs::read_to_string("/proc/thread-self/net/dev"));
    let all = all.expect("/proc is mounted");
    let device = format!("{}:", end.device());
    let line = all.lines().find_map(|line| line.trim().strip_prefix(&device)).expect("there");
    let field = |at: usize| -> u64 {
        line.split_whitespace().nth(at).and_then(|field| field.parse().ok()).expect("a number")
    };
    // Received and sent (proc_net_dev(5)).
    field(3) + field(11)
}

/// Sends as fast as it can until `stop` is set, and counts the datagrams.
fn flood(sender: &UdpSocket, stop: &AtomicBool, sent: &AtomicU64) {
    let bytes = [0; 64];
    let parts = [Place::of(&bytes)];
    let datagrams: [Outgoing<'_>; 64] = std::array::from_fn(|_| Outgoing::new(&parts));
    while !stop.load(Ordering::Relaxed) {
        if let Ok(count) = sender.send_batch(&datagrams) {
            sent.fetch_add(count as u64, Ordering::Relaxed);
        }
    }
}

/// Ends the threads that check this flag, even when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends one message each 500 µs, and checks that a client receives in order all but those that the
/// link dropped.
fn guaranteed_stream(client: &mut Client, of_link: impl Fn() -> u64) {
    let begin = clock::now();
    let (mut next, mut arrived) = (0, 0);
    let mut bytes = [0; MAX as usize];
    for message in 0..GUARANTEED {
        clock::sleep_until(Instant::from_nanos(begin.as_nanos() + SPACING.as_nanos() * message));
        assert!(send(&client.sender, &content(message, 100)));
        while let Ok(received) = client.receiving.try_receive(&mut bytes) {
            assert!(received.number >= next && received.bytes == 100, "{received:?} before {next}");
            next = received.number + 1;
            arrived += 1;
        }
    }
    let all = eventually(|| {
        arrived += client.drain();
        arrived == GUARANTEED
    });
    let (counters, of_link) = (client.counters(), of_link());
    assert!(
        all || arrived + of_link >= GUARANTEED,
        "{arrived} of {GUARANTEED}, {of_link}: {counters:?}"
    );
    assert_eq!((counters.received, counters.losses.total()), (arrived, 0), "{counters:?}");
}

/// Runs with `hogs` threads, one on each processor, or none, and with the policer before the stack
/// or without. As in a broker, an ordinary thread receives best effort.
fn beside_a_flood(xdp: bool, hogs: usize) {
    let Some(network) = Network::line(2) else { return };
    let mut receiver = Receiver::new().expect("descriptors");
    if xdp {
        let interface = network.interface(higher(0));
        let attached = network.node_of(higher(0)).run(|| {
            let mut policer = Policer::load(16)?;
            policer.attach(&interface, XdpMode::Native).map(|()| policer)
        });
        match attached {
            Ok(policer) => receiver.police_by(Box::new(policer)),
            Err(why) => {
                println!("skipped: {why}");
                return;
            }
        }
    }
    let promised = Receiver::new().expect("descriptors");
    let mut promised = Host::start(promised, Class::Fifo { priority: 10 });
    let mut ordinary = Host::start(receiver, OTHER);
    let mut stream = promised.open(&network, 1, guaranteed(), 4_096);
    let mut flooded = ordinary.open(&network, 3, best_effort(), 4_096);
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    // Datagrams that the link itself dropped are not lost by this host's sockets: if the receiving
    // end of a veth pair is not scheduled, it has room for 256 packets of all senders together.
    let dropped = || dropped_by(&network, lower(0)) + dropped_by(&network, higher(0));
    let before = dropped();
    let of_link = || dropped() - before;
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        for _ in 0..hogs {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let sender = &flooded.sender;
        scope.spawn(|| flood(sender, &stop, &sent));
        assert!(eventually(|| sent.load(Ordering::Relaxed) > 1_000));
        guaranteed_stream(&mut stream, of_link);
    });
    let sent = sent.load(Ordering::Relaxed);
    let there = eventually(|| {
        flooded.drain();
        let counters = flooded.counters();
        let known = counters.received + counters.losses.total();
        // The link counts datagrams that it refused to their sender as dropped, although they were
        // not sent.
        known <= sent && sent <= known + of_link()
    });
    let counters = flooded.counters();
    println!(
        "xdp {xdp}, {hogs} hogs: {sent} sent, {} received, {:?}, {} dropped by the link",
        counters.received,
        counters.losses,
        of_link()
    );
    assert!(there, "{sent} sent, {} dropped by the link: {counters:?}", of_link());
    assert!(counters.received > 0 && counters.losses.discarded > 0, "{counters:?}");
    let channel = ordinary.close(flooded.id);
    // The last datagrams may have arrived since, because the link counts unsent datagrams as
    // dropped, too.
    let counters = flooded.counters();
    assert_eq!(channel.account().snapshot(), counters);
    assert!(counters.received + counters.losses.total() <= sent, "{counters:?}");
}

#[test]
fn filtered_at_its_socket() {
    beside_a_flood(false, 0);
}

#[test]
fn filtered_at_its_socket_with_hogs() {
    beside_a_flood(false, 2);
}

#[test]
fn policed_before_the_stack() {
    beside_a_flood(true, 0);
}

#[test]
fn policed_before_the_stack_with_hogs() {
    beside_a_flood(true, 2);
}
