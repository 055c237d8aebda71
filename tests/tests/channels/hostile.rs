//! Clients that cheat: each harms itself alone.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use punctual_broker::wire::Event;
use punctual_channel::client::Sending;
use punctual_channel::rings::{Passed, client};
use punctual_linux::memfd::{Others, Writable};
use punctual_linux::pass::Bell;
use punctual_model::channel::Framing;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use system_tests::live;

use crate::host::{Broker, CONFIG, alone, listener, number_of, numbered, open_sending, to};

fn null() -> OwnedFd {
    File::open("/dev/null").expect("there").into()
}

#[test]
fn files_that_are_no_queue_are_refused() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(CONFIG);
    let mut connection = broker.connect();
    let want = to(listener().1, 500, 1_000, Framing::Datagram);
    let granted = connection.open_channel(&want).expect("room");
    let before = broker.descriptors();
    let memory =
        |bytes| -> OwnedFd { Writable::create("test", bytes, Others::Write).expect("memory").1 };
    let bell = || -> OwnedFd { Bell::pair().expect("descriptors").0.into() };
    let frames = want.geometry().producer_bytes();
    let queues = [
        Passed { frames: null(), page: null(), bell: null() },
        Passed { frames: memory(frames), page: memory(4_096), bell: null() },
        Passed { frames: memory(4_096), page: memory(4_096), bell: bell() },
        // Of zeroes: no producer has set it up.
        Passed { frames: memory(frames), page: memory(4_096), bell: bell() },
        Passed { frames: memory(frames), page: memory(8_192), bell: bell() },
    ];
    for queue in queues {
        let why = connection.attach_channel(&granted, queue).expect_err("no queue").to_string();
        assert!(why.len() > 20, "{why}");
    }
    let other = to(listener().1, 400, 1_000, Framing::Datagram);
    let (_sending, queue) = Sending::create(other.geometry()).expect("memory");
    connection.attach_channel(&granted, queue).expect_err("of other messages");
    // Every file is closed, and a true queue is taken all the same.
    assert!(live::eventually(|| broker.descriptors() <= before), "{}", broker.descriptors());
    let (_sending, queue) = Sending::create(want.geometry()).expect("memory");
    connection.attach_channel(&granted, queue).expect("as granted");
    let (_sending, queue) = Sending::create(want.geometry()).expect("memory");
    connection.attach_channel(&granted, queue).expect_err("it has one");
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
        // To a port where nobody listens.
        let want = to("127.0.0.1:9".parse().expect("valid"), 500, 100, Framing::Datagram);
        let granted = connection.open_channel(&want).expect("room");
        let (mut puts, memory) = client::sending(want.geometry()).expect("memory");
        let (bell, queue) = memory.pass().expect("descriptors");
        connection.attach_channel(&granted, queue).expect("as granted");
        let words: Vec<u64> = (0..2_000).map(|_| rng.random_range(0..600)).collect();
        for (round, word) in words.into_iter().enumerate() {
            if let Ok(Some(slot)) = puts.claim() {
                let memory = slot.memory().words();
                let at = match rng.random_range(0..3) {
                    // Indices, descriptors, anything.
                    0 => rng.random_range(0..32),
                    1 => rng.random_range(512..544),
                    _ => rng.random_range(0..memory.len()),
                };
                memory[at].store(word, Ordering::Relaxed);
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
        // Not all that it can write is impossible.
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
fn a_bell_that_rings_for_nothing_keeps_nobody_from_sending() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(CONFIG);
    let mut connection = broker.connect();
    let want = to("127.0.0.1:9".parse().expect("valid"), 500, 100, Framing::Datagram);
    let granted = connection.open_channel(&want).expect("room");
    let (_puts, memory) = client::sending(want.geometry()).expect("memory");
    let (bell, queue) = memory.pass().expect("descriptors");
    connection.attach_channel(&granted, queue).expect("as granted");
    let (socket, address) = listener();
    let (_honest, mut sending) =
        open_sending(&mut connection, &to(address, 500, 1_000, Framing::Datagram));
    let mut buffer = [0; 2_000];
    // Rings that come together count as one, and of a bell that is full nobody hears: then it costs
    // nothing either.
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

/// A client that waits for nothing and never reads: its own messages are lost, and those are counted.
#[test]
fn a_client_that_never_reads_loses_its_own_messages() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(CONFIG);
    let mut connection = broker.connect();
    let address = listener().1;
    let outwards = to(address, 500, 500, Framing::Fragments);
    let inwards = punctual_broker::want::WantedChannel {
        framing: Framing::Fragments,
        ..punctual_broker::want::WantedChannel::receiving(
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
