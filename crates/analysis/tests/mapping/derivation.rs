//! Streams as upcalls and channels: the choice, its errors, and contracts as a whole.

use crate::common::{draw, one_message, sender, stream};
use punctual_analysis::admit;
use punctual_analysis::mapping::{ExpandError, MAX_PDUS, MappingError, expand, map};
use punctual_model::channel::{Packetisation, SendCosts};
use punctual_model::{Contract, Duration, HostProfile, Service, Stream, StreamClass, StreamSpec};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

fn host() -> HostProfile {
    HostProfile { context_switch: Service::from_micros(5), ..HostProfile::ideal(1) }
}

fn parsed(text: &str) -> Contract {
    Contract::parse("c.toml", text.as_bytes()).expect("a valid contract")
}

const CAMERA: &str = r#"
[sending]
bandwidth = "160mbit/s"
startup = "40us"
packet = "4KiB"

[sending.costs]
switch = "10us"
cache = "10us"
first_packet = "60us"
packet = "40us"
link_scheduling = "10us"

[[stream]]
name = "camera"
class = "continuous-media"
frame_rate = "25/s"
frame_size = "24KiB"
delay = "100ms"
time_per_pdu = "50us"
"#;

/// Computed by hand: with the delay of 100 ms a whole frame each 37.5 ms fits and needs the fewest
/// switches.
#[test]
fn a_camera_by_hand() {
    let (expanded, mappings) = expand(&parsed(CAMERA), &host()).expect("maps");
    let camera = &mappings[0];
    assert_eq!((camera.pdus_per_frame, camera.pdus_sent, camera.turns_per_frame), (6, 6, 1));
    assert_eq!(camera.upcall.period(), Duration::from_micros(37_500));
    assert_eq!((camera.upcall.batch().get(), camera.upcall.quantum().get()), (6, 1));
    let messages = camera.channel.arrivals();
    assert_eq!((messages.max_message(), messages.min_message()), (24 << 10, 1));
    assert_eq!(messages.min_inter_arrival(), Duration::from_millis(40), "one a frame");
    assert_eq!(messages.max_burst(), 3, "1 + ⌈75/40⌉");
    assert_eq!(camera.processing_delay, Duration::from_millis(75));
    assert_eq!(camera.channel.delay_bound(), Duration::from_millis(25));
    // ⌊75/40⌋ + 1 frames, ⌊(25 + 80)/40⌋ + 1 messages.
    let buffers = camera.buffers;
    assert_eq!((buffers.frames, buffers.messages, buffers.bytes), (2, 3, 5 * (24 << 10)));
    assert_eq!(
        camera.arithmetic,
        [
            "N = ⌈24576B / 4096B⌉ = 6 PDUs a frame",
            "K = 1: B = ⌈6 / 1⌉ = 6 PDUs a turn",
            "T = min(⌊40ms / 1⌋, ⌊(100ms − 25ms) / (1·1 + 1)⌋) = 37.5ms",
            "a turn needs 6·50us + 2·5us = 310us, 0.8267 % of the CPU",
            "PDUs between yield points = 1, 50us",
            "messages of at most 6·4096B = 24576B every 40ms, up to 3 at once",
            "processing ≤ 2·37.5ms + (1·1 − 1)·40ms = 75ms",
            "d = 100ms − 75ms = 25ms",
            "buffers: 2 frames of 24576B and 3 messages of 24576B = 122880B",
        ]
    );
    assert_eq!(expanded.streams.len(), 1, "the streams stay");
    assert_eq!(expanded.upcalls[0].name(), "camera");
    assert_eq!(expanded.tasks[0].name(), "camera");
    assert_eq!(expanded.channels[0].name(), "camera.channel");
}

/// With little delay it is worth while to begin sooner, and with expensive PDUs even at the price
/// of more switches.
#[test]
fn a_tight_delay_makes_short_turns() {
    let tight = CAMERA
        .replace("100ms", "30ms")
        .replace("time_per_pdu = \"50us\"", "time_per_pdu = \"2ms\"");
    let (_, mappings) = expand(&parsed(&tight), &host()).expect("maps");
    assert!(mappings[0].turns_per_frame > 1, "{:?}", mappings[0].arithmetic);
    let bulk = tight.replace("continuous-media", "bulk-data");
    assert!(matches!(
        expand(&parsed(&bulk), &host()),
        Err(ExpandError::Stream { why: MappingError::DelayTooShort { .. }, .. })
    ));
}

#[test]
fn costs_come_from_the_contract_or_else_from_the_host() {
    let (head, tail) = CAMERA.split_once("[sending.costs]").expect("has costs");
    let (_, stream) = tail.split_once("[[stream]]").expect("has a stream");
    let bare = parsed(&format!("{head}[[stream]]{stream}"));
    assert_eq!(expand(&bare, &host()), Err(ExpandError::NoCosts));
    let us = Service::from_micros;
    let costs = SendCosts {
        switch: us(10),
        cache: us(10),
        first_packet: us(60),
        packet: us(40),
        link_scheduling: us(10),
    };
    let measured = HostProfile { send_costs: Some(costs), ..host() };
    let (_, from_host) = expand(&bare, &measured).expect("maps");
    let (_, from_contract) = expand(&parsed(CAMERA), &host()).expect("maps");
    assert_eq!(from_host, from_contract);
    assert_eq!(expand(&Contract { sender: None, ..bare }, &measured), Err(ExpandError::NoSender));
}

#[test]
fn expanding_twice_is_refused_and_without_streams_nothing_happens() {
    let (once, _) = expand(&parsed(CAMERA), &host()).expect("maps");
    let twice = expand(&once, &host());
    assert!(matches!(&twice, Err(ExpandError::NameTaken { name, .. }) if name == "camera"));
    let plain = parsed("[[task]]\nname = \"t\"\nperiod = \"1s\"\nwcet = \"1ms\"");
    assert_eq!(expand(&plain, &host()), Ok((plain, Vec::new())));
}

#[test]
fn too_many_pdus_and_too_much_to_do_are_named() {
    let spec = |frame_size| StreamSpec { frame_size, ..stream(&mut ChaCha8Rng::seed_from_u64(1)) };
    let mut sender = sender(&mut ChaCha8Rng::seed_from_u64(1));
    sender.packetisation = Packetisation::new(10, 1).expect("valid");
    let map = |spec| map(&Stream::new(spec).expect("valid"), &sender, Service::ZERO);
    let too_many = map(spec(10 * MAX_PDUS + 1));
    assert_eq!(too_many, Err(MappingError::TooManyPdus { pdus: MAX_PDUS + 1, packet: 11 }));
    let fast = map(StreamSpec { frame_period: Duration::from_nanos(1), ..spec(100) });
    assert!(matches!(fast, Err(MappingError::FramesTooFast { .. })), "{fast:?}");
    let many = map(StreamSpec {
        burst: u32::MAX,
        frame_period: Duration::from_secs(86_400),
        delay: Duration::from_secs(86_400),
        time_per_pdu: Service::from_nanos(1),
        class: StreamClass::BulkData,
        ..spec(10)
    });
    assert_eq!(many, Err(MappingError::BuffersTooLarge));
}

/// The inequalities of the module's proof hold, and the counter-offers are exact.
#[test]
fn every_mapping_keeps_the_rules_of_the_proof_and_counter_offers_are_exact() {
    let (mut mapped, mut short, mut fast) = (0, 0, 0);
    for seed in 0..4_000 {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let (sender, spec, switch) =
            (sender(rng), stream(rng), Service::from_nanos(draw(rng, 0, 9)));
        let attempt = |spec: StreamSpec| map(&Stream::new(spec).expect("valid"), &sender, switch);
        match attempt(spec.clone()) {
            Ok(mapping) => {
                mapped += 1;
                let (turns, batch) = (mapping.turns_per_frame, mapping.upcall.batch().get());
                let (period, messages) = (mapping.upcall.period(), mapping.channel.arrivals());
                assert!(turns * batch >= mapping.pdus_sent, "seed {seed}");
                let spacing = messages.min_inter_arrival();
                assert!(period <= spacing, "seed {seed}");
                assert!(spacing * u64::from(turns) <= spec.frame_period, "seed {seed}");
                let delay = mapping.processing_delay + mapping.channel.delay_bound();
                assert_eq!(delay, spec.delay, "seed {seed}");
                let least = one_message(&sender, spec.frame_size, batch) * 2;
                assert!(mapping.channel.delay_bound() >= least.max(spec.delay / 4), "seed {seed}");
            }
            Err(MappingError::DelayTooShort { delay, least }) => {
                short += 1;
                assert!(delay < least, "seed {seed}");
                assert!(
                    attempt(StreamSpec { delay: least, ..spec.clone() }).is_ok(),
                    "seed {seed}"
                );
                let below = least.saturating_sub(Duration::from_nanos(1));
                assert!(attempt(StreamSpec { delay: below, ..spec }).is_err(), "seed {seed}");
            }
            Err(MappingError::FramesTooFast { need, .. }) => {
                fast += 1;
                let delay = Duration::from_secs(1);
                let with =
                    |frame_period| attempt(StreamSpec { frame_period, delay, ..spec.clone() });
                assert!(with(need.at_full_speed()).is_ok(), "seed {seed}");
                let below = need.at_full_speed().saturating_sub(Duration::from_nanos(1));
                assert!(with(below).is_err(), "seed {seed}");
            }
            Err(why) => panic!("seed {seed}: {why}"),
        }
    }
    assert!(mapped > 1_000 && short > 300 && fast > 100, "{mapped} {short} {fast}");
}

/// Tries every number of turns separately, in fractions: none needs less processor time.
#[test]
fn no_other_number_of_turns_needs_less() {
    let mut compared = 0;
    for seed in 0..2_000 {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let (sender, spec, switch) = (sender(rng), stream(rng), draw(rng, 0, 9));
        let spec = StreamSpec { class: StreamClass::ContinuousMedia, ..spec };
        let chosen =
            map(&Stream::new(spec.clone()).expect("valid"), &sender, Service::from_nanos(switch));
        let Ok(chosen) = chosen else { continue };
        let (frame, delay) = (spec.frame_period.as_nanos(), spec.delay.as_nanos());
        let share = |batch: u32, period: u64, spacing: u64| {
            let turn = u64::from(batch) * spec.time_per_pdu.as_nanos() + 2 * switch;
            let sending = crate::common::sending_need(&sender, batch);
            turn as f64 / period as f64 + sending as f64 / spacing as f64
        };
        let messages = chosen.channel.arrivals();
        let best = share(
            chosen.upcall.batch().get(),
            chosen.upcall.period().as_nanos(),
            messages.min_inter_arrival().as_nanos(),
        );
        for turns in 1..=chosen.pdus_sent {
            let batch = chosen.pdus_sent.div_ceil(turns);
            let burst_turns = u64::from(spec.burst) * u64::from(turns);
            let left =
                delay.div_ceil(4).max(2 * one_message(&sender, spec.frame_size, batch).as_nanos());
            let period =
                (frame / u64::from(turns)).min(delay.saturating_sub(left) / (burst_turns + 1));
            if period < u64::from(batch) * spec.time_per_pdu.as_nanos() + 2 * switch {
                continue;
            }
            let spacing = if burst_turns == 1 { frame } else { period };
            compared += 1;
            let other = share(batch, period, spacing);
            assert!(best <= other + 1e-6, "seed {seed}: {turns} turns need {other}, not {best}");
        }
    }
    assert!(compared > 3_000, "{compared}");
}

/// The examples are admitted unchanged, with the upcalls and channels of their streams.
#[test]
fn the_examples_are_admitted() {
    for (name, text, streams) in [
        ("channels.toml", include_str!("../../../../examples/channels.toml"), 0),
        ("stream.toml", include_str!("../../../../examples/stream.toml"), 3),
    ] {
        let contract = Contract::parse(name, text.as_bytes()).expect(name);
        let grant = admit(&contract, &host()).expect(name);
        let (expanded, mappings) = expand(&contract, &host()).expect(name);
        assert_eq!((mappings.len(), &grant.streams), (streams, &mappings));
        assert_eq!(grant.tasks.len(), expanded.tasks.len());
        assert_eq!(grant.channels.len(), expanded.channels.len());
    }
}
