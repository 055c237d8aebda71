//! Measures the transit from one thread to another, on the clock.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time;

use punctual_channel::rings::View;
use punctual_linux::memfd::Writable;
use punctual_linux::pass::{Bell, WaitOutcome};
use punctual_model::Instant;
use punctual_ring::frames::{Consumer, Producer, Rest, Wake};
use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::net::{RecvFlags, SendFlags};

use crate::queue::{SLOTS, queue, seqpacket};

/// One of two endpoints that send numbers to each other.
pub(crate) struct Port {
    send: Box<dyn FnMut(u64) + Send>,
    receive: Box<dyn FnMut() -> u64 + Send>,
}

/// Measures half of a round trip, on the clock.
pub(crate) fn hand_off(rounds: u64, ports: impl Fn() -> (Port, Port)) -> impl FnMut() -> f64 {
    move || {
        let (mut here, mut there) = ports();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for _ in 0..=rounds {
                    let n = (there.receive)();
                    (there.send)(n);
                }
            });
            let mut round = |n| {
                (here.send)(n);
                assert_eq!((here.receive)(), n);
            };
            // Until then the other thread may still be starting.
            round(0);
            let start = time::Instant::now();
            (1..=rounds).for_each(&mut round);
            start.elapsed().as_nanos() as f64 / (2 * rounds) as f64
        })
    }
}

/// Makes two ports of two one-way channels.
pub(crate) fn ports<S, R>(
    make: impl Fn() -> (S, R),
    send: fn(&mut S, u64),
    receive: fn(&mut R) -> u64,
) -> (Port, Port)
where
    S: Send + 'static,
    R: Send + 'static,
{
    let ((mut to_there, mut from_here), (mut to_here, mut from_there)) = (make(), make());
    let here = Port {
        send: Box::new(move |n| send(&mut to_there, n)),
        receive: Box::new(move || receive(&mut from_there)),
    };
    let there = Port {
        send: Box::new(move |n| send(&mut to_here, n)),
        receive: Box::new(move || receive(&mut from_here)),
    };
    (here, there)
}

pub(crate) fn push(producer: &mut Producer<Writable, View>, n: u64) -> Wake {
    producer.claim().expect("honest").expect("room").push(0, n);
    producer.publish()
}

pub(crate) fn pop(consumer: &mut Consumer<Writable, View>) -> Option<u64> {
    let n = consumer.take().expect("honest")?.user();
    assert_eq!(consumer.release(1), Wake::Nobody);
    Some(n)
}

pub(crate) fn spin<T>(mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        match look() {
            Some(found) => return found,
            None => spin_loop(),
        }
    }
}

pub(crate) fn spinning_frames() -> (Port, Port) {
    ports(
        || queue(64),
        |producer, n| assert_eq!(push(producer, n), Wake::Nobody),
        |consumer| spin(|| pop(consumer)),
    )
}

pub(crate) fn spinning_std() -> (Port, Port) {
    ports(
        || mpsc::sync_channel(SLOTS),
        |sender, n| sender.try_send(n).expect("room"),
        |receiver| spin(|| receiver.try_recv().ok()),
    )
}

pub(crate) fn spinning_rtrb() -> (Port, Port) {
    ports(
        || rtrb::RingBuffer::new(SLOTS),
        |producer, n| producer.push(n).expect("room"),
        |consumer| spin(|| consumer.pop().ok()),
    )
}

/// Polls with one call each time, as a socket does.
pub(crate) fn spinning_seqpacket() -> (Port, Port) {
    ports(
        seqpacket,
        |socket, n| {
            let sent = rustix::net::send(&*socket, &n.to_ne_bytes(), SendFlags::NOSIGNAL);
            assert_eq!(sent, Ok(8));
        },
        |socket| {
            let mut bytes = [0; 8];
            spin(|| rustix::net::recv(&*socket, &mut bytes, RecvFlags::DONTWAIT).ok());
            u64::from_ne_bytes(bytes)
        },
    )
}

pub(crate) fn sleeping_frames() -> (Port, Port) {
    ports(
        || {
            let (producer, consumer) = queue(64);
            let (ours, theirs) = Bell::pair().expect("sockets");
            ((producer, ours), (consumer, theirs))
        },
        |(producer, bell), n| {
            if push(producer, n) == Wake::Ring {
                bell.ring().expect("somebody is there");
            }
        },
        |(consumer, bell)| {
            loop {
                if let Some(n) = pop(consumer) {
                    return n;
                }
                if consumer.rest().expect("honest") == Rest::Sleep {
                    assert_eq!(bell.wait(Instant::MAX), Ok(WaitOutcome::Rung));
                    consumer.rise();
                }
            }
        },
    )
}

pub(crate) fn sleeping_std() -> (Port, Port) {
    ports(
        || mpsc::sync_channel(SLOTS),
        |sender, n| sender.send(n).expect("somebody is there"),
        |receiver| receiver.recv().expect("somebody is there"),
    )
}

pub(crate) fn sleeping_seqpacket() -> (Port, Port) {
    ports(
        seqpacket,
        |socket, n| {
            let sent = rustix::net::send(&*socket, &n.to_ne_bytes(), SendFlags::NOSIGNAL);
            assert_eq!(sent, Ok(8));
        },
        |socket| {
            let mut bytes = [0; 8];
            let received = rustix::net::recv(&*socket, &mut bytes, RecvFlags::empty());
            assert_eq!(received.expect("one").1, 8);
            u64::from_ne_bytes(bytes)
        },
    )
}

/// The number itself is passed in a word of memory.
pub(crate) fn bells() -> (Port, Port) {
    ports(
        || {
            let word = Arc::new(AtomicU64::new(0));
            let (ours, theirs) = Bell::pair().expect("sockets");
            ((Arc::clone(&word), ours), (word, theirs))
        },
        |(word, bell), n| {
            word.store(n, Ordering::Release);
            bell.ring().expect("somebody is there");
        },
        |(word, bell)| {
            assert_eq!(bell.wait(Instant::MAX), Ok(WaitOutcome::Rung));
            word.load(Ordering::Acquire)
        },
    )
}

/// Used like a bell: read without waiting, then polled.
pub(crate) fn eventfds() -> (Port, Port) {
    ports(
        || {
            let word = Arc::new(AtomicU64::new(0));
            let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
            let eventfd = Arc::new(rustix::event::eventfd(0, flags).expect("one"));
            ((Arc::clone(&word), Arc::clone(&eventfd)), (word, eventfd))
        },
        |(word, eventfd), n| {
            word.store(n, Ordering::Release);
            assert_eq!(rustix::io::write(&*eventfd, &1u64.to_ne_bytes()), Ok(8));
        },
        |(word, eventfd)| {
            while rustix::io::read(&*eventfd, &mut [0; 8]).is_err() {
                let readable = PollFlags::IN;
                let mut polled = [PollFd::new(&*eventfd, readable)];
                rustix::event::poll(&mut polled, None).expect("a wait");
            }
            word.load(Ordering::Acquire)
        },
    )
}
