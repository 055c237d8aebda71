use std::net::SocketAddr;

use crate::address::{is_worth_a_channel, parse, plain};

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
