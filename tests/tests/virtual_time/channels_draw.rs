//! Draws senders, channels and their traffic, for the tests of channels.

use punctual_analysis::channel::deadline_monotonic;
use punctual_model::channel::{
    BestEffort, Channel, LinearBounded, Link, LinkScheduling, Packetisation, SendCosts, Sender,
};
use punctual_model::{Duration, Instant, Service};
use punctual_policy::queues::ServiceOrder;
use punctual_sim::egress::Costs;
use punctual_sim::egress::traffic::{Delays, Message, drawn, greedy};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sending_host::bounds::Interference;
use sending_host::simulation::sources::{Backlog, Hog, HogPattern};
use sending_host::simulation::{Setup, run};

/// Draws a host like those of real-time channels, §5, and unlike them: links from faster to slower
/// than the processor, blocks from one to five packets.
pub(crate) fn draw_sender(rng: &mut ChaCha8Rng) -> Sender {
    let micros = |rng: &mut ChaCha8Rng, from, to| Service::from_micros(rng.random_range(from..=to));
    let startup = Duration::from_micros(rng.random_range(5..=60));
    let bytes = rng.random_range(1..=65_536u32);
    Sender {
        link: Link::new(startup, rng.random_range(0..=100)).expect("valid"),
        costs: SendCosts {
            switch: micros(rng, 0, 80),
            cache: micros(rng, 0, 120),
            first_packet: micros(rng, 100, 500),
            packet: micros(rng, 50, 300),
            link_scheduling: micros(rng, 0, 60),
        },
        packetisation: Packetisation::new(1024 * rng.random_range(1..=16), rng.random_range(1..=5))
            .expect("valid"),
        link_scheduling: if rng.random_bool(0.5) {
            LinkScheduling::InInterrupt
        } else {
            LinkScheduling::InThread
        },
        best_effort: match rng.random_range(0..6) {
            0 => BestEffort::None,
            1 => BestEffort::up_to(bytes),
            2 => BestEffort::Sized { least: bytes.div_ceil(2), most: bytes },
            _ => BestEffort::fixed(bytes),
        },
    }
}

/// Draws two to eight channels that ask for 10 to 80 % of the capacity of `sender`, ranked by delay
/// bound.
pub(crate) fn draw_channels(sender: &Sender, rng: &mut ChaCha8Rng) -> Vec<Channel> {
    let count = rng.random_range(2..=8);
    let load = rng.random_range(0.1..0.8);
    let (cut, costs) = (sender.packetisation, sender.costs);
    let channels: Vec<Channel> = (0..count)
        .map(|at| {
            let most = rng.random_range(1..=65_536u32);
            let least = if rng.random_bool(0.8) { most } else { rng.random_range(1..=most) };
            let packets = u64::from(cut.packets_of(most));
            let full = sender.link.transmission_time(most.min(cut.packet_bytes())).as_nanos();
            let change = costs.change_of_handler().as_nanos();
            let packet = costs.packet.as_nanos() + costs.link_scheduling.as_nanos() + change;
            let work = packets * full.max(packet) + costs.first_packet.as_nanos();
            let share = load / f64::from(count) * rng.random_range(0.5..1.5);
            let period = Duration::from_nanos((work as f64 / share) as u64);
            let burst = if rng.random_bool(0.5) { 1 } else { rng.random_range(2..=4) };
            let arrivals = LinearBounded::new(least, most, period, burst).expect("valid");
            let delay = (period.as_nanos() as f64 * rng.random_range(0.5..2.0)) as u64;
            let delay = Duration::from_nanos(delay);
            Channel::new(format!("{at}"), &arrivals.into(), delay).expect("valid")
        })
        .collect();
    deadline_monotonic(&channels).into_iter().map(|at| channels[at].clone()).collect()
}

/// Draws best effort within the share of `sender`: none, or one to three sources, backlogged or
/// with pauses.
pub(crate) fn draw_backlogs(sender: &Sender, rng: &mut ChaCha8Rng) -> Vec<Backlog> {
    let BestEffort::Sized { least, most } = sender.best_effort else { return Vec::new() };
    (0..rng.random_range(1..=3))
        .map(|_| {
            let bytes = rng.random_range(least..=most);
            let pause = if rng.random_bool(0.6) { 0 } else { rng.random_range(0..1_000_000) };
            Backlog {
                bytes,
                first: Instant::from_nanos(rng.random_range(0..2_500_000)),
                pause: Duration::from_nanos(pause),
                room: sender.packetisation.packets_of(bytes) + rng.random_range(0..64),
            }
        })
        .collect()
}

/// Draws one to three hogs that take up to a third of the processor, and their description for
/// admission.
pub(crate) fn draw_hogs(rng: &mut ChaCha8Rng) -> (Vec<Hog>, Vec<Interference>) {
    let count = rng.random_range(1..=3);
    let hogs: Vec<Hog> = (0..count)
        .map(|_| {
            let work = 1_000 * rng.random_range(5..=800u64);
            let share = rng.random_range(0.02..0.33) / f64::from(count);
            let period = Duration::from_nanos((work as f64 / share) as u64);
            let late = match rng.random_range(0..3) {
                0 => Duration::ZERO,
                _ => Duration::from_nanos(period.as_nanos() - work),
            };
            let first = Instant::from_nanos(rng.random_range(0..4_000_000));
            let pattern = match rng.random_range(0..3) {
                0 => HogPattern::AtStarts,
                _ => HogPattern::Periodic { first, late },
            };
            Hog { work: Service::from_nanos(work), period, pattern }
        })
        .collect();
    let all: u64 = hogs.iter().map(|hog| hog.work.as_nanos()).sum();
    let told = hogs.iter().map(|hog| {
        let late = match hog.pattern {
            HogPattern::Periodic { late, .. } => late.as_nanos(),
            HogPattern::AtStarts => 0,
        };
        // The hogs wait for each other: at most two jobs of each are there at once, and those that
        // come meanwhile, of a third of the processor.
        let waits = if hogs.len() > 1 { 4 * all } else { 0 };
        let jitter = Duration::from_nanos(late + waits);
        Interference { work: hog.work, period: hog.period, jitter }
    });
    let told = told.collect();
    (hogs, told)
}

/// Draws the sources of one run: bursts together, at drawn phases, one just after another from the
/// least urgent up, or any.
fn draw_sources(
    channels: &[Channel],
    rng: &mut ChaCha8Rng,
) -> (Vec<Box<dyn Iterator<Item = Message>>>, Instant) {
    let spacing = |c: &Channel| c.arrivals().min_inter_arrival();
    let longest = channels.iter().map(spacing).max().expect("some");
    let pattern = rng.random_range(0..4);
    let start = 2_000_000 + rng.random_range(0..2_000_000);
    let step = rng.random_range(1..1_500_000);
    let until = Instant::from_nanos(start) + longest * 3;
    let count = channels.len() as u64;
    let source = |(channel, at): (&Channel, u64)| -> Box<dyn Iterator<Item = Message>> {
        let first = match pattern {
            0 => start,
            1 => start + rng.random_range(0..spacing(channel).as_nanos()),
            2 => start + (step + rng.random_range(0..=1)) * (count - 1 - at),
            _ => start + rng.random_range(0..=step),
        };
        let (traffic, first) = (channel.arrivals(), Instant::from_nanos(first));
        match pattern {
            3 => {
                let messages = drawn(traffic, first, ChaCha8Rng::seed_from_u64(rng.random()));
                Box::new(messages.take_while(move |m| m.at < until))
            }
            _ => Box::new(greedy(traffic, first).take_while(move |m| m.at < until)),
        }
    };
    let sources = channels.iter().zip(0..).map(source).collect();
    (sources, until + longest * 60)
}

/// Simulates `runs` drawn runs, and returns the result for each channel.
pub(crate) fn simulate(
    sender: &Sender,
    channels: &[Channel],
    order: ServiceOrder,
    hogs: &[Hog],
    costs: impl Costs + Clone,
    runs: u32,
    rng: &mut ChaCha8Rng,
) -> Delays {
    let mut delays = Delays::new(channels);
    for _ in 0..runs {
        let backlogs = draw_backlogs(sender, rng);
        let (sources, until) = draw_sources(channels, rng);
        let setup = Setup { sender, channels, order, room: 64, backlogs: &backlogs, hogs };
        let totals = run(&setup, sources, costs.clone(), until, &mut delays);
        assert_eq!(totals.inside, 0, "every message leaves before {until:?}");
    }
    delays
}
