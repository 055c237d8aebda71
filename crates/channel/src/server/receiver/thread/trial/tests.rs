use punctual_linux::net::Setup;

use super::*;

/// Creates a trial on the loopback with packets of `packet_bytes` bytes.
fn trial(framing: Framing, packet_bytes: u16) -> Trial {
    let far = UdpSocket::open(&Setup::at("127.0.0.1:0".parse().expect("an address")));
    let far = far.expect("a socket");
    let here = far.local_address().expect("bound");
    let near = UdpSocket::open(&Setup::to(here)).expect("a socket");
    let packet_bytes = NonZeroU16::new(packet_bytes).expect("not zero");
    Trial::new(near, far, framing, packet_bytes, 8).expect("memory")
}

#[test]
fn sent_messages_are_in_the_ring_after_the_measured_time() {
    for (framing, packet_bytes) in [
        (Framing::Datagram, 1),
        (Framing::Datagram, 1_420),
        (Framing::Fragments, 64),
        (Framing::Fragments, 1_420),
    ] {
        let mut trial = trial(framing, packet_bytes);
        let before = trial.seen();
        assert_eq!(before.received, trial.sent, "what warmed it up");
        for packets in [1, 8, 3, 8] {
            // The loopback's packets may be under way on a busy host.
            let took = trial.packets(packets).expect("it takes all");
            assert!(took.is_none_or(|took| !took.is_zero()));
        }
        let account = trial.seen();
        let messages = if framing == Framing::Datagram { 20 } else { 4 };
        assert_eq!(account.received, before.received + messages);
        let bytes = account.received_bytes - before.received_bytes;
        assert_eq!(bytes, 20 * u64::from(packet_bytes), "{framing:?}");
        assert_eq!(account.losses.total(), 0);
    }
}

#[test]
fn a_client_that_waits_is_rung_for_and_has_taken_all() {
    let mut trial = trial(Framing::Datagram, 100);
    trial.send(3).expect("the loopback takes it");
    let until = clock::now().saturating_add(PATIENCE);
    trial.turn_until_received(3, until).expect("they come");
    let heard = trial.bell.wait(clock::now().saturating_add(PATIENCE)).expect("a bell");
    assert_eq!(heard, punctual_linux::pass::WaitOutcome::Rung);
    assert!(trial.takes.take().expect("sound").is_some(), "they are in the ring");
    trial.take_all().expect("sound");
    assert!(trial.takes.take().expect("sound").is_none(), "all were taken");
}

#[test]
fn missing_packets_are_reported() {
    let mut trial = trial(Framing::Datagram, 100);
    // The packets go to a socket that is not the channel's.
    trial.patience = Duration::from_millis(100);
    let other = UdpSocket::open(&Setup::at("127.0.0.1:0".parse().expect("an address")));
    let other = other.expect("a socket");
    let there = other.local_address().expect("bound");
    trial.near = UdpSocket::open(&Setup::to(there)).expect("a socket");
    let why = trial.packets(2).expect_err("elsewhere").to_string();
    assert!(why.starts_with("2 packets of 100 bytes were sent, and not all"), "{why}");
}
