//! Clients that cheat harm only themselves.

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use punctual_channel::client::{Geometry, Sending};
use punctual_channel::rings::{self, Puts, Side, map};
use punctual_client::want::WantedChannel;
use punctual_client::wire::Event;
use punctual_client::{Broker as Connection, GrantedChannel};
use punctual_linux::memfd::{self, Writable};
use punctual_linux::sched::{self, Class};
use punctual_linux::{pass, thread};
use punctual_model::channel::Framing;
use punctual_ring::frames::Wake;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::event::epoll;
use rustix::fs::{FallocateFlags, Mode, OFlags, SealFlags, fallocate};
use rustix::io::Errno;
use system_tests::live;

use crate::host::{Broker, CONFIG, alone, listener, number_of, numbered, open_sending, to};

/// Returns the client's part of a queue as a hostile client has it: the writable memory, for any
/// use.
fn stranger(
    connection: &mut Connection,
    granted: &GrantedChannel,
) -> (Side<Puts>, OwnedFd, OwnedFd) {
    let queue = connection.make_queue(granted, 0).expect("made");
    let frames = queue.frames.try_clone().expect("a descriptor");
    let page = queue.page.try_clone().expect("a descriptor");
    let side = map(queue, granted.want().geometry(), 0).expect("as made");
    (side, frames, page)
}

#[test]
fn a_queue_that_is_not_what_was_granted_is_not_attached() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(CONFIG);
    let mut connection = broker.connect();
    let want = to(listener().1, 500, 1_000, Framing::Datagram);
    let granted = connection.open_channel(&want).expect("room");
    let why = connection.say_mapped(&granted).expect_err("none was made").to_string();
    assert!(why.contains("no queue"), "{why}");
    // Mapped by no process, so it is all zeroes.
    connection.make_queue(&granted, 0).expect("made");
    let why = connection.say_mapped(&granted).expect_err("no queue").to_string();
    assert!(why.contains("no queue of this version"), "{why}");
    // Another geometry with the same number of bytes.
    let (slots, bytes) = (want.geometry().slots(), want.geometry().max_message());
    let other = Geometry::new(slots, bytes - 1).expect("valid");
    assert_eq!(other.producer_bytes(), want.geometry().producer_bytes());
    let queue = connection.make_queue(&granted, 0).expect("made");
    let _side: Side<Puts> = map(queue, other, 0).expect("as large");
    let why = connection.say_mapped(&granted).expect_err("other messages").to_string();
    assert!(why.contains("that were granted"), "{why}");
    // Sealed by the client first, so that it can punch holes for ever.
    let (_side, frames, _) = stranger(&mut connection, &granted);
    rustix::fs::fcntl_add_seals(&frames, SealFlags::SEAL).expect("nothing forbids it");
    let why = connection.say_mapped(&granted).expect_err("not sealed").to_string();
    assert!(why.contains("sealed against all but writing"), "{why}");
    let _sending: Sending = connection.attach_channel(&granted).expect("a true one is taken");
    connection.make_queue(&granted, 0).expect_err("it has one");
}

/// After its queue is attached, a client can only write to its part. A thread of its own tries
/// everything else all the while, at the lowest priority; another channel loses nothing.
#[test]
fn a_client_that_punches_holes_delays_no_other_channel() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(CONFIG);
    let (socket, address) = listener();
    let mut connection = broker.connect();
    let (good, mut sending) =
        open_sending(&mut connection, &to(address, 500, 500, Framing::Datagram));
    // A queue of some megabytes, so that punching a hole in it takes a while.
    let large = WantedChannel {
        slots: 1_024,
        ..to("127.0.0.1:9".parse().expect("valid"), 1_400, 1_000, Framing::Datagram)
    };
    let granted = connection.open_channel(&large).expect("room");
    let (mut side, frames, page) = stranger(&mut connection, &granted);
    let (done, punched) = (AtomicBool::new(false), AtomicU64::new(0));
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let bytes = large.geometry().producer_bytes() as u64;
    std::thread::scope(|scope| {
        let punching = scope.spawn(|| {
            // The weakest class that the kernel preempts for any other thread.
            let class = Class::Other { nice: 19 };
            sched::set(thread::current(), class).expect("anybody may");
            let mut refused = 0_u64;
            while !done.load(Ordering::Relaxed) {
                match fallocate(&frames, hole, 4_096, bytes - 4_096) {
                    Ok(()) => _ = punched.fetch_add(1, Ordering::Relaxed),
                    Err(_) => refused += 1,
                }
            }
            refused
        });
        // The queue is sealed in the midst of that.
        assert!(live::eventually(|| punched.load(Ordering::Relaxed) > 0));
        connection.say_mapped(&granted).expect("as granted");
        let mut buffer = [0; 2_000];
        for number in 0..400 {
            if let Ok(Some(slot)) = side.end.claim() {
                slot.push(100, 0);
                if side.end.publish() == Wake::Ring {
                    side.doorbell.ring().expect("an eventfd");
                }
            }
            sending.send(&numbered(number, 500)).expect("a server");
            let bytes = socket.recv(&mut buffer).expect("sent");
            assert_eq!(number_of(&buffer[..bytes]), number);
        }
        done.store(true, Ordering::Relaxed);
        let refused = punching.join().expect("no panic");
        println!("{punched:?} holes before it was sealed, {refused} refused after");
        assert!(refused > 0);
    });
    for file in [&frames, &page] {
        assert_eq!(fallocate(file, hole, 0, 4_096), Err(Errno::PERM));
        assert_eq!(rustix::fs::ftruncate(file, 0), Err(Errno::PERM));
        assert_eq!(rustix::io::pwrite(file, &[0], 0), Err(Errno::PERM));
        assert!(Writable::of(file.try_clone().expect("a descriptor"), 4_096).is_err());
        assert_ne!(memfd::collapses(file, 0), Some(true), "pages replaced by a huge one");
    }
    let counts = broker.channel(&good).counts.expect("attached");
    assert_eq!((counts.lost, counts.taken), (Vec::new(), counts.offered));
}

/// A client may do anything with its ends of the bells: it never reads them, keeps copies, changes
/// flags, fills them, has them watched in many places, and passes files that are slow to close.
#[test]
fn a_client_that_misuses_its_bells_delays_no_other_channel() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(CONFIG);
    let (socket, address) = listener();
    let mut connection = broker.connect();
    let (good, mut sending) =
        open_sending(&mut connection, &to(address, 500, 500, Framing::Datagram));
    let nowhere = to("127.0.0.1:9".parse().expect("valid"), 100, 200, Framing::Datagram);
    let granted = connection.open_channel(&nowhere).expect("room");
    let queue = connection.make_queue(&granted, 0).expect("made");
    let bell = queue.bell.try_clone().expect("a descriptor");
    let doorbell = queue.doorbell.try_clone().expect("a descriptor");
    let mut side: Side<Puts> = map(queue, nowhere.geometry(), 0).expect("as made");
    connection.say_mapped(&granted).expect("as granted");
    let sets: Vec<OwnedFd> = (0..200)
        .map(|_| {
            let set = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a descriptor");
            for one in [&bell, &doorbell] {
                let data = epoll::EventData::new_u64(0);
                epoll::add(&set, one, data, epoll::EventFlags::IN).expect("added");
            }
            set
        })
        .collect();
    let mut buffer = [0; 2_000];
    for number in 0..400_u32 {
        let flags = if number % 2 == 0 { OFlags::empty() } else { OFlags::NONBLOCK };
        rustix::fs::fcntl_setfl(&doorbell, flags).expect("open");
        rustix::fs::fcntl_setfl(&bell, flags).expect("open");
        if number == 200 {
            // The bell is full, so no further ring is noticed. The client's own calls would block,
            // so it makes none.
            rustix::fs::fcntl_setfl(&doorbell, OFlags::NONBLOCK).expect("open");
            let _ = rustix::io::write(&doorbell, &(u64::MAX - 500).to_ne_bytes());
        }
        // Passes a file over the bell, which is never received: if this end is blocking, it would
        // block.
        if flags == OFlags::NONBLOCK {
            let _ = pass::send(&bell, &[1], &[doorbell.as_fd()]);
        }
        while let Ok(Some(slot)) = side.end.claim() {
            slot.push(100, 0);
        }
        // The client sleeps for room, and never learns that there is some.
        if side.end.publish() == Wake::Ring && number < 200 {
            side.doorbell.ring().expect("an eventfd");
        }
        let _ = side.end.rest();
        sending.send(&numbered(number, 500)).expect("a server");
        let bytes = socket.recv(&mut buffer).expect("sent");
        assert_eq!(number_of(&buffer[..bytes]), number);
    }
    drop(sets);
    let counts = broker.channel(&good).counts.expect("attached");
    assert_eq!((counts.lost, counts.taken), (Vec::new(), counts.offered));
}

/// The memory of a user's queues has a limit, which a refusal states with its numbers.
#[test]
fn the_memory_of_queues_has_a_quota() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(&CONFIG.replace("1GiB", "64KiB"));
    let mut connection = broker.connect();
    let want = to(listener().1, 500, 1_000, Framing::Datagram);
    let each = rings::bytes(want.geometry());
    let mut granted = Vec::new();
    let refused = loop {
        match connection.open_channel(&want) {
            Ok(one) => granted.push(one),
            Err(why) => break why.to_string(),
        }
    };
    assert_eq!(granted.len() as u64, 65_536 / each);
    assert!(refused.contains("quota") && refused.contains("65536 bytes"), "{refused}");
    connection.release_channel(granted.pop().expect("some")).expect("ours");
    assert!(live::eventually(|| connection.open_channel(&want).is_ok()), "given back");
}

/// The parts of a queue that a client keeps count until they are gone, even if it keeps no more
/// than a path.
#[test]
fn memory_kept_of_closed_channels_counts_in_the_quota() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(&CONFIG.replace("1GiB", "1MiB"));
    let mut connection = broker.connect();
    let want = WantedChannel { slots: 128, ..to(listener().1, 500, 1_000, Framing::Datagram) };
    // Nothing is kept of the other piece, a page.
    let room = (1 << 20) / want.geometry().producer_bytes();
    let mut kept: Vec<OwnedFd> = Vec::new();
    let (refused, made) = loop {
        let granted = connection.open_channel(&want).expect("what is closed has left the books");
        match connection.make_queue(&granted, 0) {
            Ok(queue) => {
                let path = format!("/proc/self/fd/{}", queue.frames.as_raw_fd());
                kept.push(rustix::fs::open(path, OFlags::PATH, Mode::empty()).expect("ours"));
            }
            Err(why) => break (why.to_string(), granted),
        }
        connection.release_channel(granted).expect("ours");
        assert!(kept.len() <= room, "{} queues are kept, and {room} are the most", kept.len());
    };
    println!("{} queues: {refused}", kept.len());
    assert!(refused.contains("bytes of queues"), "{refused}");
    assert!(kept.len() + 2 > room, "{} of {room}", kept.len());
    // One less leaves room for one more, and the channel is unchanged.
    kept.pop();
    let _sending: Sending = connection.attach_channel(&made).expect("there is room");
}

/// A client that closes a channel properly can have one of the same size at once.
#[test]
fn a_quota_that_is_used_up_is_free_again_at_once() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(&CONFIG.replace("1GiB", "128KiB"));
    let mut connection = broker.connect();
    let want = WantedChannel { slots: 128, ..to(listener().1, 500, 1_000, Framing::Datagram) };
    assert!(2 * rings::bytes(want.geometry()) > 128 << 10, "there is room for one");
    for _ in 0..50 {
        // A used channel stays accounted for until its last message would be due.
        let mut granted = None;
        assert!(live::eventually(|| {
            granted = connection.open_channel(&want).ok();
            granted.is_some()
        }));
        let granted = granted.expect("just seen");
        let sending: Sending = connection.attach_channel(&granted).expect("room");
        drop(sending);
        connection.release_channel(granted).expect("ours");
    }
}

/// Scribbles over all of its own memory while the server reads; another channel loses nothing.
#[test]
fn a_client_that_scribbles_over_its_queue_ends_its_own_channel() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(CONFIG);
    let (socket, address) = listener();
    let mut honest = broker.connect();
    let (good, mut sending) = open_sending(&mut honest, &to(address, 500, 500, Framing::Datagram));
    let mut buffer = [0; 2_000];
    let mut ended = 0;
    for seed in 0..20 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut connection = broker.connect();
        // A port on which no socket listens.
        let want = to("127.0.0.1:9".parse().expect("valid"), 500, 100, Framing::Datagram);
        let granted = connection.open_channel(&want).expect("room");
        let (Side { end: mut puts, doorbell: bell, .. }, ..) = stranger(&mut connection, &granted);
        connection.say_mapped(&granted).expect("as granted");
        let words: Vec<u64> = (0..2_000).map(|_| rng.random_range(0..600)).collect();
        for (round, word) in words.into_iter().enumerate() {
            if let Ok(Some(slot)) = puts.claim() {
                let memory = slot.memory().words();
                let at = match rng.random_range(0..3) {
                    // Indices, descriptors, or anything.
                    0 => rng.random_range(0..32),
                    1 => rng.random_range(512..544),
                    _ => rng.random_range(0..memory.len()),
                };
                memory[at].store(word, Ordering::Relaxed);
                // With one CPU the server reads now, before the next writes.
                let _ = bell.ring();
                slot.push(100, 0);
                let _ = puts.publish();
            }
            let _ = bell.ring();
            if round % 100 == 0 {
                let number = seed as u32 * 20 + round as u32 / 100;
                sending.send(&numbered(number, 500)).expect("a server");
                let bytes = socket.recv(&mut buffer).expect("sent");
                assert_eq!(number_of(&buffer[..bytes]), number);
            }
        }
        // Not everything that it can write is invalid.
        let _ = connection.events(|_, event| {
            ended += u32::from(matches!(event, Event::ChannelEnded { .. }));
        });
        let _ = connection.release_channel(granted);
    }
    assert!(ended > 5, "of twenty {ended} were noticed");
    assert!(live::eventually(|| broker.channels().channels.len() == 1), "{:?}", broker.channels());
    let counts = broker.channel(&good).counts.expect("attached");
    assert_eq!((counts.lost, counts.taken), (Vec::new(), counts.offered));
}

#[test]
fn a_bell_that_rings_for_nothing_stops_no_sender() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(CONFIG);
    let mut connection = broker.connect();
    let want = to("127.0.0.1:9".parse().expect("valid"), 500, 100, Framing::Datagram);
    let granted = connection.open_channel(&want).expect("room");
    let (Side { doorbell: bell, .. }, ..) = stranger(&mut connection, &granted);
    connection.say_mapped(&granted).expect("as granted");
    let (socket, address) = listener();
    let (_honest, mut sending) =
        open_sending(&mut connection, &to(address, 500, 1_000, Framing::Datagram));
    let mut buffer = [0; 2_000];
    // Rings that come together count as one, and a ring on a full bell is not noticed: then it
    // costs nothing either.
    for number in 0..200 {
        for _ in 0..100 {
            let _ = bell.ring();
        }
        sending.send(&numbered(number, 500)).expect("a server");
        let bytes = socket.recv(&mut buffer).expect("sent");
        assert_eq!(number_of(&buffer[..bytes]), number);
    }
    connection
        .events(|_, event| {
            if let Event::ChannelEnded { why } = event {
                assert!(why.contains("for nothing"), "{why}");
            }
        })
        .expect("a broker");
}

/// A client that never waits and never reads loses its own messages, and they are counted.
#[test]
fn a_client_that_never_reads_loses_its_own_messages() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(CONFIG);
    let mut connection = broker.connect();
    let address = listener().1;
    let outwards = to(address, 500, 500, Framing::Fragments);
    let inwards = punctual_client::want::WantedChannel {
        framing: Framing::Fragments,
        ..punctual_client::want::WantedChannel::receiving(
            "deaf",
            outwards.arrivals,
            outwards.delay_bound,
            address,
        )
    };
    let (deaf, receiving) = crate::host::open_receiving(&mut connection, &inwards);
    let (_sent, mut sending) = open_sending(&mut connection, &outwards);
    for number in 0..200 {
        sending.send(&numbered(number, 500)).expect("a server");
    }
    let lost = || {
        let counts = broker.channel(&deaf).counts.expect("attached");
        counts.done + counts.lost.iter().map(|(_, count)| count).sum::<u64>()
    };
    assert!(live::eventually(|| lost() == 200), "{:?}", broker.channel(&deaf));
    let counts = broker.channel(&deaf).counts.expect("attached");
    assert!(counts.lost.iter().any(|(cause, _)| cause == "ring full"), "{counts:?}");
    drop(receiving);
}
