//! Programs of a contract whose datagrams go through channels.

use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use tempfile::TempDir;

use super::broker::Serving;
use super::live::{PUNCTUAL, alone, run, text};

const CONFIG: &str = r#"
    [channels]
    link = "100mbit/s"
    [default]
    share = "60%"
    link = "90%"
    allow = ["channels"]
"#;

/// Sends its own port number to port PORT.
const SENDS: &str = r#"
    use Socket;
    socket(my $socket, PF_INET, SOCK_DGRAM, 0) or die "socket: $!";
    connect($socket, sockaddr_in(PORT, inet_aton("127.0.0.1"))) or die "connect: $!";
    my ($own) = sockaddr_in(getsockname($socket));
    send($socket, $own, 0) or die "send: $!";
"#;

const SENDING: &str = r#"
    [sending]
    bandwidth = "1gbit/s"
    packet = "1420B"
    [sending.costs]
    switch = "1us"
    cache = "1us"
    first_packet = "1us"
    packet = "1us"
    link_scheduling = "1us"
"#;

/// Returns a contract whose programs each have a channel to one of these ports, with messages of
/// 1,000 bytes at `rate`.
fn contract(ports: &[u16], rate: &str) -> String {
    let mut text = String::from(SENDING);
    for (at, port) in ports.iter().enumerate() {
        let program = SENDS.replace("PORT", &port.to_string());
        text += &format!(
            "[[channel]]\nname = \"voice {at}\"\nmax_message = \"1000B\"\nmax_rate = \"{rate}\"\n\
             delay_bound = \"50ms\"\ndestination = \"127.0.0.1:{port}\"\n\
             [[command]]\nname = \"program {at}\"\nchannel = \"voice {at}\"\n\
             run = [\"perl\", \"-e\", '''{program}''']\n"
        );
    }
    text
}

fn of(contract: &str, options: &[&str]) -> Option<Output> {
    let folder = TempDir::new().expect("can be made");
    let file = folder.path().join("contract.toml");
    fs::write(&file, contract).expect("writes");
    run(&[options, &[file.to_str()?]].concat())
}

/// Returns whether this host has what these tests need, and prints what is missing.
fn can_be() -> bool {
    let beside = Path::new(PUNCTUAL).with_file_name("libpunctual_udp.so");
    if !beside.is_file() {
        println!("skipped: no {}: cargo build --package punctual-interpose", beside.display());
        return false;
    }
    let perl = Command::new("perl").args(["-MSocket", "-e", "1"]).output();
    let there = perl.is_ok_and(|ran| ran.status.success());
    if !there {
        println!("skipped: no perl with Socket, for a program that sends");
    }
    there
}

fn receiver() -> (UdpSocket, u16) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
    let port = socket.local_addr().expect("an address").port();
    (socket, port)
}

#[test]
fn each_program_sends_through_its_own_channel() {
    let _alone = alone();
    let Some(broker) = can_be().then(|| Serving::start_with(CONFIG)).flatten() else { return };
    let socket = broker.socket().display().to_string();
    let receivers = [receiver(), receiver()];
    let ports = [receivers[0].1, receivers[1].1];
    let options = ["--broker", &*socket];
    let Some(output) = of(&contract(&ports, "100/s"), &options) else { return };
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    for (at, (receiver, port)) in receivers.iter().enumerate() {
        let mut bytes = [0; 100];
        let (length, from) = receiver.recv_from(&mut bytes).expect("it was sent");
        let own: u16 = text(&bytes[..length]).parse().expect("a port");
        assert_ne!(from.port(), own, "program {at} sent plainly: {said}");
        let line = format!("punctual: program {at}: datagrams to 127.0.0.1:{port} go through");
        assert!(said.contains(&line), "{said}");
    }
    assert!(!said.contains("only admitted"), "{said}");
}

#[test]
fn channels_that_do_not_fit_together_start_nothing() {
    let _alone = alone();
    let config = CONFIG.replace("100mbit/s", "10mbit/s");
    let Some(broker) = can_be().then(|| Serving::start_with(&config)).flatten() else { return };
    let socket = broker.socket().display().to_string();
    let (first, second) = (receiver(), receiver());
    // Each takes 5.6 Mbit/s with headers, of the 9 Mbit/s that a user may have.
    let text_of = contract(&[first.1, second.1], "625/s");
    let Some(output) = of(&text_of, &["--broker", &socket]) else { return };
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("command \"program 1\": refused by the ")
            && said.contains(" test of the broker: "),
        "{said}"
    );
    first.0.set_nonblocking(true).expect("a flag");
    first.0.recv(&mut [0; 10]).expect_err("nothing was started");
    // One channel alone is granted, and the plan shows it.
    let options = ["--only", "program 0", "--dry-run", "--json", "--broker", &*socket];
    let Some(output) = of(&text_of, &options) else { return };
    let page: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let shown = page["commands"][0]["channel"].as_str().unwrap_or_default();
    assert!(shown.contains("delay=50ms") && shown.contains(&first.1.to_string()), "{page}");
}

#[test]
fn a_channel_without_a_broker_is_bad_usage() {
    let _alone = alone();
    let Some(output) = of(&contract(&[9], "100/s"), &["--no-broker"]) else { return };
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("command \"program 0\"") && said.contains("--no-broker"), "{said}");
}
