//! The senders: 2,000 guaranteed datagrams a second, and a flood beside them.

use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use punctual_linux::clock;
use punctual_linux::net::{Outgoing, Place, Setup, UdpSocket};
use punctual_linux::sched::{self, Class};
use punctual_model::{Duration, Instant};
use system_tests::network::{Network, lower};

use crate::receivers::{BELOW, Receivers};
use crate::work::GUARANTEED;

/// The guaranteed datagrams a second.
pub(crate) const STREAM: u64 = 2_000;

/// The datagrams of a flood that are sent in one call; the link gets them one by one.
const TRAIN: u64 = 16;

/// The bytes of each datagram.
const BYTES: u16 = 64;

/// The time before the count, and the time of the count.
const WARM_UP: Duration = Duration::from_millis(250);
const WINDOW: Duration = Duration::from_millis(500);

/// The result of a run.
#[derive(Clone, Copy, Default)]
pub(crate) struct Flow {
    /// The rate of all sent datagrams, a second.
    pub(crate) offered: f64,
    /// The rate of all processed datagrams, a second.
    pub(crate) goodput: f64,
    /// The guaranteed datagrams sent, and processed.
    pub(crate) sent: u64,
    pub(crate) delivered: u64,
}

/// Ends the threads that check this flag, even in a panic.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends `rate` datagrams a second, the guaranteed among them, from `cpu` to `receivers`.
pub(crate) fn send_to(receivers: &Receivers, network: &Network, cpu: usize, rate: u64) -> Flow {
    let open = |to| {
        let setup = Setup::to(to);
        network.node_of(lower(0)).run(|| UdpSocket::open(&setup)).expect("opens")
    };
    let (guaranteed, others) = (open(receivers.guaranteed), open(receivers.others));
    let (stop, flooded) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut flow = Flow::default();
    std::thread::scope(|scope| {
        let stopping = Stop(&stop);
        let stream = scope.spawn(|| stream(&guaranteed, cpu, &stop));
        scope.spawn(|| flood(&others, cpu, rate.saturating_sub(STREAM), &stop, &flooded));
        clock::sleep(WARM_UP);
        let look = || (clock::now(), receivers.counts.all(), flooded.load(Ordering::Relaxed));
        let before = look();
        clock::sleep(WINDOW);
        let after = look();
        drop(stopping);
        flow.sent = stream.join().expect("no panic");
        receivers.settle(flow.sent);
        let seconds = (after.0 - before.0).as_nanos() as f64 / 1e9;
        flow.goodput = (after.1 - before.1) as f64 / seconds;
        flow.offered = (after.2 - before.2) as f64 / seconds + STREAM as f64;
        flow.delivered = receivers.counts.guaranteed();
    });
    flow
}

/// Sends the guaranteed datagrams on time, and returns how many it sent.
fn stream(socket: &UdpSocket, cpu: usize, stop: &AtomicBool) -> u64 {
    punctual_linux::thread::pin_to(cpu).expect("one of our own CPUs");
    let class = Class::Fifo { priority: 20 };
    sched::set(punctual_linux::thread::current(), class).expect("was tried out");
    let mut bytes = [0; BYTES as usize];
    bytes[0] = GUARANTEED;
    let spacing = Duration::from_nanos(1_000_000_000 / STREAM);
    let (mut next, mut sent): (Instant, u64) = (clock::now(), 0);
    while !stop.load(Ordering::Relaxed) {
        clock::sleep_until(next);
        next += spacing;
        let left = socket.send(&Outgoing::new(&[Place::of(&bytes)])).is_ok();
        sent += u64::from(left);
    }
    sent
}

/// Sends `rate` datagrams a second, or as many as it can.
fn flood(socket: &UdpSocket, cpu: usize, rate: u64, stop: &AtomicBool, sent: &AtomicU64) {
    punctual_linux::thread::pin_to(cpu).expect("one of our own CPUs");
    sched::set(punctual_linux::thread::current(), BELOW).expect("was tried out");
    let bytes = [0; BYTES as usize * TRAIN as usize];
    let parts = [Place::of(&bytes)];
    let segment = NonZeroU16::new(BYTES).expect("not zero");
    let train = Outgoing::new(&parts).in_segments(segment);
    let (mut begin, mut counted) = (clock::now(), 0_u64);
    while !stop.load(Ordering::Relaxed) {
        let elapsed = (clock::now() - begin).as_nanos();
        let due = (u128::from(elapsed) * u128::from(rate) / 1_000_000_000) as u64;
        if due < counted + TRAIN {
            std::hint::spin_loop();
            continue;
        }
        if due > counted + 100 * TRAIN {
            // The rate is too high; the missed datagrams are not sent in a burst later.
            (begin, counted) = (clock::now(), 0);
        }
        if socket.send(&train).is_ok() {
            sent.fetch_add(TRAIN, Ordering::Relaxed);
        }
        counted += TRAIN;
    }
}
