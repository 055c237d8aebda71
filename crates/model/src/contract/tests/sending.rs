//! Tests of the values read from `[sending]`, `[[channel]]` and `[[stream]]`.

use alloc::format;
use alloc::vec::Vec;

use super::{GOOD, SENDING, parse};
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
