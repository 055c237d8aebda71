//! Programs that fork, and programs that outlive their broker.

use std::env;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};

use punctual_linux::clock;
use punctual_linux::process::die_with_parent;
use punctual_model::Duration;

use crate::broker::Broker;
use crate::{TO, receiver, said, with_channel};

/// A program that sends before a fork(2), in the child, and after it.
const FORKS: &str = r#"
    use Socket;
    my ($host, $port) = split /:/, $ENV{PUNCTUAL_TEST_TO};
    socket(my $socket, PF_INET, SOCK_DGRAM, 0) or die "socket: $!";
    connect($socket, sockaddr_in($port, inet_aton($host))) or die "connect: $!";
    my ($own) = sockaddr_in(getsockname($socket));
    print "own port $own.\n";
    send($socket, "parent before", 0) or die "send: $!";
    my $child = fork();
    if ($child == 0) {
        send($socket, "child", 0) or die "send: $!";
        exit 0;
    }
    waitpid($child, 0);
    die "the child ended with $?" if $?;
    send($socket, "parent after", 0) or die "send: $!";
"#;

#[test]
fn a_child_that_forks_has_a_channel_of_its_own_and_leaves_its_parents_alone() {
    let perl = || Command::new("perl");
    if !perl().args(["-MSocket", "-e", "1"]).output().is_ok_and(|ran| ran.status.success()) {
        println!("skipped: no perl with Socket, for a program that forks");
        return;
    }
    let Some(broker) = Broker::start() else { return };
    let receiver = receiver();
    let to = receiver.local_addr().expect("an address");
    let line = format!("500/s,delay=50ms,max=100,burst=2,dest={to}");
    let mut command = perl();
    command.args(["-e", FORKS]);
    let output = with_channel(&mut command, &receiver, &line, &broker.socket()).output();
    let output = output.expect("perl starts");
    let (text, lines) = said(&output);
    assert_eq!(lines, 0, "{text}");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let own = printed.split_once("own port ").expect("printed").1;
    let own: u16 = own.split_once('.').expect("printed").0.parse().expect("a port");
    let mut bytes = [0; 100];
    // The two channels' datagrams come in any order.
    let mut all: Vec<(String, u16)> = Vec::new();
    for _ in 0..3 {
        let (length, from) = receiver.recv_from(&mut bytes).expect("it was sent");
        all.push((String::from_utf8_lossy(&bytes[..length]).into_owned(), from.port()));
    }
    let port = |text: &str| all.iter().find(|(one, _)| one == text).expect("it came").1;
    let (before, child, after) = (port("parent before"), port("child"), port("parent after"));
    assert_eq!(before, after, "the parent goes on with its channel: {all:?}");
    assert!(child != before && ![before, child].contains(&own), "{all:?}, own {own}");
}

/// Sends its own port repeatedly until it is killed, when started by another test.
#[test]
fn sends_until_it_is_killed() {
    let Ok(to) = env::var(TO) else { return };
    let to: SocketAddr = to.parse().expect("an address");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(to).expect("connects");
    let own = socket.local_addr().expect("an address").port().to_string();
    loop {
        assert_eq!(socket.send(own.as_bytes()).expect("sent"), own.len());
        clock::sleep(Duration::from_millis(5));
    }
}

/// A program, killed on drop.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_program_goes_on_and_gets_its_channel_back_when_its_broker_is_replaced() {
    let Some(mut broker) = Broker::start() else { return };
    let receiver = receiver();
    let to = receiver.local_addr().expect("an address");
    let line = format!("500/s,delay=50ms,max=100,burst=2,dest={to}");
    let mut command = Command::new(env::current_exe().expect("the test has a path"));
    command.args(["--exact", "processes::sends_until_it_is_killed", "--nocapture"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    die_with_parent(&mut command);
    let started = with_channel(&mut command, &receiver, &line, &broker.socket()).spawn();
    let _program = Program(started.expect("this program starts"));
    // Returns whether the next datagram came by the program's own socket, and its source port.
    let next = || {
        let mut bytes = [0; 100];
        let (length, from) = receiver.recv_from(&mut bytes).expect("it goes on sending");
        let own: u16 = String::from_utf8_lossy(&bytes[..length]).parse().expect("a port");
        (from.port() == own, from.port())
    };
    let until = |wanted: &dyn Fn((bool, u16)) -> bool| {
        let patience = clock::now() + Duration::from_secs(30);
        loop {
            let came = next();
            if wanted(came) {
                return came.1;
            }
            assert!(clock::now() < patience, "half a minute of others");
        }
    };
    let first = until(&|(plain, _)| !plain);
    broker.kill();
    until(&|(plain, _)| plain);
    broker.start_again();
    let second = until(&|(plain, _)| !plain);
    assert_ne!(first, second, "another server's socket");
    // Not only the rest of the queue: twenty in a row are more than it holds.
    let mut in_a_row = 0;
    let patience = clock::now() + Duration::from_secs(30);
    while in_a_row < 20 {
        in_a_row = if next() == (false, second) { in_a_row + 1 } else { 0 };
        assert!(clock::now() < patience, "half a minute, and not twenty in a row");
    }
}
