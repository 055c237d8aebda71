//! Random streams and senders, and an independent computation of the mapping's numbers.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

use punctual_model::channel::{BestEffort, Link, LinkScheduling, Packetisation, SendCosts, Sender};
use punctual_model::{Duration, Service, StreamClass, StreamSpec};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

pub fn draw(rng: &mut ChaCha8Rng, from: u64, to: u64) -> u64 {
    rng.random_range(from..=to)
}

fn service(rng: &mut ChaCha8Rng, most: u64) -> Service {
    Service::from_nanos(draw(rng, 0, most))
}

/// Small numbers, so that all roundings matter.
pub fn sender(rng: &mut ChaCha8Rng) -> Sender {
    Sender {
        link: Link::new(Duration::from_nanos(draw(rng, 1, 5)), draw(rng, 0, 1)).expect("valid"),
        costs: SendCosts {
            switch: service(rng, 3),
            cache: service(rng, 3),
            first_packet: service(rng, 8),
            packet: service(rng, 4),
            link_scheduling: service(rng, 3),
        },
        packetisation: Packetisation::new(draw(rng, 1, 20) as u32, draw(rng, 1, 3) as u32)
            .expect("valid"),
        link_scheduling: LinkScheduling::NAMES[draw(rng, 0, 1) as usize].1,
        best_effort: BestEffort::None,
    }
}

pub fn stream(rng: &mut ChaCha8Rng) -> StreamSpec {
    StreamSpec {
        name: "s".into(),
        class: StreamClass::NAMES[draw(rng, 0, 3) as usize].1,
        frame_period: Duration::from_nanos(draw(rng, 1, 1_000)),
        frame_size: draw(rng, 1, 150) as u32,
        burst: if draw(rng, 0, 1) == 0 { 1 } else { draw(rng, 1, 4) as u32 },
        delay: Duration::from_nanos(draw(rng, 1, 4_000)),
        tolerated_loss_ppm: draw(rng, 0, 1) as u32 * draw(rng, 0, 999_999) as u32,
        time_per_pdu: Service::from_nanos(draw(rng, 1, 20)),
    }
}

/// Returns the processor time of a message of `batch` packets, packet by packet.
pub fn sending_need(sender: &Sender, batch: u32) -> u64 {
    let costs = sender.costs;
    let change = (costs.switch + costs.cache).as_nanos();
    (0..batch)
        .map(|packet| {
            let first = packet == 0;
            let made = if first { costs.first_packet } else { costs.packet }.as_nanos();
            let begins = packet % sender.packetisation.packets_per_block() == 0;
            let thread = sender.link_scheduling == LinkScheduling::InThread;
            made + costs.link_scheduling.as_nanos()
                + if begins { change } else { 0 }
                + if thread { change } else { 0 }
        })
        .sum()
}

/// Returns the same with the link's time.
pub fn one_message(sender: &Sender, frame_size: u32, batch: u32) -> Duration {
    let packet = sender.packetisation.packet_bytes().min(frame_size);
    let packet = sender.link.transmission_time(packet);
    packet * u64::from(batch) + Duration::from_nanos(sending_need(sender, batch))
}
