//! The verdict on messages that were not checked while a process stood still.

use punctual_channel::client::Sending;
use punctual_linux::clock;
use punctual_linux::process::Signal;
use punctual_model::Duration;
use punctual_model::channel::Framing;
use system_tests::held::HeldThread;
use system_tests::live;

use crate::host::{Broker, CONFIG, alone, listener, number_of, numbered, open_sending, to};

/// Much longer than the delay bound of [`to`].
const STILL: Duration = Duration::from_millis(400);

fn comes(socket: &std::net::UdpSocket, number: u32) {
    let mut buffer = [0; 2_000];
    let bytes = socket.recv(&mut buffer).expect("sent");
    assert_eq!(number_of(&buffer[..bytes]), number);
}

/// Sends a message and returns whether the promise was kept. A busy host may be late by itself,
/// which does not matter to these tests.
fn is_kept(broker: &Broker<'_>, sending: &mut Sending, socket: &std::net::UdpSocket) -> bool {
    sending.send(&numbered(0, 500)).expect("a server");
    comes(socket, 0);
    let verdict = || broker.channels().channels[0].verdict.clone();
    let counted = live::eventually(|| verdict() != "nothing was sent yet");
    assert!(counted);
    let kept = verdict() == "kept";
    if !kept {
        println!("skipped: this host is late by itself: {}", verdict());
    }
    kept
}

/// The sending thread stands still, but the broker around it does not.
#[test]
fn a_sender_that_stands_still_has_not_looked() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(CONFIG);
    let (socket, address) = listener();
    let mut connection = broker.connect();
    let want = to(address, 500, 1_000, Framing::Datagram);
    let (granted, mut sending) = open_sending(&mut connection, &want);
    if !is_kept(&broker, &mut sending, &socket) {
        return;
    }
    let held = match HeldThread::of(broker.pid(), "sender") {
        Ok(held) => held,
        Err(why) => return println!("skipped: no thread can be held: {why}"),
    };
    sending.send(&numbered(1, 500)).expect("room in its queue");
    let not_looked = || {
        let channel = broker.channel(&granted);
        assert!(!channel.broken, "nobody knows yet: {}", channel.verdict);
        channel.verdict.starts_with("unknown: the sender has not looked for messages for ")
    };
    assert!(live::eventually(not_looked), "{:?}", broker.channel(&granted));
    clock::sleep(STILL);
    assert!(not_looked(), "it goes on: {:?}", broker.channel(&granted));
    drop(held);
    comes(&socket, 1);
    // Now the counters show it.
    let late = || broker.channel(&granted).verdict.starts_with("broken: 1 of 2 messages late");
    assert!(live::eventually(late), "{:?}", broker.channel(&granted));
}

/// While all of the broker stands still it cannot answer; afterwards it does not claim that all
/// promises were kept.
#[test]
fn a_broker_that_stood_still_says_what_was_late() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(CONFIG);
    let (socket, address) = listener();
    let mut connection = broker.connect();
    let want = to(address, 500, 1_000, Framing::Datagram);
    let (granted, mut sending) = open_sending(&mut connection, &want);
    if !is_kept(&broker, &mut sending, &socket) {
        return;
    }
    broker.stop();
    sending.send(&numbered(1, 500)).expect("room in its queue");
    clock::sleep(STILL);
    broker.signal(Signal::CONT);
    comes(&socket, 1);
    let late = || broker.channel(&granted).verdict.starts_with("broken: 1 of 2 messages late");
    assert!(live::eventually(late), "{:?}", broker.channel(&granted));
}

/// The time without a broker counts against its successor, whose verdict begins anew.
#[test]
fn a_broker_that_died_shows_in_the_verdict_of_the_next() {
    let Some(_alone) = alone() else { return };
    let mut broker = Broker::start(CONFIG);
    let (socket, address) = listener();
    let mut connection = broker.connect();
    let want = to(address, 500, 1_000, Framing::Datagram);
    let (mut granted, mut sending) = open_sending(&mut connection, &want);
    if !is_kept(&broker, &mut sending, &socket) {
        return;
    }
    // So that it dies with a message in the queue.
    broker.stop();
    sending.send(&numbered(1, 500)).expect("room in its queue");
    broker.kill();
    clock::sleep(STILL);
    broker.restart();
    let mut connection = broker.connect();
    connection.resume_channel(&mut granted).expect("the ledger has it");
    assert_eq!(broker.channel(&granted).verdict, "no queue is attached");
    connection.reattach_channel(&granted, &mut sending).expect("what is left goes on");
    comes(&socket, 1);
    let late = || broker.channel(&granted).verdict.starts_with("broken: 1 of 1 messages late");
    assert!(live::eventually(late), "{:?}", broker.channel(&granted));
    let by = broker.channel(&granted).counts.expect("attached").worst_delay_ns;
    assert!(by >= STILL.as_nanos(), "{by}");
}
