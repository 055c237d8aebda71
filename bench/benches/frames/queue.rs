//! A queue as two processes share it, with memory by descriptor that the other side maps for
//! reading; and a pair of sockets for comparison.

use std::os::fd::OwnedFd;

use punctual_channel::rings::View;
use punctual_linux::memfd::{Others, Readable, Writable};
use punctual_ring::frames::{Consumer, Geometry, Producer};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// The number of slots of every queue compared.
pub(crate) const SLOTS: usize = 64;

pub(crate) type Queue = (Producer<Writable, View>, Consumer<Writable, View>);

pub(crate) fn queue(max_message: usize) -> Queue {
    let geometry = Geometry::new(SLOTS as u32, max_message as u32).expect("a good one");
    let bytes = geometry.producer_bytes();
    let made = |name, bytes| Writable::create(name, bytes, Others::Read).expect("memory");
    let (producers, passed_by_producers) = made("producer", bytes);
    let (consumers, passed_by_consumers) = made("consumer", Geometry::CONSUMER_BYTES);
    let view = |passed, bytes| View(Readable::of(passed, bytes).expect("as made"));
    let to_consumers = view(passed_by_consumers, Geometry::CONSUMER_BYTES);
    let to_producers = view(passed_by_producers, bytes);
    let producer = Producer::create(geometry, producers, to_consumers).expect("zeroes");
    (producer, Consumer::attach(consumers, to_producers).expect("just made"))
}

pub(crate) fn seqpacket() -> (OwnedFd, OwnedFd) {
    let kind = SocketType::SEQPACKET;
    rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).expect("sockets")
}
