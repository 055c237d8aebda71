//! Every message that is sent arrives, whole and in order, and is accounted for.

use punctual_channel::fragment::Header;
use punctual_client::ChannelError;
use punctual_client::want::WantedChannel;
use punctual_model::Duration;
use punctual_model::channel::Framing;
use system_tests::live;

use crate::host::{
    Broker, CONFIG, alone, arrivals, listener, number_of, numbered, open_receiving, open_sending,
    to,
};

#[test]
fn datagrams_reach_a_receiver_that_does_not_use_channels() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(CONFIG);
    let mut connection = broker.connect();
    let (socket, address) = listener();
    let want = to(address, 1_000, 500, Framing::Datagram);
    let (granted, mut sending) = open_sending(&mut connection, &want);
    assert_eq!(granted.delay_bound(), want.delay_bound);
    let mut buffer = [0; 2_000];
    for number in 0..400 {
        // No more messages in transit than a socket buffers.
        if number % 40 == 0 {
            for number in number..number + 40 {
                let message = numbered(number, 4 + number as usize % 900);
                sending.send(&message).expect("a server");
            }
        }
        let bytes = socket.recv(&mut buffer).expect("sent");
        assert_eq!((number_of(&buffer[..bytes]), bytes), (number, 4 + number as usize % 900));
    }
    let seen = || broker.channel(&granted).counts.expect("attached");
    assert!(live::eventually(|| seen().done == 400), "{:?}", seen());
    let counts = seen();
    assert_eq!((counts.offered, counts.taken, counts.lost), (400, 400, Vec::new()));
    connection.release_channel(granted).expect("ours");
    assert!(live::eventually(|| broker.channels().channels.is_empty()));
}

#[test]
fn long_messages_go_from_channel_to_channel_in_pieces() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(CONFIG);
    let mut connection = broker.connect();
    // A port that was free a moment ago.
    let address = listener().1;
    let outwards = to(address, 30_000, 2_000, Framing::Fragments);
    let inwards = WantedChannel {
        framing: Framing::Fragments,
        slots: 64,
        ..WantedChannel::receiving("in", outwards.arrivals, outwards.delay_bound, address)
    };
    let (received, mut receiving) = open_receiving(&mut connection, &inwards);
    let (sent, mut sending) = open_sending(&mut connection, &outwards);
    let mut buffer = vec![0; 30_000];
    for number in 0..100_u32 {
        let bytes = 4 + (number as usize * 7_919) % 29_000;
        sending.send(&numbered(number, bytes)).expect("a server");
        let got = receiving.receive(&mut buffer).expect("a server");
        assert_eq!((number_of(&buffer[..got.bytes]), got.bytes), (number, bytes));
    }
    let outcome = || {
        let (out, into) = (broker.channel(&sent).counts, broker.channel(&received).counts);
        (out.expect("attached").done, into.expect("attached").done)
    };
    assert!(live::eventually(|| outcome() == (100, 100)), "{:?}", outcome());
}

#[test]
fn the_first_fragment_says_what_it_is() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(CONFIG);
    let mut connection = broker.connect();
    let (socket, address) = listener();
    let want = WantedChannel { number: 7, ..to(address, 3_000, 2_000, Framing::Fragments) };
    let (_granted, mut sending) = open_sending(&mut connection, &want);
    sending.send(&[9; 3_000]).expect("a server");
    let mut buffer = [0; 2_000];
    let mut offset = 0;
    while offset < 3_000 {
        let bytes = socket.recv(&mut buffer).expect("sent");
        let (header, piece) = Header::read(&buffer[..bytes]).expect("one of ours");
        assert_eq!((header.channel, header.message, header.length), (7, 0, 3_000));
        assert_eq!(header.offset, offset);
        offset += piece.len() as u32;
    }
}

#[test]
fn a_channel_that_does_not_fit_is_refused_with_an_offer_that_is_granted() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(CONFIG);
    let mut connection = broker.connect();
    let address = listener().1;
    // Each a third of what link and processor can do one after the other.
    let want = to(address, 1_400, 65, Framing::Datagram);
    let mut granted = Vec::new();
    let refused = loop {
        match connection.open_channel(&want) {
            Ok(one) => granted.push(one),
            Err(ChannelError::Refused(refused)) => break refused,
            Err(other) => panic!("{other}"),
        }
    };
    assert!(!granted.is_empty() && !refused.offers.is_empty(), "{refused}");
    let smaller = connection.accept_channel_offer(&refused).expect("offered");
    assert_ne!(smaller.want().arrivals, want.arrivals);
    let totals = broker.channels().totals.expect("channels");
    assert_eq!((totals.channels as usize, totals.refused), (granted.len() + 1, 1));
    let impossible = WantedChannel { delay_bound: Some(Duration::from_micros(10)), ..want };
    let Err(ChannelError::Refused(refused)) = connection.open_channel(&impossible) else {
        panic!("no thread wakes up in ten microseconds");
    };
    assert_eq!(refused.test, "channel-delay");
}

#[test]
fn best_effort_gets_what_is_not_promised() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(CONFIG);
    let mut connection = broker.connect();
    let (socket, address) = listener();
    let plain = WantedChannel {
        delay_bound: None,
        ..WantedChannel::sending("plain", arrivals(1_000, 20, 1), None, address)
    };
    let (mut granted, mut sending) = open_sending(&mut connection, &plain);
    assert_eq!(granted.share(), Some(1_000_000_000));
    let promised = to(address, 1_400, 45, Framing::Datagram);
    let (_video, _kept_open) = open_sending(&mut connection, &promised);
    connection.resume_channel(&mut granted).expect("ours");
    assert!(granted.share().is_some_and(|bps| bps < 800_000_000), "{:?}", granted.share());
    for number in 0..50 {
        sending.send(&numbered(number, 1_000)).expect("a server");
        let mut buffer = [0; 2_000];
        let bytes = socket.recv(&mut buffer).expect("sent");
        assert_eq!(number_of(&buffer[..bytes]), number);
    }
}

#[test]
fn a_running_channel_gets_another_contract() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(CONFIG);
    let mut connection = broker.connect();
    let (socket, address) = listener();
    let want = to(address, 500, 1_000, Framing::Datagram);
    let (mut granted, mut sending) = open_sending(&mut connection, &want);
    let faster = WantedChannel { arrivals: arrivals(500, 100, 8), ..want.clone() };
    let mut buffer = [0; 2_000];
    for number in 0..100 {
        if number == 50 {
            connection.change_channel(&mut granted, &faster).expect("there is room");
        }
        sending.send(&numbered(number, 500)).expect("a server");
        let bytes = socket.recv(&mut buffer).expect("sent");
        assert_eq!(number_of(&buffer[..bytes]), number);
    }
    let too_fast = WantedChannel { arrivals: arrivals(500, 2, 8), ..want.clone() };
    assert!(connection.change_channel(&mut granted, &too_fast).is_err());
    let elsewhere = WantedChannel { address: "127.0.0.1:9".parse().expect("valid"), ..want };
    assert!(connection.change_channel(&mut granted, &elsewhere).is_err());
    assert_eq!(granted.want(), &faster);
}
