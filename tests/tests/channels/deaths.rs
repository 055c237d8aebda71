//! Clients that die, and channels that are opened and closed.

use std::io::{BufRead as _, BufReader};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::process::{Command, Stdio};

use punctual_channel::client::{Attach as _, Sending};
use punctual_client::{Broker as Connection, ChannelError};
use punctual_model::channel::Framing;
use rustix::process::Pid;
use system_tests::live;

use crate::host::{
    Broker, CONFIG, alone, another, listener, number_of, numbered, open_sending, to,
};

/// Publishes ten messages in a client process, reports that, and waits to be killed. With `heir`, a
/// child that has all its descriptors, as after fork(2), outlives it.
pub(crate) fn publish_and_wait(rest: &str) {
    let mut words = rest.split(' ');
    let (socket, address) = words.next().zip(words.next()).expect("a path and an address");
    let mut connection = Connection::connect_to(socket.as_ref()).expect("a broker");
    let want = to(address.parse().expect("an address"), 500, 20_000, Framing::Datagram);
    let (_granted, mut sending) = open_sending(&mut connection, &want);
    for number in 0..10 {
        sending.send(&numbered(number, 500)).expect("room");
    }
    let heir = words.next().map(|_| {
        let keep = |fd: BorrowedFd<'_>| {
            rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty()).expect("a flag");
        };
        keep(sending.as_fd());
        keep(connection.as_fd());
        let mut heir = Command::new("sleep");
        heir.arg("30").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        heir.spawn().expect("sleep(1)").id()
    });
    println!("> published {}", heir.unwrap_or(0));
    loop {
        std::thread::park();
    }
}

#[test]
fn messages_that_a_killed_client_had_published_are_sent() {
    let Some(_alone) = alone() else { return };
    is_killed("");
}

/// The client's child holds its ends of the bells and the connection, but the channel does not
/// belong to the child.
#[test]
fn a_killed_client_with_a_living_child_loses_no_published_message() {
    let Some(_alone) = alone() else { return };
    is_killed(" heir");
}

/// A process that is killed when this value is dropped.
struct Heir(Option<Pid>);

impl Drop for Heir {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

fn is_killed(how: &str) {
    let broker = Broker::start(CONFIG);
    let (socket, address) = listener();
    let role = format!("client {} {address}{how}", broker.socket().display());
    let mut client = another(role).stdout(Stdio::piped()).spawn().expect("this program");
    let mut output = BufReader::new(client.stdout.take().expect("piped"));
    let mut line = String::new();
    while !line.contains("> published") {
        line.clear();
        assert!(output.read_line(&mut line).expect("it lives") > 0, "the client has ended");
    }
    let heir = line.trim().rsplit(' ').next().and_then(|pid| Pid::from_raw(pid.parse().ok()?));
    assert_eq!(heir.is_some(), !how.is_empty(), "{line}");
    let _heir = Heir(heir);
    client.kill().expect("our child");
    client.wait().expect("our child");
    let mut buffer = [0; 2_000];
    for number in 0..10 {
        let bytes = socket.recv(&mut buffer).expect("sent");
        assert_eq!(number_of(&buffer[..bytes]), number);
    }
    assert!(live::eventually(|| broker.channels().channels.is_empty()), "{:?}", broker.channels());
    // The bandwidth is free for others when the last message has had its time.
    let promised = || broker.channels().totals.expect("channels").promised_bps;
    assert!(live::eventually(|| promised() == 0), "{}", promised());
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
            // The queued messages were sent before the channel was closed, or lost with it.
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

/// The bandwidth of a channel stays reserved until its last message has had its time. Otherwise a
/// client that closes and opens again would send more than was admitted.
#[test]
fn closing_and_opening_again_is_no_way_to_send_more() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(&CONFIG.replace("max_grants = 2000", "max_grants = 1"));
    let mut connection = broker.connect();
    let (socket, address) = listener();
    // One message in two minutes.
    let want = to(address, 500, 120_000_000, Framing::Datagram);
    for _ in 0..3 {
        // Nothing was sent, so its share is free as soon as it is closed.
        let mut opened = None;
        assert!(live::eventually(|| {
            opened = connection.open_channel(&want).ok();
            opened.is_some()
        }));
        let granted = opened.expect("just now");
        let _sending: Sending = connection.attach_channel(&granted).expect("as granted");
        let mut again = granted.clone();
        connection.release_channel(granted).expect("ours");
        connection.resume_channel(&mut again).expect_err("it ends");
    }
    let mut opened = None;
    assert!(live::eventually(|| {
        opened = connection.open_channel(&want).ok();
        opened.is_some()
    }));
    let granted = opened.expect("just now");
    let mut sending: Sending = connection.attach_channel(&granted).expect("as granted");
    sending.send(&numbered(1, 500)).expect("room");
    socket.recv(&mut [0; 2_000]).expect("sent");
    connection.release_channel(granted).expect("ours");
    assert!(live::eventually(|| broker.channels().channels.is_empty()));
    let refused = connection.open_channel(&want).expect_err("two minutes are not over");
    assert!(matches!(&refused, ChannelError::Refused(why) if why.test == "quota"), "{refused}");
}

/// Queues that are made and never attached, or made anew, leave nothing behind.
#[test]
fn queues_that_are_never_attached_leave_nothing() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(CONFIG);
    let mut connection = broker.connect();
    let want = to(listener().1, 500, 1_000, Framing::Datagram);
    let mut before = (0, 0);
    for round in 0..60 {
        let granted = connection.open_channel(&want).expect("room");
        for first in (0..3).rev() {
            let queue = connection.make_queue(&granted, first).expect("made");
            if first == 0 {
                let sending = Sending::map(queue, want.geometry()).expect("as made");
                // Closed without waiting for the answer, or not closed at all.
                if round % 2 == 0 {
                    let _ = connection.say_mapped(&granted);
                }
                drop(sending);
            }
        }
        connection.release_channel(granted).expect("ours");
        if round == 19 {
            assert!(live::eventually(|| broker.channels().channels.is_empty()));
            before = (broker.descriptors(), broker.mappings());
        }
    }
    let settled = || (broker.descriptors(), broker.mappings());
    let is_as_before = || {
        let (descriptors, mappings) = settled();
        descriptors <= before.0 && mappings <= before.1 + 4
    };
    assert!(live::eventually(is_as_before), "{before:?}, then {:?}", settled());
}
