//! Tests of programs with the library loaded before the C library. Each test starts this program
//! again.

mod broker;
mod processes;

use std::env;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use broker::Broker;

/// The variable with the destination of the datagrams, for the program that is started.
const TO: &str = "PUNCTUAL_TEST_TO";

/// Returns the library's path, beside the test itself: cargo builds it for the test.
fn library() -> PathBuf {
    let this = env::current_exe().expect("the test has a path");
    this.parent().expect("and a folder").join("libpunctual_udp.so")
}

/// The path of a broker that does not exist.
const NO_BROKER: &str = "/nonexistent/broker.sock";

/// Runs this program, as `part`, with a channel requested at a broker.
fn start(part: &str, to: &UdpSocket, channel: &str, broker: &Path) -> Output {
    let mut command = Command::new(env::current_exe().expect("the test has a path"));
    command.args(["--exact", part, "--nocapture"]);
    with_channel(&mut command, to, channel, broker).output().expect("this program starts")
}

/// Sets the environment that `punctual run --channel` sets.
fn with_channel<'a>(
    command: &'a mut Command,
    to: &UdpSocket,
    channel: &str,
    broker: &Path,
) -> &'a mut Command {
    command
        .env("LD_PRELOAD", library())
        .env("PUNCTUAL_CHANNEL", channel)
        .env("PUNCTUAL_BROKER", broker)
        .env(TO, to.local_addr().expect("an address").to_string())
}

fn receiver() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).expect("an option");
    socket
}

fn next(socket: &UdpSocket) -> Vec<u8> {
    let mut bytes = [0; 2_000];
    let length = socket.recv(&mut bytes).expect("it was sent");
    bytes[..length].to_vec()
}

fn said(output: &Output) -> (String, usize) {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}\n{text}", output.status);
    let lines = text.lines().filter(|line| line.starts_with("punctual: ")).count();
    (text, lines)
}

/// Sends in three ways, and writes to a file, when started by another test.
#[test]
fn sends() {
    use std::io::{IoSlice, Read as _, Seek as _, Write as _};
    let Ok(to) = env::var(TO) else { return };
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    assert_eq!(socket.send_to(b"by sendto", &to).expect("sent"), 9);
    assert_eq!(socket.send_to(b"", &to).expect("sent"), 0);
    socket.connect(&to).expect("connects");
    assert_eq!(socket.send(b"by send").expect("sent"), 7);
    let copy = socket.try_clone().expect("a copy");
    drop(socket);
    // The socket's number belongs to a file now: the bytes go to the file.
    let mut file = tempfile::tempfile().expect("a file");
    let parts = [IoSlice::new(b"in a "), IoSlice::new(b"file")];
    assert_eq!(file.write_vectored(&parts).expect("written"), 9);
    file.rewind().expect("a file");
    let mut text = String::new();
    file.read_to_string(&mut text).expect("read");
    assert_eq!(text, "in a file");
    assert_eq!(copy.send(b"by a copy").expect("sent"), 9);
}

#[test]
fn without_a_broker_all_bypasses_the_channel_with_one_report() {
    let receiver = receiver();
    let output = start("sends", &receiver, "100/s,delay=5ms", NO_BROKER.as_ref());
    let (text, lines) = said(&output);
    assert_eq!(lines, 1, "{text}");
    assert!(text.contains("without a promise") && text.contains("no broker answers"), "{text}");
    for expected in [&b"by sendto"[..], b"", b"by send", b"by a copy"] {
        assert_eq!(next(&receiver), expected);
    }
}

#[test]
fn an_invalid_line_is_reported_and_nothing_else_happens() {
    let receiver = receiver();
    let output = start("sends", &receiver, "fast,delay=5ms", NO_BROKER.as_ref());
    let (text, lines) = said(&output);
    assert_eq!(lines, 1, "{text}");
    assert!(text.contains("PUNCTUAL_CHANNEL=\"fast,delay=5ms\""), "{text}");
    assert_eq!(next(&receiver), b"by sendto");
}

/// Sends in every way, in a child, too, and without waiting, when started by another test.
#[test]
fn sends_in_every_way() {
    use std::fs::File;
    use std::io::{IoSlice, Write as _};
    use std::os::fd::OwnedFd;
    let Ok(to) = env::var(TO) else { return };
    let to: SocketAddr = to.parse().expect("an address");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    println!("own port {}.", socket.local_addr().expect("an address").port());
    assert_eq!(socket.send_to(b"00 sendto", to).expect("sent"), 9);
    socket.connect(to).expect("connects");
    assert_eq!(socket.send(b"01 send").expect("sent"), 7);
    // The library does not see a duplicate made by fcntl(2): its datagram bypasses the channel.
    let copy = socket.try_clone().expect("a copy");
    assert_eq!(copy.send(b"-- copy").expect("sent"), 7);
    // The same descriptor as a file: write(2) and writev(2).
    let mut file = File::from(OwnedFd::from(socket));
    assert_eq!(file.write(b"02 write").expect("sent"), 8);
    let parts = [IoSlice::new(b"03 "), IoSlice::new(b"writev")];
    assert_eq!(file.write_vectored(&parts).expect("sent"), 9);
    let socket = UdpSocket::from(OwnedFd::from(file));
    // More than the contract allows: they wait for their turn, in the ring and before it.
    for n in 4..40 {
        assert_eq!(socket.send(format!("{n:02} burst").as_bytes()).expect("sent"), 8);
    }
    socket.set_nonblocking(true).expect("a flag");
    let refused = (0..1_000).find_map(|_| socket.send(b"40 flood").err());
    let refused = refused.expect("a ring of a few messages, and one sent each 2 ms");
    assert_eq!(refused.kind(), std::io::ErrorKind::WouldBlock);
    socket.set_nonblocking(false).expect("a flag");
    assert_eq!(socket.send(b"41 last").expect("sent"), 7);
}

#[test]
fn with_a_broker_the_datagrams_to_one_destination_go_through_its_channel() {
    let Some(broker) = Broker::start() else { return };
    let receiver = receiver();
    let to = receiver.local_addr().expect("an address");
    let line = format!("500/s,delay=50ms,max=100,burst=2,dest={to}");
    let output = start("sends_in_every_way", &receiver, &line, &broker.socket());
    let (text, lines) = said(&output);
    assert_eq!(lines, 0, "{text}");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let own = printed.split_once("own port ").expect("printed").1;
    let own: u16 = own.split_once('.').expect("printed").0.parse().expect("a port");
    let (mut through, mut plain) = (Vec::new(), Vec::new());
    let mut bytes = [0; 2_000];
    while through.last().is_none_or(|last| last != "41 last") {
        let (length, from) = receiver.recv_from(&mut bytes).expect("it was sent");
        let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
        if from.port() == own { plain.push(text) } else { through.push(text) }
    }
    assert_eq!(plain, ["-- copy"]);
    assert!(through.is_sorted(), "{through:?}");
    // The ring had room for some datagrams of the flood, or for none.
    through.retain(|text| text != "40 flood");
    let words: Vec<&str> = through.iter().map(|text| &text[3..]).collect();
    assert_eq!(words[..5], ["sendto", "send", "write", "writev", "burst"]);
    assert_eq!(through.len(), 4 + 36 + 1, "{through:?}");
}

#[test]
fn a_refusal_is_reported_and_all_bypasses_the_channel() {
    let Some(broker) = Broker::start() else { return };
    let receiver = receiver();
    // On a link of 100 Mbit/s.
    let output = start("sends", &receiver, "900mbit/s,delay=5ms", &broker.socket());
    let (text, lines) = said(&output);
    assert_eq!(lines, 1, "{text}");
    assert!(text.contains("refused by the"), "{text}");
    assert_eq!(next(&receiver), b"by sendto");
}
