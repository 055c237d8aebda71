//! O1: the channel server's sender; link scheduling is a function call.

use std::sync::atomic::{AtomicBool, Ordering};

use punctual_channel::account::Recorder;
use punctual_channel::server::ringer::Ringers;
use punctual_channel::server::sender::thread::SPIN;
use punctual_channel::server::sender::{Channel, Opening, Sender, Turn};
use punctual_channel::transport::NullDevice;
use punctual_linux::clock::{self, thread_cpu_time};
use punctual_model::Duration;
use punctual_model::channel::{Framing, LinearBounded, TooEarly};
use punctual_policy::egress::{EgressScheduler, Promise, Terms};
use punctual_policy::queues::ServiceOrder;

use super::{Client, MESSAGE, Point, SENDERS, Sent, at, keep_full, to_the_front};

pub(super) fn run(point: Point) -> Sent {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (clients, sides): (Vec<_>, Vec<_>) = (0..SENDERS).map(|_| Client::new()).unzip();
        let filling = scope.spawn(|| keep_full(clients, &stop));
        let carrying = scope.spawn(|| {
            let egress =
                EgressScheduler::new(point.link, point.cut, ServiceOrder::Deadline, SENDERS);
            // Two blocks before the link, as in a driver: the next is there when one has left.
            let ahead = point.block_time() * 2;
            let device = NullDevice::new(point.link, 1 << 20, ahead, ());
            let mut sender = Sender::new(egress, point.cut, SENDERS, device);
            for (key, side) in (0..).zip(sides) {
                let opening = Opening {
                    terms: backlogged(),
                    framing: Framing::Fragments,
                    number: key,
                    takes: side.end,
                    bell: Ringers::default().enter(0, side.bell).expect("a thread"),
                    doorbell: side.doorbell,
                    recorder: Recorder::new(None),
                    believed_from: clock::now(),
                };
                sender.open(clock::now(), key, Channel::new(opening)).expect("room");
            }
            to_the_front(0);
            carry(&mut sender, point.length)
        });
        let sent = carrying.join().expect("no panic");
        stop.store(true, Ordering::Relaxed);
        filling.join().expect("no panic");
        sent
    })
}

/// Returns best effort that is limited only by the link.
fn backlogged() -> Terms {
    let arrivals = LinearBounded::new(1, MESSAGE, Duration::from_nanos(1), 1).expect("valid");
    Terms { arrivals, promise: Promise::BestEffort, too_early: TooEarly::Wait }
}

fn carry(sender: &mut Sender<NullDevice<()>>, length: Duration) -> Sent {
    let (start, cpu) = (clock::now(), thread_cpu_time());
    let end = at(start, length);
    loop {
        let now = clock::now();
        if now >= end {
            break;
        }
        match sender.turn(now, clock::now) {
            Turn::Again => {}
            // The same as the server's own thread does.
            Turn::At(at) if at - now < SPIN => {}
            Turn::At(at) => clock::sleep_until(at.min(end)),
            Turn::Idle => {
                // No thread waits for the bells here: the rings are polled when there is nothing
                // else.
                clock::sleep(Duration::from_micros(20));
                (0..SENDERS).for_each(|key| sender.look(clock::now(), key));
            }
        }
    }
    let within = clock::now() - start;
    let cpu = thread_cpu_time() - cpu;
    let books = (0..SENDERS).filter_map(|key| sender.close(key));
    let messages = books.map(|one| one.recorder().account().snapshot().sent).sum();
    Sent { messages, within, cpu }
}
