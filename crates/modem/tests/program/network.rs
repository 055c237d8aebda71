//! Two processes, each with one modem, over loopback.

use std::net::UdpSocket;

use punctual_linux::process::Signal;

use super::client::{Client, bytes};
use super::common::{run, text};
use super::started::{Modem, eventually};

/// FSK at 300 bit/s: a pause of the machine costs it some bits, but no call.
const SETTINGS: &str = "AT+MS=V21,0";

/// Starts a modem that can be called. Returns it with its client and its address.
fn called() -> (Modem, Client, String) {
    let modem = Modem::start(&["--tty", "tty", "--listen", "127.0.0.1:0", "--jitter-ms", "120"]);
    let mut client = modem.client("tty");
    client.command(SETTINGS);
    let address = eventually("where it can be called", || {
        let said = modem.said();
        Some(said.split_once("called at ")?.1.split_once('\n')?.0.to_owned())
    });
    (modem, client, address)
}

fn caller(address: &str) -> (Modem, Client) {
    let modem = Modem::start(&["--tty", "tty", "--call", address, "--jitter-ms", "120"]);
    let mut client = modem.client("tty");
    client.command(SETTINGS);
    (modem, client)
}

/// Returns the number of packets of that kind that a process printed when it ended.
fn packets(modem: &Modem, kind: &str) -> u64 {
    let said = modem.said();
    let accounts = said.split_once("packets: ").expect("its last line").1;
    let count = accounts.split([',', '\n']).find_map(|part| part.trim().strip_suffix(kind));
    count.expect(kind).trim().parse().expect("a number")
}

pub(crate) fn a_call_crosses_the_network_through_garbage() {
    let (mut listens, mut b, address) = called();
    let (mut calls, mut a) = caller(&address);
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let mut garbage = 0;
    let mut disturb = || {
        for datagram in [&b"no RTP"[..], &[0x80; 172], &[], &[0xff; 1_400]] {
            stranger.send_to(datagram, &address).expect("loopback");
            garbage += 1;
        }
    };
    disturb();
    a.types("ATDT1\r");
    b.until("RING\r\n");
    disturb();
    b.types("ATA\r");
    for client in [&mut a, &mut b] {
        client.until("CONNECT");
        client.until("\r\n");
    }
    disturb();
    let sent = [bytes(1, 120), bytes(2, 80)];
    a.types(&sent[0]);
    b.types(&sent[1]);
    assert!(b.bytes(sent[0].len()) == sent[0], "what A sent is not what B has");
    assert!(a.bytes(sent[1].len()) == sent[1], "what B sent is not what A has");
    a.escape();
    a.command("ATH");
    b.until("NO CARRIER\r\n");
    for modem in [&mut listens, &mut calls] {
        assert_eq!(modem.end(Signal::TERM).code(), Some(0), "{}", modem.said());
        assert!(packets(modem, "received") > 0, "{}", modem.said());
        assert!(std::fs::symlink_metadata(modem.path("tty")).is_err(), "the link is left");
    }
    assert!(packets(&listens, "dropped") >= garbage, "{garbage}: {}", listens.said());
}

pub(crate) fn a_far_end_that_vanishes_is_a_carrier_that_is_lost() {
    let (_listens, mut b, address) = called();
    let (mut calls, mut a) = caller(&address);
    b.command("ATS0=1");
    a.types("ATDT1\r");
    for client in [&mut a, &mut b] {
        client.until("CONNECT");
        client.until("\r\n");
    }
    calls.end(Signal::KILL);
    b.until("NO CARRIER\r\n");
    // The line is free for the next call.
    let (_again, mut a) = caller(&address);
    a.types("ATDT1\r");
    b.until("RING\r\n");
}

pub(crate) fn unusable_addresses_are_refused_with_a_reason() {
    for (arguments, reason) in [
        (&["--tty", "x"][..], "--listen"),
        (&["--tty", "x", "--call", "127.0.0.1"], "HOST:PORT"),
        (&["--tty", "x", "--listen", "127.0.0.1:0", "--call", "[::1]:9"], "IPv4"),
        (&["--tty", "x", "--listen", "127.0.0.1:0", "--gaps", "1"], "--gaps"),
        (&["--pair", "x", "y", "--call", "127.0.0.1:9"], "--call"),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(reason), "{arguments:?}: {}", text(&output.stderr));
    }
}
