//! The trends of real-time channels, §5 (Figures 6 and 7), and the published results of the
//! formulas.

use punctual_analysis::Steps;
use punctual_analysis::channel::{DelayBound, paper};
use punctual_model::channel::{
    BestEffort, Channel, LinearBounded, Link, LinkScheduling, Packetisation, SendCosts, Sender,
};
use punctual_model::{Duration, Service};
use sending_host::bounds::{Assumed, admit_channels, sound};

const KB: u32 = 1024;

/// Returns the sender of §5: 50 ns a byte, the costs of the emulated device, a best-effort backlog.
fn sender(option: LinkScheduling, packet: u32, per_block: u32) -> Sender {
    Sender {
        link: Link::new(Duration::from_micros(40), 50).expect("valid"),
        costs: SendCosts {
            switch: Service::from_micros(55),
            cache: Service::from_micros(90),
            first_packet: Service::from_micros(420),
            packet: Service::from_micros(170),
            link_scheduling: Service::from_micros(40),
        },
        packetisation: Packetisation::new(packet, per_block).expect("valid"),
        link_scheduling: option,
        best_effort: BestEffort::fixed(32 * KB),
    }
}

/// Returns `n` channels of 32 KB every 100 ms with a delay bound of 100 ms.
fn channels(n: usize) -> Vec<Channel> {
    let period = Duration::from_millis(100);
    let arrivals = LinearBounded::fixed(32 * KB, period, 1).expect("valid");
    vec![Channel::new("a", &arrivals.into(), period).expect("valid"); n]
}

/// Returns how many channels a test admits.
fn admitted(fits: impl Fn(&[Channel], &mut Steps) -> bool) -> usize {
    (1..).find(|&n| !fits(&channels(n), &mut Steps::default())).expect("some number") - 1
}

fn within(delays: &[DelayBound], channels: &[Channel]) -> bool {
    delays.iter().zip(channels).all(|(d, c)| d.bound().is_some_and(|d| d <= c.delay_bound()))
}

fn by_paper(sender: &Sender) -> usize {
    admitted(|set, steps| within(&paper::delays(sender, set, steps), set))
}

fn by_sound(sender: &Sender) -> usize {
    admitted(|set, steps| within(&sound::delays(sender, set, steps), set))
}

/// Returns the same with steps that take at least `ppm` parts per million of their costs.
fn by_sound_of_least(ppm: u32, sender: &Sender) -> usize {
    let assumed = Assumed::at_least(ppm, sender.costs);
    admitted(|set, steps| within(&sound::delays_assuming(sender, set, assumed, steps), set))
}

const SIZES: [u32; 9] = [1, 2, 4, 6, 8, 10, 12, 16, 32];

#[test]
fn figure_6b_o1_channels_rise_with_packet_size() {
    let channels = SIZES.map(|kb| by_paper(&sender(LinkScheduling::InInterrupt, kb * KB, 1)));
    assert_eq!(channels, [8, 16, 26, 30, 35, 35, 38, 41, 45]);
}

#[test]
fn figure_6a_o1_channels_rise_a_little_with_packets_between_preemptions() {
    let channels =
        [1, 2, 3, 4, 6, 8].map(|p| by_paper(&sender(LinkScheduling::InInterrupt, 4 * KB, p)));
    assert_eq!(channels, [26, 31, 33, 34, 34, 36]);
}

#[test]
fn figure_7b_o2_channels_fall_where_the_link_becomes_slower_than_a_block() {
    let channels = SIZES.map(|kb| by_paper(&sender(LinkScheduling::InThread, kb * KB, 1)));
    assert_eq!(channels, [6, 12, 22, 12, 16, 16, 19, 24, 32]);
}

#[test]
fn figure_7a_o2_channels_jump_at_two_packets_between_preemptions() {
    let channels = [1, 2, 3, 4, 6].map(|p| by_paper(&sender(LinkScheduling::InThread, 8 * KB, p)));
    assert_eq!(channels, [16, 31, 29, 28, 28]);
}

/// §5.2: "≈ 40 % improvement over and above O1 with P = 1" without costs of preemption.
#[test]
fn section_5_2_ideal_resources_admit_38_percent_more_at_4_kb() {
    let real = sender(LinkScheduling::InInterrupt, 4 * KB, 1);
    let costs = SendCosts { switch: Service::ZERO, cache: Service::ZERO, ..real.costs };
    let ideal = Sender { costs, best_effort: BestEffort::None, ..real };
    let (real, ideal) = (by_paper(&real), by_paper(&ideal));
    assert_eq!((real, ideal, ideal * 100 / real), (26, 36, 138));
}

/// A handler that may be faster than the link cannot be relied on to keep it free; O1 does not rely
/// on that.
#[test]
fn o2_is_promised_less_where_costs_are_upper_bounds_only() {
    let o1 = sender(LinkScheduling::InInterrupt, 4 * KB, 1);
    assert_eq!(by_sound(&o1), by_sound_of_least(1_000_000, &o1));
    let o2 = sender(LinkScheduling::InThread, 4 * KB, 1);
    assert!(by_sound(&o2) < by_sound_of_least(1_000_000, &o2));
}

/// A packet of 4 KB takes 244.8 µs of the link, the shortest block with its change at most 315 µs:
/// 77.8 % of that is longer than the packet, 77.7 % is not.
#[test]
fn o2_is_promised_as_much_as_with_exact_costs_where_blocks_certainly_outlast_packets() {
    let o2 = sender(LinkScheduling::InThread, 4 * KB, 1);
    let least = [0, 777_000, 778_000, 800_000, 1_000_000];
    assert_eq!(least.map(|ppm| by_sound_of_least(ppm, &o2)), [12, 12, 22, 22, 22]);
}

#[test]
fn admission_uses_the_proven_bound_and_offers_what_would_fit() {
    let host = sender(LinkScheduling::InInterrupt, 4 * KB, 1);
    let most = by_sound(&host);
    let grant = admit_channels(&host, &channels(most), &mut Steps::default()).expect("fits");
    assert_eq!(grant.channels.len(), most);
    let refusal = admit_channels(&host, &channels(most + 1), &mut Steps::default());
    println!("{}", refusal.expect_err("one too many"));
}
