//! Two modems joined by one process.

use std::fs;

use punctual_linux::process::Signal;

use super::client::{Client, bytes, call};
use super::started::{Modem, eventually};

pub(crate) fn pair() -> (Modem, Client, Client) {
    pair_with(&[])
}

pub(crate) fn pair_with(more: &[&str]) -> (Modem, Client, Client) {
    let modem = Modem::start(&[&["--pair", "a", "b"], more].concat());
    let (a, b) = (modem.client("a"), modem.client("b"));
    (modem, a, b)
}

fn no_links_are_left(modem: &Modem) {
    for name in ["a", "b"] {
        assert!(fs::symlink_metadata(modem.path(name)).is_err(), "{name} is left");
    }
}

pub(crate) fn a_call_carries_bytes_both_ways_and_ends_for_both() {
    let (mut modem, mut a, mut b) = pair();
    call(&mut a, &mut b);
    let sent = [bytes(1, 600), bytes(2, 400)];
    a.types(&sent[0]);
    b.types(&sent[1]);
    assert!(b.bytes(sent[0].len()) == sent[0], "what A sent is not what B has");
    assert!(a.bytes(sent[1].len()) == sent[1], "what B sent is not what A has");
    a.escape();
    a.command("ATH");
    // The far end gets the escape sequence as well: it was data until the guard time had passed.
    assert_eq!(b.until("NO CARRIER\r\n"), "+++\r\nNO CARRIER\r\n");
    b.command("AT");
    assert_eq!(modem.end(Signal::TERM).code(), Some(0), "{}", modem.said());
    no_links_are_left(&modem);
}

pub(crate) fn a_client_that_goes_ends_the_call_and_the_next_can_dial() {
    let (mut modem, mut a, mut b) = pair();
    call(&mut a, &mut b);
    drop(a);
    b.until("NO CARRIER\r\n");
    let mut a = modem.client("a");
    a.types("ATDT1\r");
    b.until("RING\r\n");
    // While it rings, and with both ttys open.
    assert_eq!(modem.end(Signal::INT).code(), Some(0), "{}", modem.said());
    no_links_are_left(&modem);
}

/// A killed process cannot remove its links. Its clients see a hang-up, and the next process
/// replaces the links.
pub(crate) fn a_process_that_is_killed_in_a_call_leaves_nothing_that_is_in_the_way() {
    let (mut killed, mut a, mut b) = pair();
    call(&mut a, &mut b);
    assert_eq!(killed.end(Signal::KILL).code(), None);
    for client in [&mut a, &mut b] {
        client.until_hung_up();
    }
    let names = ["a", "b"].map(|name| killed.path(name));
    let arguments =
        ["--pair", names[0].to_str().expect("ASCII"), names[1].to_str().expect("ASCII")];
    let mut modem = Modem::start(&arguments);
    eventually("its links", || modem.said().contains("b is a modem").then_some(()));
    let mut a = killed.client("a");
    a.command("AT");
    assert_eq!(modem.end(Signal::TERM).code(), Some(0), "{}", modem.said());
    no_links_are_left(&killed);
}
