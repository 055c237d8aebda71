//! The paper's host.

use punctual_model::channel::{
    BestEffort, Channel, LinearBounded, Link, LinkScheduling, Packetisation, SendCosts, Sender,
};
use punctual_model::{Duration, Service};

pub(crate) const KB: u32 = 1024;

pub(crate) const OPTIONS: [(&str, LinkScheduling); 2] =
    [("O1", LinkScheduling::InInterrupt), ("O2", LinkScheduling::InThread)];

/// Returns the emulated device of real-time channels, §5, with a best-effort backlog of 32 KB
/// messages; the costs as far as they are legible there: C_switch 55, C_cache 90, C_prot^first 420,
/// C_prot 170, C_link 40, start-up 40 µs.
pub(crate) fn sender(
    option: LinkScheduling,
    nanos_per_byte: u64,
    packet_kb: u32,
    packets_per_block: u32,
) -> Sender {
    let valid = "sizes and costs are constants within the rules";
    Sender {
        link: Link::new(Duration::from_micros(40), nanos_per_byte).expect(valid),
        costs: SendCosts {
            switch: Service::from_micros(55),
            cache: Service::from_micros(90),
            first_packet: Service::from_micros(420),
            packet: Service::from_micros(170),
            link_scheduling: Service::from_micros(40),
        },
        packetisation: Packetisation::new(packet_kb * KB, packets_per_block).expect(valid),
        link_scheduling: option,
        best_effort: BestEffort::fixed(32 * KB),
    }
}

/// The period and the delay bound of all channels of §5.
pub(crate) const PERIOD: Duration = Duration::from_millis(100);

/// Returns `n` channels of one 32 KB message every 100 ms, to be sent within 100 ms.
pub(crate) fn channels(n: usize) -> Vec<Channel> {
    let arrivals = LinearBounded::fixed(32 * KB, PERIOD, 1).expect("a valid process");
    vec![Channel::new("channel", &arrivals.into(), PERIOD).expect("a valid bound"); n]
}
