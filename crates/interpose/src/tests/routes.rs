use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd as _};

use super::*;
use crate::address::{is_worth_a_channel, parse, plain};
use crate::fds::{Fds, Known};
use crate::route::{Datagram, inode, is_for_channel, patience};

/// Makes a socket on this host, so that nothing leaves it.
fn socket() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = socket.local_addr().expect("an address");
    (socket, address)
}

fn to(to: SocketAddr) -> Datagram {
    Datagram { to: Ok(Some(to)), bytes: 10, flags: 0, control: false }
}

fn to_peer() -> Datagram {
    Datagram { to: Ok(None), bytes: 10, flags: 0, control: false }
}

#[test]
fn only_datagrams_that_a_channel_can_carry_as_they_are_go_into_it() {
    let ((sender, _), (_receiver, there), (_other, elsewhere)) = (socket(), socket(), socket());
    let (process, _) = process(Some(there), false);
    let fds = Fds::<1_024>::new();
    let fd = sender.as_fd();
    let goes = |datagram| is_for_channel(&process, &fds, fd, datagram);
    assert!(!goes(to(there)), "not made by socket(2), as far as is known");
    fds.made(fd.as_raw_fd(), inode(fd).expect("a socket"));
    assert!(goes(to(there)));
    assert!(!goes(to(elsewhere)));
    assert!(!goes(Datagram { to: Err(()), ..to(there) }));
    assert!(!goes(Datagram { control: true, ..to(there) }));
    assert!(!goes(Datagram { bytes: 101, ..to(there) }));
    assert!(!goes(Datagram { bytes: 0, ..to(there) }));
    assert!(goes(Datagram { flags: libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL, ..to(there) }));
    assert!(!goes(Datagram { flags: libc::MSG_MORE, ..to(there) }));
}

#[test]
fn the_peer_of_a_connected_socket_is_looked_up_once() {
    let ((sender, _), (_receiver, there), (_other, elsewhere)) = (socket(), socket(), socket());
    let (process, _) = process(Some(there), false);
    let fds = Fds::<1_024>::new();
    let (fd, number) = (sender.as_fd(), sender.as_raw_fd());
    fds.made(number, inode(fd).expect("a socket"));
    let goes = |datagram| is_for_channel(&process, &fds, fd, datagram);
    assert!(!goes(to_peer()), "not connected: the kernel is to say so");
    assert_eq!(fds.known(number, process.number()), Known::Socket);
    for (peer, leads, known) in
        [(there, true, Known::ToDestination), (elsewhere, false, Known::Elsewhere)]
    {
        sender.connect(peer).expect("connects");
        fds.reconnected(number);
        assert_eq!((goes(to_peer()), goes(to_peer())), (leads, leads));
        assert_eq!(fds.known(number, process.number()), known);
        // An address in the call takes precedence over the peer's.
        assert!(goes(to(there)));
    }
}

#[test]
fn another_descriptor_with_the_number_of_a_socket_is_left_alone() {
    let ((sender, _), (other, there)) = (socket(), socket());
    let (process, _) = process(Some(there), false);
    let fds = Fds::<1_024>::new();
    let number = sender.as_raw_fd();
    // As if it had been closed and made again unnoticed.
    fds.made(number, inode(other.as_fd()).expect("a socket"));
    assert!(!is_for_channel(&process, &fds, sender.as_fd(), to(there)));
    assert_eq!(fds.known(number, process.number()), Known::Nothing);
    let file = std::fs::File::open("/dev/null").expect("a file");
    assert_eq!(inode(file.as_fd()), None);
}

#[test]
fn a_socket_waits_by_its_options_and_flags() {
    let (sender, _) = socket();
    let fd = sender.as_fd();
    assert_eq!(patience(fd, 0), Some(punctual_model::Instant::MAX));
    assert_eq!(patience(fd, libc::MSG_DONTWAIT), None);
    sender.set_write_timeout(Some(std::time::Duration::from_secs(9))).expect("an option");
    let now = punctual_linux::clock::now();
    let until = patience(fd, 0).expect("waits");
    let least = now + punctual_model::Duration::from_millis(8_990);
    assert!(until > least && until < now + punctual_model::Duration::from_millis(60_000));
    sender.set_nonblocking(true).expect("a flag");
    assert_eq!(patience(fd, 0), None);
}

fn v4(port: u16, ip: [u8; 4]) -> Vec<u8> {
    let mut bytes = (libc::AF_INET as u16).to_ne_bytes().to_vec();
    bytes.extend(port.to_be_bytes());
    bytes.extend(ip);
    bytes.resize(16, 0);
    bytes
}

fn v6(port: u16, ip: &str, scope: u32) -> Vec<u8> {
    let mut bytes = (libc::AF_INET6 as u16).to_ne_bytes().to_vec();
    bytes.extend(port.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(ip.parse::<std::net::Ipv6Addr>().expect("an address").octets());
    bytes.extend(scope.to_ne_bytes());
    bytes
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

#[test]
fn addresses_are_read_as_the_kernel_reads_them() {
    assert_eq!(parse(&v4(4_000, [192, 0, 2, 7])), Some(address("192.0.2.7:4000")));
    assert_eq!(parse(&v6(4_000, "2001:db8::7", 0)), Some(address("[2001:db8::7]:4000")));
    assert_eq!(parse(&v6(9, "2001:db8::7", 0)[..24]), Some(address("[2001:db8::7]:9")));
    // The same address as an IPv6 socket writes it.
    assert_eq!(parse(&v6(1, "::ffff:192.0.2.7", 0)), Some(address("192.0.2.7:1")));
    assert_eq!(plain(address("[::ffff:192.0.2.7]:1")), address("192.0.2.7:1"));
}

#[test]
fn an_address_beyond_any_channel_is_refused() {
    assert_eq!(parse(&v6(1, "fe80::1", 2)), None, "a scope");
    assert_eq!(parse(&(libc::AF_UNIX as u16).to_ne_bytes().repeat(8)), None);
    for length in 0..16 {
        assert_eq!(parse(&v4(1, [127, 0, 0, 1])[..length]), None, "{length} bytes");
    }
    for length in 0..24 {
        assert_eq!(parse(&v6(1, "::1", 0)[..length]), None, "{length} bytes");
    }
}

#[test]
fn the_names_of_hosts_and_groups_of_hosts_are_not_worth_a_channel() {
    for (text, worth) in [
        ("192.0.2.7:4000", true),
        ("127.0.0.1:4000", true),
        ("[2001:db8::7]:1", true),
        ("192.0.2.7:53", false),
        ("192.0.2.7:0", false),
        ("224.0.0.1:4000", false),
        ("255.255.255.255:4000", false),
        ("0.0.0.0:4000", false),
        ("[ff02::1]:4000", false),
        ("[::]:4000", false),
    ] {
        assert_eq!(is_worth_a_channel(address(text)), worth, "{text}");
    }
}
