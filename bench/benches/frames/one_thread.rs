//! Measures the processor time of a message on one thread.

use std::hint::black_box;
use std::sync::mpsc;

use punctual_bench::pairs::nanos_per_op;
use punctual_ring::frames::Wake;
use rustix::net::{RecvFlags, SendFlags};

use crate::queue::{SLOTS, queue, seqpacket};

/// The UDP payload of an Ethernet frame.
pub(crate) const PACKET: usize = 1472;
/// The messages of a measurement.
const MESSAGES: u64 = 64 * 4_096;

/// Measures descriptors on one thread, `batch` at a time.
pub(crate) fn descriptors(batch: u64) -> impl FnMut() -> f64 {
    let (mut producer, mut consumer) = queue(64);
    move || {
        nanos_per_op(MESSAGES, || {
            for _ in 0..MESSAGES / batch {
                for n in 0..batch {
                    let slot = producer.claim().expect("honest").expect("room");
                    slot.push(0, black_box(n));
                    if batch == 1 {
                        assert_eq!(producer.publish(), Wake::Nobody);
                    }
                }
                assert_eq!(producer.publish(), Wake::Nobody);
                for _ in 0..batch {
                    black_box(consumer.take().expect("honest").expect("one").user());
                }
                assert_eq!(consumer.release(batch), Wake::Nobody);
            }
        })
    }
}

pub(crate) fn std_channel() -> impl FnMut() -> f64 {
    let (sender, receiver) = mpsc::sync_channel(SLOTS);
    move || {
        nanos_per_op(MESSAGES, || {
            for _ in 0..MESSAGES / 32 {
                (0..32u64).for_each(|n| sender.try_send((0usize, black_box(n))).expect("room"));
                (0..32).for_each(|_| _ = black_box(receiver.try_recv().expect("one")));
            }
        })
    }
}

pub(crate) fn rtrb_ring() -> impl FnMut() -> f64 {
    let (mut producer, mut consumer) = rtrb::RingBuffer::new(SLOTS);
    move || {
        nanos_per_op(MESSAGES, || {
            for _ in 0..MESSAGES / 32 {
                (0..32u64).for_each(|n| producer.push((0usize, black_box(n))).expect("room"));
                (0..32).for_each(|_| _ = black_box(consumer.pop().expect("one")));
            }
        })
    }
}

/// Measures payloads on one thread, one at a time.
pub(crate) fn payloads() -> impl FnMut() -> f64 {
    let (mut producer, mut consumer) = queue(PACKET);
    let (from, mut to) = ([7; PACKET], [0; PACKET]);
    move || {
        nanos_per_op(MESSAGES / 16, || {
            for n in 0..MESSAGES / 16 {
                let mut slot = producer.claim().expect("honest").expect("room");
                slot.write(0, black_box(&from));
                slot.push(PACKET, n);
                assert_eq!(producer.publish(), Wake::Nobody);
                consumer.take().expect("honest").expect("one").read(0, &mut to);
                black_box(&to);
                assert_eq!(consumer.release(1), Wake::Nobody);
            }
        })
    }
}

/// Measures two copies through as much memory as the queue has.
pub(crate) fn two_copies() -> impl FnMut() -> f64 {
    let mut slots = vec![[0; PACKET]; SLOTS];
    let (from, mut to) = ([7; PACKET], [0; PACKET]);
    move || {
        nanos_per_op(MESSAGES / 16, || {
            for n in 0..MESSAGES as usize / 16 {
                let slot = &mut slots[n % SLOTS];
                slot.copy_from_slice(black_box(&from));
                to.copy_from_slice(black_box(slot));
                black_box(&to);
            }
        })
    }
}

pub(crate) fn seqpacket_payloads() -> impl FnMut() -> f64 {
    let (sender, receiver) = seqpacket();
    let (from, mut to) = ([7; PACKET], [0; PACKET]);
    move || {
        nanos_per_op(MESSAGES / 64, || {
            for _ in 0..MESSAGES / 64 {
                let flags = SendFlags::NOSIGNAL;
                assert_eq!(rustix::net::send(&sender, black_box(&from), flags), Ok(PACKET));
                let received = rustix::net::recv(&receiver, &mut to, RecvFlags::empty());
                assert_eq!(received.expect("one").1, PACKET);
                black_box(&to);
            }
        })
    }
}
