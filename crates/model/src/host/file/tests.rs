use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;

use super::*;
use crate::channel::{Framing, SendCosts};
use crate::host::{
    Absent, ArrivalCost, CacheRefill, DeadlineLimits, Figure, HostIdentity, HostProfile,
    MessageCost, Operation, Percentile, ReceiveCharge, ReceiveCosts, Run, Sampled, SendCharge,
    Spread, SwitchCharge, Under,
};
use crate::{Duration, Service};

fn spread(from: u64) -> Spread {
    Spread::new(17, [1, 2, 3, 1_000_003].map(|by| Duration::from_nanos(from * by))).expect("valid")
}

/// Returns a calibration with every section and key, and with texts that TOML must quote.
fn full() -> Calibration {
    let figure = |(_, operation): (&str, Operation)| Figure {
        operation,
        sampled: Sampled {
            under: Under::NAMES[operation as usize % 3].1,
            spread: spread(25),
            discarded: operation as u32,
            stolen: Duration::from_millis(10 * operation as u64),
        },
    };
    let refill = |working_set| CacheRefill {
        working_set,
        sampled: Sampled {
            under: Under::Fifo,
            spread: spread(working_set),
            discarded: 0,
            stolen: Duration::ZERO,
        },
    };
    let message = |(packet_bytes, packets_per_block, packets)| MessageCost {
        packet_bytes,
        packets_per_block,
        packets,
        sampled: Sampled {
            under: Under::Fifo,
            spread: spread(packets.into()),
            discarded: packets,
            stolen: Duration::from_millis(20),
        },
    };
    let arrival = |(packet_bytes, framing, packets)| ArrivalCost {
        packet_bytes,
        framing,
        packets,
        sampled: Sampled {
            under: Under::Other,
            spread: spread(packets.into()),
            discarded: packets,
            stolen: Duration::from_millis(10),
        },
    };
    let (whole, pieces) = (Framing::Datagram, Framing::Fragments);
    Calibration {
        host: HostIdentity {
            cpu_model: "A \"quoted\" CPU \\ 2.5 GHz é".into(),
            kernel_release: "6.18.44".into(),
            cpus: 2,
        },
        run: Run {
            at_unix_s: 1_792_540_800,
            duration: Duration::from_millis(61_500),
            version: "0.1.0".into(),
            quick: true,
            stolen: Some(Duration::from_millis(30)),
        },
        switching: Some(SwitchCharge {
            switch: Service::from_nanos(2_400),
            by: Operation::ProcessSwitch,
            cache_refill: Service::from_nanos(4_800),
            working_set: 262_144,
            percentile: Percentile::P99,
        }),
        sending: Some(SendCharge {
            costs: SendCosts {
                switch: Service::from_micros(1),
                cache: Service::from_micros(2),
                first_packet: Service::from_micros(3),
                packet: Service::from_micros(4),
                link_scheduling: Service::from_micros(5),
            },
            path: Some("a \"path\"".into()),
            largest_packet: Some(1_420),
            percentile: Percentile::from_ppm(999_000),
        }),
        receiving: Some(ReceiveCharge {
            costs: ReceiveCosts {
                switch: Service::from_micros(6),
                cache: Service::from_micros(7),
                first_packet: Service::from_micros(8),
                packet: Service::from_micros(9),
            },
            path: Some("the other \"path\"".into()),
            largest_packet: Some(1_421),
            percentile: Percentile::from_ppm(998_000),
        }),
        figures: Operation::NAMES.map(figure).into(),
        cache_refill: vec![refill(16_384), refill(32_768)],
        messages: [(64, 1, 1), (64, 1, 8), (64, 8, 8), (1_420, 1, 1)].map(message).into(),
        arrivals: [(65, whole, 1), (65, whole, 7), (65, pieces, 1), (66, whole, 1)]
            .map(arrival)
            .into(),
        absent: vec![Absent { what: "wakeup-deadline".into(), why: "no \"privilege\"".into() }],
    }
}

fn refusal(text: &str) -> String {
    Calibration::parse("host.toml", text.as_bytes()).expect_err("must be refused").to_string()
}

#[test]
fn a_written_profile_is_read_back() {
    let full = full();
    let bare = Calibration {
        run: Run { quick: false, stolen: None, ..full.run.clone() },
        switching: None,
        sending: None,
        receiving: None,
        figures: vec![],
        cache_refill: vec![],
        messages: vec![],
        arrivals: vec![],
        absent: vec![],
        ..full.clone()
    };
    let unsaid = full.sending.as_ref().map(|charge| SendCharge {
        path: None,
        largest_packet: None,
        percentile: None,
        ..charge.clone()
    });
    let unsaid_either = full.receiving.as_ref().map(|charge| ReceiveCharge {
        path: None,
        largest_packet: None,
        percentile: None,
        ..charge.clone()
    });
    let by_hand = Calibration { sending: unsaid, receiving: unsaid_either, ..bare.clone() };
    for calibration in [full, bare, by_hand] {
        let text = calibration.to_string();
        let read = Calibration::parse("host.toml", text.as_bytes()).expect("its own text");
        assert_eq!(read, calibration, "{text}");
    }
}

#[test]
fn admission_gets_the_sum_of_switch_and_refill() {
    let calibration = full();
    let profile = calibration.profile(DeadlineLimits::DEFAULT);
    assert_eq!(profile.context_switch, Service::from_nanos(7_200));
    let charged = calibration.sending.as_ref().map(|charge| charge.costs);
    assert_eq!((profile.cpus, profile.send_costs), (2, charged));
    let received = profile.receive_costs.expect("measured");
    assert_eq!(received.per_packet(), Service::from_micros(6 + 7 + 9));
    // Older profiles have no such section.
    let before = Calibration { receiving: None, arrivals: vec![], ..calibration.clone() };
    let text = before.to_string();
    assert!(!text.contains("receiving") && !text.contains("arrival"), "{text}");
    let before = Calibration::parse("host.toml", text.as_bytes()).expect("as it was");
    let before = before.profile(DeadlineLimits::DEFAULT);
    assert_eq!(before, HostProfile { receive_costs: None, ..profile });
    let unmeasured = Calibration { switching: None, sending: None, receiving: None, ..calibration };
    let slot_allowance = HostProfile::ASSUMED_SLOT_ALLOWANCE;
    let assumed = HostProfile { slot_allowance, ..HostProfile::ideal(2) };
    assert_eq!(unmeasured.profile(DeadlineLimits::DEFAULT), assumed);
}

#[test]
fn errors_in_profiles_have_their_place() {
    let good = full().to_string();
    for (was, becomes, words) in [
        ("format = 1", "format = 2", "host.toml:3:10: this profile has format 2"),
        ("cpus = 2", "cpus = 0", "host.toml:8:8: cpus is 0; it must be from 1"),
        ("at_unix_s = 1792540800", "at_unix_s = -1", "host.toml:11:13: at_unix_s is -1"),
        (
            "duration = \"61.5s\"",
            "duration = \"61.5\"",
            "host.toml:12:12: duration \"61.5\" has no unit",
        ),
        ("duration = \"61.5s\"", "duration = 61.5", "host.toml:12:12: duration 61.5 has no unit"),
        ("quick = true", "quik = true", "host.toml:14:1: unknown field `quik`"),
        ("percentile = \"99%\"", "percentile = \"9%\"", "percentile \"9%\" is below 50%"),
        ("working_set = \"262144B\"", "working_set = \"0B\"", "working_set is zero"),
        (
            "by = \"process-switch\"",
            "by = \"process\"",
            "unknown operation \"process\"; choose clock-read,",
        ),
        ("operation = \"page-fault\"", "operation = \"clock-read\"", "clock-read is there twice"),
        ("under = \"fifo\"", "under = \"rr\"", "unknown class \"rr\"; choose other, fifo"),
        ("samples = 17", "samples = 0", "a spread needs at least one sample"),
        ("samples = 17", "samples = -3", "samples is -3; it must be from 0"),
        ("p50 = \"50ns\"", "p50 = \"80ns\"", "are not in ascending order"),
        (
            "working_set = \"32768B\"",
            "working_set = \"16KiB\"",
            "the working sets are not in ascending",
        ),
        ("largest_packet = \"1420B\"", "largest_packet = \"0B\"", "largest_packet must be from 1B"),
        ("percentile = \"99.9%\"", "percentile = \"49%\"", "percentile \"49%\" is below 50%"),
        ("packets = 8", "packets = 0", "packets is zero; it must be at least 1"),
        ("packet = \"64B\"", "packet = \"5GB\"", "packet \"5GB\" is more than 4294967295B"),
        (
            "\npacket = \"1420B\"",
            "\npacket = \"63B\"",
            "the messages are not in ascending order of",
        ),
        ("largest_packet = \"1421B\"", "largest_packet = \"0B\"", "largest_packet must be from 1B"),
        ("percentile = \"99.8%\"", "percentile = \"48%\"", "percentile \"48%\" is below 50%"),
        ("switch = \"6us\"", "switch = \"6\"", "host.toml:38:10: switch \"6\" has no unit"),
        (
            "[receiving]\n",
            "[receiving]\nlink_scheduling = \"1us\"\n",
            "unknown field `link_scheduling`",
        ),
        ("first_packet = \"8us\"\n", "", "missing field `first_packet`"),
        ("packets = 7", "packets = 0", "packets is zero; it must be at least 1"),
        (
            "framing = \"fragments\"",
            "framing = \"frames\"",
            "unknown framing \"frames\"; choose datagram or fragments",
        ),
        ("\npacket = \"66B\"", "\npacket = \"65B\"", "the arrivals are not in ascending order of"),
        ("what = \"wakeup-deadline\"", "what = \"\"", "what has from 1 to 512 characters"),
        ("what = \"wakeup-deadline\"", "what = \"a\\u0007\"", "what has no control characters"),
        ("[host]", "[hos", "host.toml:5:"),
    ] {
        assert!(good.contains(was), "{was}");
        let message = refusal(&good.replacen(was, becomes, 1));
        assert!(message.contains(words), "{message}\n wanted {words}");
    }
    let entry = "\n[[absent]]\nwhat = \"a\"\nwhy = \"b\"\n".repeat(MAX_ENTRIES);
    assert!(refusal(&format!("{good}{entry}")).contains("at most 64"));
    let bytes = b"format = 1\n# \xff";
    let error = Calibration::parse("host.toml", bytes).expect_err("not text");
    assert_eq!((error.line, error.column), (2, 3));
}

#[test]
fn a_profile_of_another_host_is_known() {
    let here = full().host;
    assert_eq!(here.difference(&here), None);
    let there = |change: fn(&mut HostIdentity)| {
        let mut there = here.clone();
        change(&mut there);
        there.difference(&here).expect("another host")
    };
    assert!(there(|host| host.cpu_model = "Z80".into()).contains("its CPU is \"Z80\""));
    assert!(there(|host| host.cpus = 1).contains("it had 1 CPUs online, this one has 2"));
    assert!(there(|host| host.kernel_release = "5.4".into()).contains("its kernel was 5.4"));
}

/// Changes a few bytes at random places, which a fixed seed makes the same on each run.
#[test]
fn a_damaged_file_is_refused_with_a_place_or_is_another_valid_profile() {
    let good = full().to_string().into_bytes();
    let mut state = 1u64;
    let mut draw = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut valid = 0;
    for _ in 0..3_000 {
        let mut bytes = good.clone();
        for _ in 0..1 + draw(2) {
            let at = draw(bytes.len());
            match draw(3) {
                0 => bytes[at] = b"0159.\"'[]=\n#sm%-\xc3"[draw(17)],
                1 => drop(bytes.remove(at)),
                _ => bytes.truncate(at.max(1)),
            }
        }
        match Calibration::parse("host.toml", &bytes) {
            Ok(calibration) => {
                valid += 1;
                let text = calibration.to_string();
                let again = Calibration::parse("host.toml", text.as_bytes());
                assert_eq!(again.as_ref(), Ok(&calibration), "{text}");
            }
            Err(error) => {
                let lines = bytes.iter().filter(|&&byte| byte == b'\n').count() + 1;
                assert!((1..=lines).contains(&error.line) && error.column >= 1, "{error}");
            }
        }
    }
    assert!((1..3_000).contains(&valid), "both happen");
}
