//! Tests of the values read from `[sending]`, `[[channel]]` and `[[stream]]`, and of the errors in
//! them with their places.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{GOOD, SENDING, parse, refusal};
use crate::channel::{
    BestEffort, BitRate, LinearBounded, Link, Packetisation, ServiceClass, Traffic,
};
use crate::{Duration, Service, StreamClass};

fn bits(bits: u64) -> BitRate {
    BitRate::new(bits).expect("valid")
}

#[test]
fn sending_becomes_types() {
    let contract = parse(GOOD).expect("good");
    let sender = contract.sender.expect("declared");
    assert_eq!(Link::with_picos(Duration::from_micros(40), 50_000), Ok(sender.link));
    assert_eq!(Packetisation::new(4096, 2), Ok(sender.packetisation));
    assert_eq!(sender.cpu, "400us/1ms".parse().ok());
    assert_eq!(sender.allowance, Duration::from_micros(200));
    let best_effort = BestEffort::Sized { least: 64, most: 9000 };
    assert_eq!(sender.best_effort, best_effort, "raised by the channel of class ubr");
    assert_eq!(sender.memory, Some(4 << 20));
    assert_eq!(sender.costs.expect("given").first_packet, Service::from_micros(420));

    let names: Vec<&str> = contract.channels.iter().map(|channel| channel.name()).collect();
    assert_eq!(names, ["audio", "film"]);
    let every = Duration::from_millis(100);
    let audio = LinearBounded::new(16 << 10, 32 << 10, every, 2);
    assert_eq!(Ok(contract.channels[0].arrivals()), audio);
    assert_eq!(contract.channels[0].delay_bound(), every);
    let Traffic::Atm(film) = contract.channels[1].traffic() else { panic!("declared as ATM") };
    let film = film.spec();
    assert_eq!((film.class, film.max_sdu), (ServiceClass::RtVbr, 8192));
    assert_eq!((film.peak_rate, film.sustained_rate), (bits(12_500_000), bits(10_000_000)));
    assert_eq!(film.delay_variation_tolerance, Duration::from_millis(1));
    let rest = contract.best_effort[0].traffic.spec();
    assert_eq!((rest.class, rest.sustained_rate), (ServiceClass::Ubr, bits(8_000_000)));

    let camera = contract.streams[0].spec();
    assert_eq!(camera.class, StreamClass::HighBandwidthMessages);
    assert_eq!(camera.frame_period, Duration::from_nanos(33_366_700), "rounded down");
    assert_eq!((camera.frame_size, camera.burst), (24 << 10, 2));
    assert_eq!((camera.tolerated_loss_ppm, camera.delay), (5_000, every));
    assert_eq!(camera.time_per_pdu, Service::from_micros(50));
}

#[test]
fn defaults_are_those_documented() {
    let text = format!(
        "{SENDING}[[channel]]\nname = \"a\"\nmax_message = \"1KiB\"\nmin_inter_arrival = \"10ms\"\n\
         delay_bound = \"5ms\"\n[[channel]]\nname = \"b\"\nclass = \"cbr\"\n\
         sustained_rate = \"1mbit/s\"\nmax_sdu = \"1KiB\"\ndelay_bound = \"5ms\"\n[[stream]]\n\
         name = \"c\"\nclass = \"bulk-data\"\nframe_period = \"1s\"\nframe_size = \"1MB\"\n\
         delay = \"3s\"\ntime_per_pdu = \"1us\"\n"
    );
    let contract = parse(&text).expect("good");
    let sender = contract.sender.expect("declared");
    assert_eq!((sender.costs, sender.memory), (None, None));
    assert_eq!(sender.cpu, None);
    let cpu = |micros| format!("{}", sender.cpu_for(Service::from_micros(micros)));
    assert_eq!([cpu(0), cpu(40), cpu(600)], ["500us/1ms", "500us/1ms", "7.5ms/15ms"]);
    assert_eq!(sender.allowance, Duration::from_micros(300));
    assert_eq!(sender.best_effort, BestEffort::None);
    assert_eq!(Packetisation::new(4096, 1), Ok(sender.packetisation));
    assert_eq!(Link::with_picos(Duration::ZERO, 50_000), Ok(sender.link));
    let a = contract.channels[0].arrivals();
    assert_eq!((a.min_message(), a.max_burst()), (1, 1));
    let Traffic::Atm(b) = contract.channels[1].traffic() else { panic!("declared as ATM") };
    assert_eq!(b.spec().peak_rate, bits(1_000_000), "a constant rate is its own peak");
    assert_eq!(b.spec().delay_variation_tolerance, Duration::ZERO);
    let stream = contract.streams[0].spec();
    assert_eq!((stream.burst, stream.tolerated_loss_ppm), (1, 0));
    assert!(
        parse(&format!("{SENDING}[[task]]\nname = \"t\"\nperiod = \"1s\"\nwcet = \"1ms\"")).is_ok()
    );
}

#[test]
fn a_link_is_never_taken_for_faster_than_it_is() {
    let per_byte = |speed: &str| {
        let text = SENDING.replace("bandwidth = \"160mbit/s\"", speed);
        let text = format!("{text}[[task]]\nname = \"t\"\nperiod = \"1s\"\nwcet = \"1ms\"");
        parse(&text).expect("good").sender.expect("declared").link
    };
    let picos = |picos| Link::with_picos(Duration::ZERO, picos).expect("valid");
    assert_eq!(per_byte("time_per_byte = \"0.8ns\""), picos(800));
    assert_eq!(per_byte("bandwidth = \"10gbit/s\""), picos(800));
    assert_eq!(per_byte("bandwidth = \"600mbit/s\""), picos(13_334), "13333.3 rounded up");
}

fn refusals(cases: &[(String, &str)]) {
    for (text, wanted) in cases {
        let message = refusal(text);
        assert!(message.contains(wanted), "{text}\n gave {message}\n wanted {wanted}");
    }
}

#[test]
fn errors_in_sending_have_their_place() {
    let task = "[[task]]\nname = \"t\"\nperiod = \"1s\"\nwcet = \"1ms\"\n";
    let sending = |rest: &str| format!("{task}[sending]\n{rest}\n");
    refusals(&[
        (sending("packet = \"4KiB\""), "c.toml:5:1: [sending] does not say how fast the link is"),
        (sending("bandwidth = \"1mbit/s\""), "c.toml:5:1: missing field `packet`"),
        (
            sending("bandwidth = \"1mbit/s\"\ntime_per_byte = \"8us\"\npacket = \"4KiB\""),
            "c.toml:7:17: [sending] has both bandwidth and time_per_byte",
        ),
        (sending("bandwith = \"1mbit/s\""), "c.toml:6:1: unknown field `bandwith`"),
        (sending("bandwith = \"1mbit/s\""), "did you mean `bandwidth`?"),
        (
            sending("bandwidth = \"1mbps\"\npacket = \"4KiB\""),
            "c.toml:6:13: bandwidth \"1mbps\" has an unknown unit; use bit/s",
        ),
        (
            sending("bandwidth = \"1Mb/s\"\npacket = \"4KiB\""),
            "write kbit/s or mbit/s for bits, or kB/s (1000) or KiB/s (1024) for bytes",
        ),
        (
            sending("bandwidth = \"0bit/s\"\npacket = \"4KiB\""),
            "c.toml:6:13: bandwidth \"0bit/s\" is zero",
        ),
        (
            sending("bandwidth = \"1bit/s\"\npacket = \"4KiB\""),
            "c.toml:6:13: a link that takes 8000000000000ps for each byte is slower",
        ),
        (
            sending("bandwidth = 1000\npacket = \"4KiB\""),
            "c.toml:6:13: bandwidth 1000 has no unit; write it in quotes with bit/s",
        ),
        (
            sending("time_per_byte = \"0ns\"\npacket = \"4KiB\""),
            "c.toml:6:17: a packet would take no time on the link; give startup as well",
        ),
        (
            sending("bandwidth = \"1mbit/s\"\npacket = \"4KB\""),
            "c.toml:7:10: packet \"4KB\" has an ambiguous unit; write kB for 1000 bytes or KiB for 1024",
        ),
        (
            sending("bandwidth = \"1mbit/s\"\npacket = \"0B\""),
            "c.toml:7:10: the packet size is zero",
        ),
        (
            sending("bandwidth = \"1mbit/s\"\npacket = \"4GiB\""),
            "c.toml:7:10: packet \"4GiB\" is more than 4294967295B",
        ),
        (
            sending("bandwidth = \"1mbit/s\"\npacket = \"4KiB\"\npackets_per_block = 0"),
            "c.toml:8:21: zero packets between preemption points",
        ),
        (
            sending("bandwidth = \"1mbit/s\"\npacket = \"4KiB\"\ncpu = \"2ms/1ms\""),
            "c.toml:8:7: the budget 2ms is above the period 1ms",
        ),
        (
            sending("bandwidth = \"1mbit/s\"\npacket = \"4KiB\"\nbest_effort = \"0B\""),
            "c.toml:8:15: best_effort is empty",
        ),
        (
            sending(
                "bandwidth = \"1mbit/s\"\npacket = \"4KiB\"\nbest_effort = \"1KiB\"\n\
                 best_effort_min = \"2KiB\"",
            ),
            "c.toml:9:19: best_effort_min is 2048 bytes; it must be from 1 to 1024, the largest",
        ),
        (
            sending("bandwidth = \"1mbit/s\"\npacket = \"4KiB\"\nbest_effort_min = \"64B\""),
            "c.toml:8:19: best_effort_min is the smallest message of best effort, and there is none",
        ),
        (
            sending("bandwidth = \"1mbit/s\"\npacket = \"4KiB\"\nmemory = \"0B\""),
            "c.toml:8:10: memory is zero",
        ),
        (
            sending(
                "bandwidth = \"1mbit/s\"\npacket = \"4KiB\"\n[sending.costs]\nswitch = \"1us\"",
            ),
            "missing field `cache`",
        ),
        (
            format!(
                "{task}[[stream]]\nname = \"s\"\nclass = \"bulk-data\"\nframe_period = \"1s\"\n\
                     frame_size = \"1MB\"\ndelay = \"3s\"\ntime_per_pdu = \"1us\"\n"
            ),
            "c.toml:5:1: channels and streams need to know how this host sends; write [sending]",
        ),
    ]);
}

#[test]
fn errors_in_channels_have_their_place() {
    let channel = |rest: &str| format!("{SENDING}[[channel]]\nname = \"c\"\n{rest}\n");
    let bounded = "max_message = \"1KiB\"\nmax_rate = \"10/s\"\n";
    let cbr = "class = \"cbr\"\npeak_rate = \"1mbit/s\"\nmax_sdu = \"1KiB\"\n";
    refusals(&[
        (
            format!("[[channel]]\nname = \"c\"\n{bounded}delay_bound = \"1s\"\n"),
            "c.toml:1:1: channels and streams need",
        ),
        (channel(bounded), "c.toml:5:8: channel \"c\" has no delay_bound; write delay_bound ="),
        (
            channel(&format!("{bounded}delay_bound = \"0s\"")),
            "c.toml:8:15: the delay bound is zero",
        ),
        (channel("max_rate = \"10/s\""), "c.toml:5:8: channel \"c\" has no max_message"),
        (
            channel("max_message = \"1KiB\""),
            "c.toml:5:8: channel \"c\" has no rate; write max_rate",
        ),
        (
            channel(&format!("{bounded}min_inter_arrival = \"1s\"")),
            "c.toml:8:21: channel \"c\" has both max_rate and min_inter_arrival",
        ),
        (
            channel("max_message = \"1KiB\"\nmax_rate = \"10/min\""),
            "c.toml:7:12: max_rate \"10/min\" has an unknown unit; use /s, such as \"25/s\"",
        ),
        (
            channel("max_message = \"1KiB\"\nmax_rate = 10"),
            "c.toml:7:12: max_rate 10 has no unit; write it in quotes with /s: \"10/s\"",
        ),
        (
            channel("max_message = \"0B\"\nmax_rate = \"1/s\""),
            "c.toml:6:15: the largest message is empty",
        ),
        (
            channel(&format!("{bounded}min_message = \"2KiB\"")),
            "c.toml:8:15: the smallest message is 2048 bytes; it must be between 1 and the largest",
        ),
        (channel(&format!("{bounded}max_burst = 0")), "c.toml:8:13: the burst is zero messages"),
        (channel(&format!("{bounded}max_burst = -1")), "c.toml:8:13: max_burst is -1"),
        (
            channel("max_message = \"1KiB\"\nmin_inter_arrival = \"0s\""),
            "c.toml:7:21: messages every 0ns; the spacing must be",
        ),
        (
            channel(&format!("{bounded}max_sdu = \"1KiB\"\npeak_rate = \"1mbit/s\"")),
            "c.toml:8:11: channel \"c\" has max_sdu but no class; write class = \"cbr\"",
        ),
        (
            channel(&format!("{cbr}max_burst = 2")),
            "c.toml:9:13: channel \"c\" has max_burst and a class",
        ),
        (
            channel("class = \"abr\""),
            "c.toml:6:9: unknown class \"abr\"; choose cbr, rt-vbr or ubr",
        ),
        (channel(cbr), "c.toml:5:8: channel \"c\" has no delay_bound"),
        (channel("class = \"cbr\""), "c.toml:5:8: channel \"c\" has no peak_rate"),
        (
            channel("class = \"rt-vbr\"\npeak_rate = \"1mbit/s\""),
            "c.toml:5:8: channel \"c\" has no sustained_rate",
        ),
        (
            channel("class = \"cbr\"\npeak_rate = \"1mbit/s\""),
            "c.toml:5:8: channel \"c\" has no max_sdu; write max_sdu = \"8KiB\"",
        ),
        (
            channel(&format!("{cbr}sustained_rate = \"0.5mbit/s\"")),
            "c.toml:9:18: the rate is constant, but the peak 1000000 bit/s is not the sustained",
        ),
        (
            channel(&format!("{}sustained_rate = \"2mbit/s\"", cbr.replace("cbr", "rt-vbr"))),
            "c.toml:9:18: the sustained rate 2000000 bit/s is above the peak",
        ),
        (channel(&cbr.replace("1KiB", "0B")), "c.toml:8:11: the largest message is empty"),
        (
            channel(&cbr.replace("1mbit/s", "1bit/s").replace("1KiB", "1MB")),
            "c.toml:8:11: messages every 8000000s; the spacing",
        ),
        (
            channel(&format!(
                "{}delay_variation_tolerance = \"86400s\"\ndelay_bound = \"1s\"",
                cbr.replace("1mbit/s", "1000gbit/s").replace("1KiB", "1000B")
            )),
            "c.toml:9:29: the tolerance 86400s allows bursts of more messages than",
        ),
        (
            channel(&format!("{}delay_bound = \"1s\"", cbr.replace("cbr", "ubr"))),
            "c.toml:9:15: channel \"c\" is of class ubr, which is promised nothing; remove",
        ),
        (channel("max_mesage = \"1KiB\""), "did you mean `max_message`?"),
    ]);
}

#[test]
fn errors_in_streams_have_their_place() {
    let good = "class = \"bulk-data\"\nframe_rate = \"1/s\"\nframe_size = \"1MB\"\n\
                delay = \"3s\"\ntime_per_pdu = \"1us\"\n";
    let stream = |rest: &str| format!("{SENDING}[[stream]]\nname = \"s\"\n{rest}\n");
    let with = |old: &str, changed: &str| stream(&good.replace(old, changed));
    assert!(parse(&stream(good)).is_ok());
    refusals(&[
        (
            with("bulk-data", "video"),
            "c.toml:6:9: unknown class \"video\"; choose continuous-media,",
        ),
        (
            with("frame_rate = \"1/s\"\n", ""),
            "c.toml:5:8: stream \"s\" has no rate; write frame_rate",
        ),
        (
            with("frame_rate = \"1/s\"", "frame_rate = \"1/s\"\nframe_period = \"1s\""),
            "c.toml:8:16: stream \"s\" has both frame_rate and frame_period",
        ),
        (with("1/s", "0/s"), "c.toml:7:14: frame_rate \"0/s\" is zero"),
        (with("1MB", "0B"), "c.toml:8:14: the frame is empty"),
        (with("\"3s\"", "\"0s\""), "c.toml:9:9: the delay is 0ns"),
        (with("\"1us\"", "\"0s\""), "c.toml:10:16: the time per PDU is 0ns"),
        (stream(&format!("{good}burst = 0")), "c.toml:11:9: the burst is zero frames"),
        (
            stream(&format!("{good}tolerated_loss = \"100%\"")),
            "c.toml:11:18: 1000000 ppm may be lost",
        ),
        (
            stream(&format!("{good}tolerated_loss = 5")),
            "c.toml:11:18: tolerated_loss 5 has no unit; write it in quotes with %: \"5%\"",
        ),
        (
            stream(&format!(
                "{good}[[task]]\nname = \"s.channel\"\nperiod = \"1s\"\nwcet = \"1s\""
            )),
            "c.toml:5:8: stream \"s\" needs the name \"s.channel\" for its channel; it is taken",
        ),
        (
            stream(&format!("{good}[[task]]\nname = \"s\"\nperiod = \"1s\"\nwcet = \"1s\"")),
            "c.toml:5:8: the name \"s\" is taken",
        ),
        (with("frame_size", "framesize"), "did you mean `frame_size`?"),
    ]);
}

#[test]
fn all_kinds_of_entries_count_against_the_limit() {
    let mut text = String::from(SENDING);
    for i in 0..=crate::contract::MAX_ENTRIES {
        text += &format!("[[channel]]\nname = \"c{i}\"\nclass = \"ubr\"\n");
    }
    let message = refusal(&text);
    assert!(message.starts_with("c.toml:49156:1: this is entry 16385 of 16385"), "{message}");
}
