//! Runs the same study on this machine: production code before an emulated link, on the real clock.
//!
//! [`o1`]: the channel server's own sender, which schedules the link as a function call. [`o2`]: a
//! maker and a link thread, as in the paper's second option; it exists for this experiment alone.
//! [`admitted`]: runs as many channels as admission accepts.
//!
//! Clients of a sender have their rings, and a thread that keeps them full.

pub(crate) mod admitted;
mod o1;
mod o2;

use std::sync::atomic::{AtomicBool, Ordering};

use punctual_channel::rings::{Made, Puts, Side, Takes, both, map};
use punctual_linux::memfd::Readable;
use punctual_linux::sched::Class;
use punctual_linux::{clock, host, sched, thread};
use punctual_model::channel::{Link, Packetisation};
use punctual_model::{Duration, Instant, Service};
use punctual_ring::frames::{Geometry, Wake};

use crate::host::KB;
use crate::table::Table;

/// Below the threads of the kernel, above everything ordinary.
const PRIORITY: u8 = 80;

/// The bytes of a message.
const MESSAGE: u32 = 32 * KB;

/// The number of senders that always have a message, as in the paper.
const SENDERS: u32 = 4;

/// The number of messages that a ring holds.
const SLOTS: u32 = 8;

/// One point of the study.
#[derive(Clone, Copy, Debug)]
struct Point {
    link: Link,
    cut: Packetisation,
    /// The length of its run.
    length: Duration,
}

impl Point {
    /// Returns the time of a full block on the link.
    fn block_time(&self) -> Duration {
        let packet = self.link.transmission_time(self.cut.packet_bytes());
        packet * u64::from(self.cut.packets_per_block())
    }
}

/// The result of a run.
#[derive(Clone, Copy, Debug)]
struct Sent {
    messages: u64,
    within: Duration,
    /// The processor time of all threads that send.
    cpu: Service,
}

impl Sent {
    fn kilobytes_a_second(self) -> f64 {
        let bytes = self.messages as f64 * f64::from(MESSAGE);
        bytes / f64::from(KB) / self.within.as_nanos() as f64 * 1e9
    }

    /// Returns the microseconds a packet.
    fn cpu_a_packet(self, cut: Packetisation) -> f64 {
        let packets = self.messages * u64::from(cut.packets_of(MESSAGE));
        self.cpu.as_nanos() as f64 / 1e3 / packets.max(1) as f64
    }
}

/// Gives the calling thread a priority above everything ordinary.
fn to_the_front(above: u8) {
    let class = Class::Fifo { priority: PRIORITY + above };
    if let Err(why) = sched::set(thread::current(), class) {
        eprintln!("as an ordinary thread: {why}");
    }
}

/// Returns Figures 1 and 2, and Figure 5's comparison: the predictions of the formulas against the
/// measurements.
pub(crate) fn throughput(each: Duration) -> Table {
    let mut rows = Vec::new();
    for nanos_per_byte in [0, 50, 100] {
        for per_block in [1, 4] {
            for packet_kb in [2, 4, 8, 12] {
                eprintln!("{nanos_per_byte} ns a byte, P = {per_block}, S = {packet_kb} KB");
                let link = Link::new(Duration::from_micros(40), nanos_per_byte);
                let cut = Packetisation::new(packet_kb * KB, per_block);
                let point =
                    Point { link: link.expect("valid"), cut: cut.expect("valid"), length: each };
                let before = host::stolen();
                let (one, two) = (o1::run(point), o2::run(point));
                let stolen = stolen_since(before);
                let predicted = predicted(point);
                rows.push(vec![
                    nanos_per_byte.to_string(),
                    per_block.to_string(),
                    packet_kb.to_string(),
                    format!("{predicted:.0}"),
                    format!("{:.0}", one.kilobytes_a_second()),
                    format!("{:.3}", one.kilobytes_a_second() / predicted),
                    format!("{:.1}", one.cpu_a_packet(point.cut)),
                    format!("{:.0}", two.kilobytes_a_second()),
                    format!("{:.3}", two.kilobytes_a_second() / predicted),
                    format!("{:.1}", two.cpu_a_packet(point.cut)),
                    stolen,
                ]);
            }
        }
    }
    Table {
        name: "live-throughput",
        caption: "KB/s on this machine, messages of 32 KB, start-up 40 us; predicted: the link alone",
        head: vec![
            "ns a byte",
            "P",
            "S in KB",
            "predicted",
            "O1",
            "of predicted",
            "O1 us of CPU a packet",
            "O2",
            "of predicted",
            "O2 us of CPU a packet",
            "stolen in ms",
        ],
        rows,
    }
}

/// Returns the time stolen from all CPUs by the host, in milliseconds.
fn stolen_since(before: Option<Duration>) -> String {
    let stolen = before.zip(host::stolen()).map(|(before, now)| now.saturating_sub(before));
    stolen.map_or_else(|| "–".into(), |stolen| format!("{:.0}", stolen.as_nanos() as f64 / 1e6))
}

/// Returns the rate for a link that is never idle, and a processor that takes no time.
fn predicted(point: Point) -> f64 {
    let Point { link, cut, .. } = point;
    let full = link.transmission_time(cut.packet_bytes()).as_nanos();
    let last = link.transmission_time(cut.last_packet_of(MESSAGE)).as_nanos();
    let nanos = u64::from(cut.packets_of(MESSAGE) - 1) * full + last;
    f64::from(MESSAGE / KB) / nanos as f64 * 1e9
}

fn at(start: Instant, length: Duration) -> Instant {
    start.saturating_add(length)
}

fn geometry() -> Geometry {
    Geometry::new(SLOTS, MESSAGE).expect("valid")
}

struct Client {
    side: Side<Puts>,
}

impl Client {
    fn new() -> (Self, Side<Takes>) {
        let (side, server) = both::<Takes>(geometry()).expect("memory");
        (Self { side }, server)
    }

    /// Makes a client whose messages another thread can read, too.
    fn seen_twice() -> (Self, Side<Takes>, Readable) {
        let (made, passed) = Made::<Takes>::new(geometry(), 0).expect("memory");
        let frames = passed.frames.try_clone().expect("a descriptor");
        let side = map(passed, geometry(), 0).expect("as made");
        made.seal().expect("ours");
        let seen = Readable::of(frames, geometry().producer_bytes()).expect("as made");
        (Self { side }, made.freeze().expect("as made"), seen)
    }

    /// Publishes a message if there is room. Returns whether there was.
    fn put(&mut self) -> bool {
        let Side { end: puts, doorbell, .. } = &mut self.side;
        let Ok(Some(slot)) = puts.claim() else { return false };
        slot.push(MESSAGE as usize, 0);
        if puts.publish_with(|| clock::now().as_nanos()) == Wake::Ring {
            let _ = doorbell.ring();
        }
        true
    }
}

/// Keeps all rings full until `stop` is set.
fn keep_full(mut clients: Vec<Client>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let mut any = false;
        for client in &mut clients {
            while client.put() {
                any = true;
            }
        }
        if !any {
            clock::sleep(Duration::from_micros(50));
        }
    }
}
