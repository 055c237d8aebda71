//! Measures the cost of a message from the client's ring to the transport, without the transport:
//! `valgrind --tool=callgrind` counts instructions, and this program measures time.
//!
//! ```text
//! cargo build --release --example sender_cost -p punctual-channel
//! valgrind --tool=callgrind target/release/examples/sender_cost 1 20000
//! target/release/examples/sender_cost 1 1000000      # channels, messages
//! ```
#![allow(clippy::disallowed_methods, reason = "a stopwatch")]

use std::cell::Cell;
use std::env;
use std::time::Instant as Stopwatch;

use punctual_channel::account::Recorder;
use punctual_channel::rings::{Puts, Side, Takes, both};
use punctual_channel::server::ringer::Ringers;
use punctual_channel::server::sender::{Channel, Opening, Sender, Turn};
use punctual_channel::transport::NullDevice;
use punctual_model::channel::{Framing, LinearBounded, Link, Packetisation, TooEarly};
use punctual_model::{Duration, Instant, Rank};
use punctual_policy::egress::{EgressScheduler, Promise, Terms};
use punctual_policy::queues::ServiceOrder;
use punctual_ring::frames::{Geometry, Wake};

fn main() {
    let mut arguments = env::args().skip(1).map(|text| text.parse::<u32>().expect("a number"));
    let channels = arguments.next().unwrap_or(1);
    let messages = arguments.next().unwrap_or(1_000_000) / channels;
    let link = Link::with_picos(Duration::ZERO, 8).expect("valid");
    let cut = Packetisation::new(1_440, 1).expect("valid");
    let egress = EgressScheduler::new(link, cut, ServiceOrder::Deadline, channels);
    let device = NullDevice::new(link, 65_535, Duration::from_secs(1), ());
    let mut sender = Sender::new(egress, cut, channels, device);
    let now = Cell::new(0);
    let mut clients: Vec<Side<Puts>> = (0..channels).map(|key| open(&mut sender, key)).collect();
    let start = Stopwatch::now();
    for _ in 0..messages {
        for (key, Side { end: puts, .. }) in (0..).zip(&mut clients) {
            puts.claim().expect("sound").expect("room").push(1_440, 0);
            if puts.publish_with(|| now.get()) == Wake::Ring {
                sender.look(Instant::from_nanos(now.get()), key);
            }
        }
        loop {
            let at = Instant::from_nanos(now.get());
            match sender.turn(at, || at) {
                Turn::Again => {}
                Turn::At(at) => now.set(at.as_nanos()),
                Turn::Idle => break,
            }
        }
        now.set(now.get() + 1_000_000);
    }
    let each = start.elapsed().as_nanos() as f64 / f64::from(messages * channels);
    println!("{channels} channels: {each:.0} ns a message, publishing included");
}

fn open(sender: &mut Sender<NullDevice<()>>, key: u32) -> Side<Puts> {
    let geometry = Geometry::new(8, 1_440).expect("valid");
    let (client, server) = both::<Takes>(geometry).expect("memory");
    let delay_bound = Duration::from_millis(900);
    let opening = Opening {
        terms: Terms {
            arrivals: LinearBounded::new(1, 1_440, Duration::from_millis(1), 1).expect("valid"),
            promise: Promise::RealTime { rank: Rank(0), delay_bound },
            too_early: TooEarly::Wait,
        },
        framing: Framing::Datagram,
        number: key,
        takes: server.end,
        bell: Ringers::default().enter(0, server.bell).expect("a thread"),
        doorbell: server.doorbell,
        recorder: Recorder::new(Some(delay_bound)),
        believed_from: Instant::ZERO,
    };
    sender.open(Instant::ZERO, key, Channel::new(opening)).expect("room");
    client
}
