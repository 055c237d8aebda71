//! A server that is killed and restarted under load.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration as Time;

use punctual_channel::client::SendError;
use punctual_model::channel::Framing;
use system_tests::live;

use crate::host::{Broker, CONFIG, alone, listener, number_of, numbered, open_sending, to};

/// At most the message that was being handed over arrives twice, and none is missing: each stays in
/// the client's queue until it has been handed over.
#[test]
fn a_server_that_is_killed_under_load_is_followed_by_one_that_goes_on() {
    let Some(_alone) = alone() else { return };
    let mut broker = Broker::start(CONFIG);
    let mut connection = broker.connect();
    let (socket, address) = listener();
    let want = to(address, 200, 500, Framing::Datagram);
    let (mut granted, mut sending) = open_sending(&mut connection, &want);
    let done = AtomicBool::new(false);
    let heard = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let (done, heard) = (&done, &heard);
        let listening = scope.spawn(move || {
            socket.set_read_timeout(Some(Time::from_millis(50))).expect("a socket");
            let (mut next, mut twice, mut missing) = (0, 0, 0);
            let mut buffer = [0; 2_000];
            loop {
                match socket.recv(&mut buffer) {
                    Ok(bytes) => {
                        let number = number_of(&buffer[..bytes]);
                        if number < next {
                            twice += 1;
                            continue;
                        }
                        missing += number - next;
                        next = number + 1;
                        heard.store(next, Ordering::Relaxed);
                    }
                    Err(_) if done.load(Ordering::Relaxed) => return (next, twice, missing),
                    Err(_) => {}
                }
            }
        });
        let mut number = 0;
        for _ in 0..5 {
            for _ in 0..200 {
                sending.send(&numbered(number, 200)).expect("a server");
                number += 1;
            }
            broker.kill();
            // Fills the queue until the client learns that the server is gone.
            while let Ok(()) = sending.try_send(&numbered(number, 200)) {
                number += 1;
            }
            broker.restart();
            connection = broker.connect();
            connection.resume_channel(&mut granted).expect("the ledger has it");
            connection.reattach_channel(&granted, &mut sending).expect("what is left goes on");
        }
        assert!(live::eventually(|| heard.load(Ordering::Relaxed) == number), "{number}");
        done.store(true, Ordering::Relaxed);
        let (next, twice, missing) = listening.join().expect("no panic");
        assert_eq!((next, missing), (number, 0));
        assert!(twice <= 5, "{twice} came twice");
    });
    let gone = sending.try_send(&[0; 300]).expect_err("too long");
    assert!(matches!(gone, SendError::TooLong { .. }), "{gone}");
}

#[test]
fn a_client_that_does_not_come_back_loses_its_channel() {
    let Some(_alone) = alone() else { return };
    let mut broker = Broker::start(&CONFIG.replace("grace = \"3s\"", "grace = \"200ms\""));
    let mut connection = broker.connect();
    let want = to(listener().1, 200, 500, Framing::Datagram);
    let (mut granted, _sending) = open_sending(&mut connection, &want);
    broker.kill();
    broker.restart();
    // The process that checks is the client's own, so the server appears there for a moment each
    // time.
    let gone = || {
        std::thread::sleep(Time::from_secs(1));
        broker.channels().channels.is_empty()
    };
    assert!(live::eventually(gone));
    let mut connection = broker.connect();
    connection.resume_channel(&mut granted).expect_err("it is gone");
}
