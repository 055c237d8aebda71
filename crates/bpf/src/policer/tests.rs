//! These tests run the program on packets, if this user may load it.

use super::*;

/// The offsets of a packet's fields.
const ETHER_TYPE: usize = 12;
const PROTOCOL_V4: usize = 23;
const FRAGMENT_V4: usize = 20;
const NEXT_HEADER_V6: usize = 20;

fn policer(flows: u32) -> Option<Policer> {
    Policer::load(flows).map_err(|why| println!("skipped: {why}")).ok()
}

/// Lets one packet pass, and then none for a day.
fn once() -> Rate {
    Rate { spacing: Duration::from_secs(86_400), tolerance: Duration::ZERO }
}

fn at(flow: &str) -> SocketAddr {
    flow.parse().expect("an address")
}

#[test]
fn a_flow_is_an_address_and_a_port() {
    let Some(policer) = policer(8) else { return };
    for (flow, others) in [
        (
            "192.0.2.1:9",
            ["192.0.2.1:10", "192.0.2.2:9", "[::ffff:192.0.2.1]:10", "[2001:db8::1]:9"],
        ),
        ("[2001:db8::1]:9", ["[2001:db8::1]:10", "[2001:db8::2]:9", "192.0.2.1:9", "[::1]:9"]),
    ] {
        policer.set(at(flow), once()).expect("room");
        let packet = packet_to(at(flow), 0);
        assert_eq!(policer.passes(&packet), Ok(true));
        for _ in 0..3 {
            assert_eq!(policer.passes(&packet), Ok(false), "{flow}");
            for other in others {
                assert_eq!(policer.passes(&packet_to(at(other), 0)), Ok(true), "{other}");
            }
        }
        assert_eq!(policer.counts(at(flow)), Ok(Counts { passed: 1, discarded: 3 }));
        policer.remove(at(flow)).expect("there");
        assert_eq!(policer.passes(&packet), Ok(true));
        assert_eq!(policer.counts(at(flow)), Ok(Counts::default()));
    }
}

#[test]
fn a_flow_at_any_address_is_policed_only_in_its_family() {
    let Some(policer) = policer(8) else { return };
    for (flow, its, others) in [
        ("0.0.0.0:9", "192.0.2.1:9", "[2001:db8::1]:9"),
        ("[::]:9", "[2001:db8::1]:9", "192.0.2.1:9"),
    ] {
        policer.set(at(flow), once()).expect("room");
        assert_eq!(policer.passes(&packet_to(at(its), 0)), Ok(true));
        assert_eq!(policer.passes(&packet_to(at(its), 0)), Ok(false), "{flow}");
        assert_eq!(policer.passes(&packet_to(at(others), 0)), Ok(true), "{flow}");
        // A flow with its own address takes precedence.
        policer.set(at(its), once()).expect("room");
        assert_eq!(policer.passes(&packet_to(at(its), 0)), Ok(true));
        policer.remove(at(its)).expect("there");
        policer.remove(at(flow)).expect("there");
    }
}

#[test]
fn a_packet_that_is_not_a_whole_udp_datagram_passes() {
    let Some(policer) = policer(8) else { return };
    for (flow, protocol) in [("192.0.2.1:9", PROTOCOL_V4), ("[2001:db8::1]:9", NEXT_HEADER_V6)] {
        policer.set(at(flow), once()).expect("room");
        let packet = packet_to(at(flow), 0);
        assert_eq!(policer.passes(&packet), Ok(true));
        assert_eq!(policer.passes(&packet), Ok(false));
        let with = |at: usize, byte: u8| {
            let mut other = packet.clone();
            other[at] = byte;
            policer.passes(&other)
        };
        assert_eq!(with(protocol, 6), Ok(true));
        assert_eq!(with(ETHER_TYPE, 0x81), Ok(true));
        // Too short for the header of UDP; the kernel takes no packet shorter than an Ethernet
        // header.
        for bytes in 14..packet.len() {
            assert_eq!(policer.passes(&packet[..bytes]), Ok(true), "{bytes}");
        }
        if protocol == PROTOCOL_V4 {
            assert_eq!(with(FRAGMENT_V4, 0x20), Ok(true), "more fragments");
            assert_eq!(with(FRAGMENT_V4 + 1, 1), Ok(true), "an offset");
            assert_eq!(with(FRAGMENT_V4, 0x40), Ok(false), "not to be fragmented");
            assert_eq!(with(14, 0x44), Ok(true), "a header too short");
            for options in 1..=10 {
                let packet = packet_to(at(flow), options);
                assert_eq!(policer.passes(&packet), Ok(false), "{options}");
            }
        }
        assert_eq!(policer.passes(&packet), Ok(false));
    }
}

#[test]
fn the_counts_continue_when_a_rate_is_set_again() {
    let Some(policer) = policer(1) else { return };
    let flow = at("192.0.2.1:9");
    let packet = packet_to(flow, 0);
    let four = Rate { tolerance: Duration::from_secs(3 * 86_400), ..once() };
    policer.set(flow, four).expect("room");
    let passed = (0..6).filter(|_| policer.passes(&packet) == Ok(true)).count();
    assert_eq!(passed, 4);
    policer.set(flow, Rate { spacing: Duration::ZERO, tolerance: Duration::MAX }).expect("known");
    assert_eq!(policer.passes(&packet), Ok(true));
    assert_eq!(policer.counts(flow), Ok(Counts { passed: 5, discarded: 2 }));
    assert_eq!(policer.set(at("192.0.2.2:9"), four), Err(PolicerError::Full { flows: 1 }));
}

/// Packets of a flow at its rate, measured by the kernel's own clock, keep passing.
#[test]
fn credit_comes_back_with_time() {
    let Some(policer) = policer(1) else { return };
    let flow = at("[2001:db8::1]:9");
    let packet = packet_to(flow, 0);
    let rate = Rate { spacing: Duration::from_millis(1), tolerance: Duration::from_millis(4) };
    policer.set(flow, rate).expect("room");
    let begin = punctual_linux::clock::now();
    let mut passed = 0_u64;
    for _ in 0..200 {
        passed += u64::from(policer.passes(&packet) == Ok(true));
        punctual_linux::clock::sleep(Duration::from_micros(100));
    }
    let elapsed = punctual_linux::clock::now().saturating_since(begin);
    let most = elapsed / rate.spacing + 5 + 1;
    assert!((5..=most).contains(&passed), "{passed} in {elapsed}");
    punctual_linux::clock::sleep(Duration::from_millis(2));
    assert_eq!(policer.passes(&packet), Ok(true));
}
