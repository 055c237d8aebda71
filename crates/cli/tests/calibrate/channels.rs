//! The measured costs of sending and receiving, in the profile and on the page.

use std::fs;

use punctual_linux::host;
use punctual_model::Service;
use punctual_model::channel::SendCosts;
use punctual_model::host::{Calibration, Percentile, ReceiveCharge, ReceiveCosts, SendCharge};
use serde_json::Value;

use super::common::{punctual, text};
use super::{Place, parse, profile};

/// Returns costs of sending as a user would write them by hand.
fn by_hand() -> SendCharge {
    SendCharge {
        costs: SendCosts {
            switch: Service::from_micros(1),
            cache: Service::from_micros(2),
            first_packet: Service::from_micros(3),
            packet: Service::from_micros(4),
            link_scheduling: Service::from_micros(5),
        },
        path: None,
        largest_packet: None,
        percentile: None,
    }
}

/// Returns costs of receiving as a user would write them by hand.
fn received_by_hand() -> ReceiveCharge {
    ReceiveCharge {
        costs: ReceiveCosts {
            switch: Service::from_micros(6),
            cache: Service::from_micros(7),
            first_packet: Service::from_micros(8),
            packet: Service::from_micros(9),
        },
        path: None,
        largest_packet: None,
        percentile: None,
    }
}

/// Returns a profile of this host with both.
pub(super) fn with_channels() -> Calibration {
    let (sending, receiving) = (Some(by_hand()), Some(received_by_hand()));
    Calibration { sending, receiving, ..profile(host::identity()) }
}

const CHANNEL: &str = "
[sending]
bandwidth = '100mbit/s'
packet = '1kB'

[[channel]]
name = 'video'
max_message = '1kB'
min_message = '1kB'
min_inter_arrival = '1s'
delay_bound = '1s'
";

/// Checks that the profile at `path`, where a handwritten one was, charges sending.
pub(super) fn sending_is_charged(place: &Place, path: &str, written: &Calibration, page: &Value) {
    let charge = written.sending.as_ref().expect("measured or kept");
    assert_eq!(page["sending"]["packet_ns"], charge.costs.packet.as_nanos());
    if written.absent.iter().any(|absent| absent.what == "sending") {
        assert_eq!((charge, written.messages.len()), (&by_hand(), 0), "kept");
        println!("sending was not measured: {:?}", written.absent);
    } else {
        assert!(charge.path.is_some() && charge.largest_packet == Some(1_420), "{charge:?}");
        assert_eq!(charge.percentile, Some(Percentile::P99));
        let switching = written.switching.expect("its switches are those of tasks");
        assert_eq!(charge.costs.change_of_handler(), switching.context_switch());
        // Whatever the percentile, the charge covers a message of each measured shape.
        let covered = written.messages.iter().filter(|one| one.packet_bytes <= 1_420);
        for one in covered.filter(|one| one.packets_per_block == 1) {
            let each = charge.costs.packet.saturating_add(charge.costs.link_scheduling);
            let charged = charge.costs.first_packet.as_nanos()
                + charge.costs.link_scheduling.as_nanos()
                + u64::from(one.packets - 1) * each.as_nanos();
            assert!(charged >= one.sampled.spread.p99().as_nanos(), "{one:?}: {charge:?}");
        }
    }
    // A contract without costs is admitted with the profile's, and refused where the profile has
    // none.
    let contract = place.path("channel.toml");
    fs::write(&contract, CHANNEL).expect("written");
    let admitted = parse(&punctual(&["admit", "--json", "--host-profile", path, &contract]));
    assert_eq!(admitted["host_profile"]["sending_measured"], true);
    let without = punctual(&["admit", "--host-profile", "ideal", &contract]);
    assert_eq!(without.status.code(), Some(1));
    assert!(text(&without.stdout).contains("what sending costs"), "{}", text(&without.stdout));
}

/// Checks that the profile, where a handwritten one was, charges receiving.
pub(super) fn receiving_is_charged(written: &Calibration, page: &Value) {
    let charge = written.receiving.as_ref().expect("measured or kept");
    assert_eq!(page["receiving"]["packet_ns"], charge.costs.packet.as_nanos());
    let each = charge.costs.per_packet().as_nanos();
    assert_eq!(page["receiving"]["per_packet_ns"], each);
    if written.absent.iter().any(|absent| absent.what == "receiving") {
        assert_eq!((charge, written.arrivals.len()), (&received_by_hand(), 0), "kept");
        println!("receiving was not measured: {:?}", written.absent);
        return;
    }
    assert!(charge.path.is_some() && charge.largest_packet == Some(1_420), "{charge:?}");
    assert_eq!(charge.percentile, Some(Percentile::P99));
    let switching = written.switching.expect("its switches are those of tasks");
    let change = charge.costs.switch.saturating_add(charge.costs.cache);
    assert_eq!(change, switching.context_switch());
    // The arrivals must include both framings of every received size, alone and several together.
    let of = |packets: u32| written.arrivals.iter().filter(move |one| one.packets == packets);
    assert!(of(1).count() >= 2 && of(1).count() == of(8).count(), "{:?}", written.arrivals);
    for one in written.arrivals.iter().filter(|one| one.packet_bytes <= 1_420) {
        let further = u64::from(one.packets - 1) * charge.costs.packet.as_nanos();
        let steps = charge.costs.first_packet.as_nanos() + further;
        assert!(steps >= one.sampled.spread.p99().as_nanos(), "{one:?}: {charge:?}");
        assert!(u64::from(one.packets) * each >= steps, "{charge:?}");
    }
}

/// Sends to an address that accepts nothing, so that no packet leaves and nothing is measured.
/// Packets of this size arrive only by a loopback.
#[test]
fn unmeasurable_channel_costs_are_absent_and_keep_their_old_values() {
    let place = Place::new();
    let path = place.with("host.toml", &with_channels());
    let nowhere = ["--send-to", "255.255.255.255:9", "--packet", "60000B"];
    let output = punctual(&[&["calibrate", "--quick", "--output", &path], &nowhere[..]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let written = Calibration::parse(&path, &fs::read(&path).expect("written")).expect("valid");
    assert_eq!(written.sending, Some(by_hand()));
    let absent = |what| written.absent.iter().find(|absent| absent.what == what);
    assert!(absent("packets of 1 KiB").is_some(), "{:?}", written.absent);
    assert!(absent("sending").is_some() && text(&output.stdout).contains("measured before"));
    let receiving = written.receiving.expect("measured or kept");
    if receiving.path.as_deref() == Some("loopback") {
        println!("packets of any size come here");
    } else {
        assert_eq!((&receiving, written.arrivals.len()), (&received_by_hand(), 0));
        assert!(absent("received packets of 60000 B").is_some(), "{:?}", written.absent);
        assert!(absent("receiving").is_some());
    }
}
