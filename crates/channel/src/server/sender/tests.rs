use std::cell::Cell;

use punctual_linux::pass::{Bell, Heard};
use punctual_model::channel::{LinearBounded, Link, Packetisation, TooEarly};
use punctual_model::{Duration, Rank};
use punctual_policy::link::ServiceOrder;
use punctual_policy::outlet::Promise;
use punctual_ring::frames::Geometry;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::account::{Recorder, Snapshot, Verdict};
use crate::rings::{Puts, client, server};
use crate::transport::{FarEnd, Fault, Faulty, NotTaken, NullDevice, Packet};

fn ns(n: u64) -> Instant {
    Instant::from_nanos(n)
}

/// When how many bytes had left, of which channel.
#[derive(Debug, Default)]
struct Log(Vec<(u64, u32, usize)>);

impl FarEnd<u32> for Log {
    fn left(&mut self, at: Instant, to: u32, packet: &Packet<'_>) {
        self.0.push((at.as_nanos(), to, packet.len()));
    }
}

type Script = fn(Instant) -> Fault;

/// A nanosecond a byte; packets of 100 bytes, two to a block.
fn link() -> (Link, Packetisation) {
    let link = Link::new(Duration::ZERO, 1).expect("valid");
    (link, Packetisation::new(100, 2).expect("valid"))
}

fn sender(room: u32, script: Script) -> Sender<Faulty<NullDevice<Log>, Script>> {
    let (link, cut) = link();
    let outlet = Outlet::new(link, cut, ServiceOrder::Deadline, room);
    let device = NullDevice::new(link, 200, Duration::from_nanos(1_000), Log::default());
    Sender::new(outlet, cut, room, Faulty::new(device, script))
}

fn no_fault(_: Instant) -> Fault {
    Fault::None
}

fn terms(spacing: u64, burst: u32, delay_bound: u64, too_early: TooEarly) -> Terms {
    let spacing = Duration::from_nanos(spacing);
    Terms {
        arrivals: LinearBounded::new(1, 1_000, spacing, burst).expect("valid"),
        promise: Promise::RealTime {
            rank: Rank(0),
            delay_bound: Duration::from_nanos(delay_bound),
        },
        too_early,
    }
}

/// A client that shares a ring of eight messages.
struct Client {
    puts: Puts,
    bell: Bell,
    books: std::sync::Arc<crate::account::Account>,
}

impl Client {
    fn new(terms: Terms, framing: Framing) -> (Self, Box<Channel>) {
        let geometry = Geometry::new(8, 1_000).expect("valid");
        let (puts, memory) = client::sending(geometry).expect("memory");
        let (bell, passed) = memory.pass().expect("descriptors");
        let recorder = Recorder::new(promised(terms));
        let books = std::sync::Arc::clone(recorder.account());
        let channel = Channel::new(Opening {
            terms,
            framing,
            number: 7,
            takes: server::takes(passed.frames, passed.page, geometry).expect("as granted"),
            bell: Bell::of(passed.bell).expect("a bell"),
            recorder,
        });
        (Self { puts, bell, books }, channel)
    }

    /// Publishes; whether the server is to be woken.
    fn put(&mut self, bytes: usize) -> Wake {
        self.puts.claim().expect("sound").expect("room").push(bytes, 0);
        self.puts.publish()
    }

    fn books(&self) -> Snapshot {
        self.books.snapshot()
    }
}

/// Turns until nothing is left to do, or `until`.
fn run<T: Transport<To = u32>>(sender: &mut Sender<T>, now: &Cell<u64>, until: u64) {
    loop {
        match sender.turn(ns(now.get()), || ns(now.get())) {
            Turn::Again => {}
            Turn::At(at) if at <= ns(until) => now.set(at.as_nanos()),
            Turn::At(_) | Turn::Idle => return,
        }
    }
}

#[test]
fn a_message_goes_from_the_ring_to_the_link_in_pieces_and_its_slot_comes_back() {
    let mut sender = sender(1, no_fault);
    let contract = terms(1_000, 2, 900, TooEarly::Waits);
    let (mut client, channel) = Client::new(contract, Framing::Fragments);
    sender.open(ns(5), 0, channel).expect("room");
    assert_eq!(sender.turn(ns(5), || ns(5)), Turn::Idle);
    // It sleeps, so it is to be woken; and only once.
    assert_eq!((client.put(250), client.put(10)), (Wake::Ring, Wake::Nobody));
    sender.look(ns(10), 0, false);
    let now = Cell::new(10);
    run(&mut sender, &now, 100_000);
    let log = &sender.transport.inner().far_end().0;
    // Each packet with 32 bytes before it: the device, unlike the reckoned link, counts those.
    let bytes: Vec<_> = log.iter().map(|(_, channel, bytes)| (*channel, *bytes)).collect();
    assert_eq!(bytes, [(0, 132), (0, 132), (0, 82), (0, 42)]);
    // The second counts as arrived a spacing after the first.
    assert_eq!(log[3].0, 1_010 + 42);
    let books = client.books();
    assert_eq!((books.offered, books.taken, books.sent, books.sent_bytes), (2, 2, 2, 260));
    assert_eq!(books.verdict(ns(5_000)), Verdict::Kept);
    assert_eq!(client.puts.unreleased(), Ok(0));
}

#[test]
fn a_channel_that_loses_what_is_early_passes_one_message_a_spacing() {
    let mut sender = sender(1, no_fault);
    let (mut client, channel) =
        Client::new(terms(1_000, 1, 500, TooEarly::IsLost), Framing::Datagram);
    let small = LinearBounded::new(1, 100, Duration::from_micros(1), 1).expect("valid");
    let mut channel = channel;
    channel.opening.terms.arrivals = small;
    sender.open(ns(0), 0, channel).expect("room");
    let now = Cell::new(0);
    for _ in 0..1_000 {
        while let Ok(Some(slot)) = client.puts.claim() {
            slot.push(50, 0);
            let _ = client.puts.publish();
        }
        sender.look(ns(now.get()), 0, false);
        run(&mut sender, &now, now.get() + 100);
        now.set(now.get() + 100);
    }
    let books = client.books();
    // A microsecond each.
    let most = now.get() / 1_000 + 1;
    assert!((most - 1..=most).contains(&books.sent), "{most}: {books:?}");
    assert!(books.losses.too_early > 100, "{books:?}");
    assert_eq!(books.offered, books.sent + books.losses.too_early);
    // What is lost costs no look of its own: at rest only when nothing is early.
    assert!(sender.ended().is_none());
}

#[test]
fn messages_of_another_size_than_declared_are_lost_and_the_others_go() {
    let mut sender = sender(1, no_fault);
    let (mut client, channel) =
        Client::new(terms(10, 8, 5_000, TooEarly::Waits), Framing::Fragments);
    sender.open(ns(0), 0, channel).expect("room");
    for bytes in [0, 5, 0, 7] {
        let _ = client.put(bytes);
    }
    sender.look(ns(1), 0, false);
    let now = Cell::new(1);
    run(&mut sender, &now, 10_000);
    let books = client.books();
    assert_eq!((books.sent_bytes, books.losses.wrong_size), (12, 2));
    assert_eq!(books.verdict(ns(20_000)), Verdict::Kept, "its own fault");
}

#[test]
fn a_client_that_is_gone_has_its_messages_sent_and_one_that_cheats_is_ended() {
    let mut sender = sender(3, no_fault);
    let contract = terms(1_000, 1, 900, TooEarly::Waits);
    let (mut gone, channel) = Client::new(contract, Framing::Fragments);
    sender.open(ns(0), 0, channel).expect("room");
    let (rings, channel) = Client::new(contract, Framing::Fragments);
    sender.open(ns(0), 1, channel).expect("room");
    let (mut corrupt, channel) = Client::new(contract, Framing::Fragments);
    sender.open(ns(0), 2, channel).expect("room");
    let _ = (gone.put(100), gone.put(100));
    sender.look(ns(1), 0, true);
    for _ in 0..=MOST_VAIN {
        assert!(sender.ended().is_none());
        sender.look(ns(2), 1, false);
    }
    assert_eq!(sender.ended(), Some((1, Ended::RingsInVain)));
    // A message longer than its slot, as no honest producer can push it.
    let _ = corrupt.put(1_000);
    let descriptor = 4096 / 8;
    let slot = corrupt.puts.claim().expect("sound").expect("room");
    slot.memory().words()[descriptor].store(1_001, std::sync::atomic::Ordering::Relaxed);
    sender.look(ns(3), 2, false);
    assert!(matches!(sender.ended(), Some((2, Ended::Corrupt(Corrupt::Length { .. })))));
    let now = Cell::new(3);
    run(&mut sender, &now, 10_000);
    assert_eq!(sender.ended(), Some((0, Ended::ClientGone)));
    assert_eq!((gone.books().sent, rings.books().offered), (2, 0));
    for key in 0..3 {
        assert!(sender.close(key).is_some() && sender.close(key).is_none());
    }
    // The bells are closed with the channels.
    assert_eq!(rings.bell.wait(Instant::MAX), Ok(Heard::Gone));
}

#[test]
fn what_the_link_does_not_take_waits_or_is_lost_and_counted() {
    // Down from 1,000 to 2,000.
    let script: Script = |now| match now.as_nanos() {
        1_000..2_000 => Fault::Refuse(NotTaken::Unreachable),
        3_000..4_000 => Fault::Refuse(NotTaken::WouldBlock { until: Some(ns(4_000)) }),
        _ => Fault::None,
    };
    let mut sender = sender(1, script);
    let (mut client, channel) =
        Client::new(terms(1_000, 1, 700, TooEarly::Waits), Framing::Fragments);
    sender.open(ns(0), 0, channel).expect("room");
    let now = Cell::new(0);
    for at in [100, 1_100, 2_100, 3_100, 4_100] {
        now.set(now.get().max(at));
        let _ = client.put(50);
        sender.look(ns(now.get()), 0, false);
        run(&mut sender, &now, at + 950);
    }
    run(&mut sender, &now, 10_000);
    let books = client.books();
    assert_eq!((books.taken, books.sent, books.losses.unreachable), (5, 4, 1));
    assert_eq!(books.late, 1, "the one that had to wait: {books:?}");
}

/// However much more is written, what the contract allows is sent.
#[test]
fn a_writer_in_a_tight_loop_that_loses_gets_its_contract() {
    let mut sender = sender(1, no_fault);
    let (mut client, channel) =
        Client::new(terms(5_000, 3, 500, TooEarly::IsLost), Framing::Fragments);
    sender.open(ns(0), 0, channel).expect("room");
    let now = Cell::new(0);
    for at in 0..10_000 {
        now.set(now.get().max(at * 100));
        while let Ok(Some(slot)) = client.puts.claim() {
            slot.push(50, 0);
            if client.puts.publish() == Wake::Ring {
                sender.look(ns(now.get()), 0, false);
            }
        }
        run(&mut sender, &now, at * 100);
    }
    let books = client.books();
    // A million nanoseconds, one each five thousand.
    assert!((198..=202).contains(&books.sent), "{books:?}");
    assert!(books.losses.too_early > 100, "{books:?}");
}

/// A sender that keeps to its contract, with a delay bound above its spacing, behind somebody whose
/// message takes long: it falls behind, loses nothing, and comes up again.
#[test]
fn who_keeps_to_the_contract_loses_nothing_while_a_message_waits() {
    for too_early in [TooEarly::IsLost, TooEarly::Waits] {
        let mut sender = sender(2, no_fault);
        let long = Terms { promise: Promise::BestEffort, ..terms(1, 1, 1, TooEarly::Waits) };
        let (mut other, channel) = Client::new(long, Framing::Fragments);
        sender.open(ns(0), 0, channel).expect("room");
        let (mut client, channel) = Client::new(terms(100, 1, 500, too_early), Framing::Fragments);
        sender.open(ns(0), 1, channel).expect("room");
        let now = Cell::new(0);
        for n in 0..40 {
            let at = n * 100;
            run(&mut sender, &now, at);
            now.set(now.get().max(at));
            // Blocks of two packets take 200 of a link that 50 of each 100 are wanted of.
            if n % 8 == 0 {
                let _ = other.put(200);
                sender.look(ns(now.get()), 0, false);
            }
            if client.put(50) == Wake::Ring {
                sender.look(ns(now.get()), 1, false);
            }
        }
        run(&mut sender, &now, 10_000);
        let books = client.books();
        assert_eq!((books.sent, books.losses.total(), books.late), (40, 0, 0), "{books:?}");
    }
}

/// Channels that open, send, close, are replaced and cheat, at random: what is offered is sent, lost or
/// on its way, and every open channel goes on.
#[test]
fn everything_offered_is_accounted_for() {
    for seed in 0..60 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let room = 6;
        let mut sender = sender(room, no_fault);
        let mut clients: Vec<Option<Client>> = (0..room).map(|_| None).collect();
        let now = Cell::new(0);
        for _ in 0..400 {
            now.set(now.get() + rng.random_range(0..300));
            let at = ns(now.get());
            let key = rng.random_range(0..room);
            let client = &mut clients[key as usize];
            match (client.as_mut(), rng.random_range(0..20)) {
                (None, _) => {
                    let early = [TooEarly::Waits, TooEarly::IsLost][rng.random_range(0..2)];
                    let spacing = rng.random_range(50..2_000);
                    let contract = terms(spacing, rng.random_range(1..4), 1_000_000, early);
                    let (new, channel) = Client::new(contract, Framing::Fragments);
                    sender.open(at, key, channel).expect("a free number");
                    *client = Some(new);
                }
                (Some(open), 0) => {
                    let channel = sender.close(key).expect("it is open");
                    let (books, ended) = (open.books(), channel.ended);
                    let known = books.sent + books.losses.total();
                    assert_eq!(books.offered, known, "seed {seed}: {books:?}");
                    assert!(!ended, "seed {seed}");
                    *client = None;
                }
                (Some(open), _) => {
                    for _ in 0..rng.random_range(0..4) {
                        if let Ok(Some(slot)) = open.puts.claim() {
                            slot.push(rng.random_range(1..400), 0);
                        }
                    }
                    if open.puts.publish() == Wake::Ring {
                        sender.look(at, key, false);
                    }
                }
            }
            run(&mut sender, &now, now.get() + rng.random_range(0..500));
        }
        // With time, all of it goes.
        run(&mut sender, &now, now.get() + 10_000_000);
        for open in clients.iter_mut().flatten() {
            let books = open.books();
            assert_eq!(books.offered, books.sent + books.losses.total(), "seed {seed}: {books:?}");
            assert_eq!(open.puts.unreleased(), Ok(0), "seed {seed}");
            assert_eq!(books.late, 0, "seed {seed}: {books:?}");
        }
    }
}
