//! O2: one thread makes packets, another, at a higher priority, schedules the link (real-time
//! channels, §3.1.2). A queue of packets with room for two messages of each sender lies between
//! them.

use std::sync::atomic::{AtomicBool, Ordering};

use punctual_channel::fragment::{Fragments, HEADER_BYTES};
use punctual_channel::rings::Takes;
use punctual_channel::server::sender::thread::SPIN;
use punctual_channel::transport::{NullDevice, Packet, Piece, Transport as _};
use punctual_linux::clock::{self, thread_cpu_time};
use punctual_linux::memfd::Readable;
use punctual_linux::net::Place;
use punctual_linux::park::EventCount;
use punctual_model::{Duration, Instant, Service};
use rtrb::{Consumer, Producer, RingBuffer};

use super::{Client, MESSAGE, Point, SENDERS, Sent, at, keep_full, to_the_front};

/// A finished packet.
struct Made {
    sender: usize,
    header: [u8; HEADER_BYTES],
    /// The position of its bytes.
    from: usize,
    to: usize,
    is_last: bool,
}

pub(super) fn run(point: Point) -> Sent {
    let stop = AtomicBool::new(false);
    let (filled, has_room) = (EventCount::new(), EventCount::new());
    let end = at(clock::now(), point.length);
    let room = 2 * SENDERS * point.cut.packets_of(MESSAGE);
    let (made, to_send) = RingBuffer::new(room as usize);
    let (sent, released) = RingBuffer::new(room as usize);
    std::thread::scope(|scope| {
        let (mut clients, mut takes, mut memory) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..SENDERS {
            let (client, side, seen) = Client::seen_twice();
            clients.push(client);
            takes.push(side);
            memory.push(seen);
        }
        let filling = scope.spawn(|| keep_full(clients, &stop));
        let linking = scope.spawn(|| {
            to_the_front(1);
            Link { point, memory, to_send, sent }.run(&filled, &has_room, end)
        });
        let making = scope.spawn(|| {
            let takes = takes.into_iter().map(|one| one.end);
            let maker = Maker { point, takes: takes.collect(), made, released, numbers: [0; 4] };
            to_the_front(0);
            maker.run(&filled, &has_room, end)
        });
        let (messages, within, of_link) = linking.join().expect("no panic");
        let of_maker = making.join().expect("no panic");
        stop.store(true, Ordering::Relaxed);
        filling.join().expect("no panic");
        Sent { messages, within, cpu: of_link + of_maker }
    })
}

struct Maker {
    point: Point,
    takes: Vec<Takes>,
    made: Producer<Made>,
    /// The senders whose message has left.
    released: Consumer<usize>,
    numbers: [u64; SENDERS as usize],
}

impl Maker {
    /// Makes a block of each sender's message in turn, for as long as there is room.
    fn run(mut self, filled: &EventCount, room: &EventCount, end: Instant) -> Service {
        let cpu = thread_cpu_time();
        let block = self.point.cut.packet_bytes() * self.point.cut.packets_per_block();
        // For each sender: the position of its message, and how much of it is made.
        let mut heads: Vec<Option<(usize, u32)>> = vec![None; self.takes.len()];
        while clock::now() < end {
            let seen = room.count();
            while let Ok(sender) = self.released.pop() {
                let _ = self.takes[sender].release(1);
            }
            let mut any = false;
            for (sender, head) in heads.iter_mut().enumerate() {
                if head.is_none() {
                    let taken = self.takes[sender].take().expect("sound");
                    *head = taken.map(|frame| (frame.position(), 0));
                }
                let Some((position, made)) = *head else { continue };
                let to = (made + block).min(MESSAGE);
                let packets = self.point.cut.packets_of(to - made) as usize;
                if self.made.slots() < packets {
                    continue;
                }
                self.make(sender, position, made..to);
                // At a preemption point the link thread runs.
                filled.notify();
                any = true;
                *head = (to < MESSAGE).then_some((position, to));
                self.numbers[sender] += u64::from(to == MESSAGE);
            }
            if !any {
                // Until a message has left, or clients have published.
                let soon = clock::now() + Duration::from_micros(200);
                room.sleep_until(seen, soon.min(end));
            }
        }
        thread_cpu_time() - cpu
    }

    fn make(&mut self, sender: usize, position: usize, block: std::ops::Range<u32>) {
        let bytes = u16::try_from(self.point.cut.packet_bytes()).ok();
        let message = Fragments {
            fragment_bytes: bytes.and_then(std::num::NonZeroU16::new).expect("at most 12 KB"),
            channel: sender as u32,
            message: self.numbers[sender],
            length: MESSAGE,
        };
        for piece in message.within(block, Some(clock::now())) {
            let made = Made {
                sender,
                header: piece.header.to_bytes(),
                from: position + piece.bytes.start as usize,
                to: position + piece.bytes.end as usize,
                is_last: piece.bytes.end == MESSAGE,
            };
            assert!(self.made.push(made).is_ok(), "there was room");
        }
    }
}

struct Link {
    point: Point,
    memory: Vec<Readable>,
    to_send: Consumer<Made>,
    sent: Producer<usize>,
}

impl Link {
    /// Sends one packet after the other, each when the link is free.
    fn run(
        mut self,
        filled: &EventCount,
        room: &EventCount,
        end: Instant,
    ) -> (u64, Duration, Service) {
        let link = self.point.link;
        let ahead = self.point.block_time() * 2;
        let mut device = NullDevice::new(link, 1 << 20, ahead, ());
        let (start, cpu) = (clock::now(), thread_cpu_time());
        let mut messages = 0;
        loop {
            let seen = filled.count();
            let now = clock::now();
            if now >= end {
                return (messages, now - start, thread_cpu_time() - cpu);
            }
            // The link is emulated: a packet leaves when those before it have.
            match device.free_at().saturating_since(now) {
                Duration::ZERO => {}
                left if left < SPIN => continue,
                _ => {
                    clock::sleep_until(device.free_at().min(end));
                    continue;
                }
            }
            let Ok(made) = self.to_send.pop() else {
                filled.sleep_until(seen, end);
                continue;
            };
            let bytes = Place::within(&self.memory[made.sender], made.from..made.to);
            let packet = Packet { head: &made.header, piece: Piece::Shared(bytes) };
            let _ = device.hand_over(now, made.sender as u32, &[packet]);
            if made.is_last {
                messages += 1;
                let _ = self.sent.push(made.sender);
                room.notify();
            }
        }
    }
}
