//! Clients that die, and channels that come and go.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use punctual_broker::client::Broker as Connection;
use punctual_model::channel::Framing;
use system_tests::live;

use crate::host::{
    Broker, CONFIG, alone, another, listener, number_of, numbered, open_sending, to,
};

/// A client of another process: publishes ten messages, says so, and waits to be killed.
pub(crate) fn publish_and_wait(rest: &str) {
    let (socket, address) = rest.split_once(' ').expect("a path and an address");
    let mut connection = Connection::connect_to(socket.as_ref()).expect("a broker");
    let want = to(address.parse().expect("an address"), 500, 20_000, Framing::Datagram);
    let (_granted, mut sending) = open_sending(&mut connection, &want);
    for number in 0..10 {
        sending.send(&numbered(number, 500)).expect("room");
    }
    println!("> published");
    loop {
        std::thread::park();
    }
}

#[test]
fn what_a_client_had_published_is_sent_although_it_was_killed() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(CONFIG);
    let (socket, address) = listener();
    let role = format!("client {} {address}", broker.socket().display());
    let mut client = another(role).stdout(Stdio::piped()).spawn().expect("this program");
    let mut output = BufReader::new(client.stdout.take().expect("piped"));
    let mut line = String::new();
    while !line.contains("> published") {
        line.clear();
        assert!(output.read_line(&mut line).expect("it lives") > 0, "the client has ended");
    }
    client.kill().expect("our child");
    client.wait().expect("our child");
    let mut buffer = [0; 2_000];
    for number in 0..10 {
        let bytes = socket.recv(&mut buffer).expect("sent");
        assert_eq!(number_of(&buffer[..bytes]), number);
    }
    assert!(live::eventually(|| broker.channels().channels.is_empty()), "{:?}", broker.channels());
    assert_eq!(broker.channels().totals.expect("channels").promised_bps, 0);
}

#[test]
fn a_thousand_channels_come_and_go_and_nothing_of_them_stays() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(CONFIG);
    let mut connection = broker.connect();
    let (socket, address) = listener();
    let mut buffer = [0; 2_000];
    let mut before = (0, 0);
    for cycle in 0..1_000 {
        let want = to(address, 500, 1_000, Framing::Datagram);
        let (granted, mut sending) = open_sending(&mut connection, &want);
        sending.send(&numbered(cycle, 500)).expect("room");
        if cycle % 3 > 0 {
            let bytes = socket.recv(&mut buffer).expect("sent");
            assert_eq!(number_of(&buffer[..bytes]), cycle);
        }
        connection.release_channel(granted).expect("ours");
        if cycle % 3 == 0 {
            // What was in its queue was sent before the channel was closed, or lost with it.
            assert!(live::eventually(|| broker.channels().channels.is_empty()));
            socket.set_nonblocking(true).expect("a socket");
            while socket.recv(&mut buffer).is_ok() {}
            socket.set_nonblocking(false).expect("a socket");
        }
        if cycle == 99 {
            assert!(live::eventually(|| broker.channels().channels.is_empty()));
            before = (broker.descriptors(), broker.mappings());
        }
    }
    let settled = || (broker.descriptors(), broker.mappings());
    let is_as_before = || {
        let (descriptors, mappings) = settled();
        // Heaps grow by a mapping now and then.
        descriptors <= before.0 && mappings <= before.1 + 4
    };
    assert!(live::eventually(is_as_before), "{before:?}, then {:?}", settled());
}
