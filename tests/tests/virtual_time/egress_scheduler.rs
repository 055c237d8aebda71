//! The egress scheduler of the communication server keeps the promises of the analysis, in virtual
//! time.
//!
//! The driver hands over as a thread of its own would: the processor's time for each packet passes
//! before the packet begins to leave. So for the analysis it is a part of the link's start-up, and
//! the processor itself takes none. A block is not interrupted: for the analysis it is one packet,
//! with as many start-ups as it has packets.

use crate::egress_driver::{Source, Stream, System, Tally, drive};
use punctual_analysis::Steps;
use punctual_model::channel::{
    BestEffort, Channel, LinearBounded, Link, LinkScheduling, Packetisation, SendCosts, Sender,
    TooEarly,
};
use punctual_model::{Duration, Instant, Rank, Service};
use punctual_policy::egress::{Promise, Terms};
use punctual_policy::queues::ServiceOrder;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sending_host::bounds::{ChannelGrant, admit_channels};
use system_tests::seeds::on_all_threads;

const FREE: SendCosts = SendCosts {
    switch: Service::ZERO,
    cache: Service::ZERO,
    first_packet: Service::ZERO,
    packet: Service::ZERO,
    link_scheduling: Service::ZERO,
};

fn draw_system(rng: &mut ChaCha8Rng) -> System {
    let cpu = rng.random_range(1_000..=20_000);
    let nanos_per_byte = rng.random_range(1..=80);
    let packet = rng.random_range(64..=9_000);
    let per_block = if rng.random_bool(0.6) { 1 } else { rng.random_range(2..=5) };
    System {
        cpu: Duration::from_nanos(cpu),
        // Headers, and gaps between packets.
        wire: Link::new(Duration::from_nanos(rng.random_range(0..=20_000)), nanos_per_byte)
            .expect("valid"),
        cut: Packetisation::new(packet, per_block).expect("valid"),
        pace: Duration::ZERO,
        best_effort: (0..rng.random_range(0..=3)).map(|_| rng.random_range(1..=30_000)).collect(),
    }
}

/// Returns the sender for admission.
fn sender(system: &System) -> Sender {
    let System { cut, pace, best_effort, .. } = system;
    let blocks = cut.packets_per_block();
    let startup = system.link().transmission_time(0) * u64::from(blocks);
    let of_a_byte = system.link().transmission_time(1) - system.link().transmission_time(0);
    let largest = best_effort.iter().copied().max();
    Sender {
        link: Link::new(startup, of_a_byte.as_nanos())
            .expect("valid")
            .at_least(*pace * u64::from(blocks)),
        costs: FREE,
        packetisation: Packetisation::new(cut.packet_bytes() * blocks, 1).expect("valid"),
        link_scheduling: LinkScheduling::InInterrupt,
        best_effort: largest.map_or(BestEffort::None, BestEffort::up_to),
    }
}

/// Draws one to seven channels that ask for 10 to 100 % of the link.
fn draw_channels(system: &System, rng: &mut ChaCha8Rng) -> Vec<Channel> {
    let count = rng.random_range(1..=7);
    let load = rng.random_range(0.1..1.0);
    (0..count)
        .map(|at| {
            let most = rng.random_range(1..=30_000_u32);
            let least = if rng.random_bool(0.6) { most } else { rng.random_range(1..=most) };
            let (full, last) = (system.cut.packets_of(most) - 1, system.cut.last_packet_of(most));
            let work = system.link().transmission_time(system.cut.packet_bytes()) * u64::from(full)
                + system.link().transmission_time(last);
            let share = load / f64::from(count) * rng.random_range(0.5..1.5);
            let period = Duration::from_nanos((work.as_nanos() as f64 / share) as u64);
            let burst = if rng.random_bool(0.4) { 1 } else { rng.random_range(2..=6) };
            let arrivals = LinearBounded::new(least, most, period, burst).expect("valid");
            let delay = (period.as_nanos() as f64 * rng.random_range(0.3..3.0)) as u64;
            Channel::new(format!("{at}"), &arrivals.into(), Duration::from_nanos(delay))
                .expect("valid")
        })
        .collect()
}

/// Draws the traffic of one run: all channels together, at drawn phases, one just after another
/// from the least urgent up, or anything conforming; some of them send ten times what they
/// declared.
fn draw_streams(
    channels: &[Channel],
    grant: &ChannelGrant,
    rng: &mut ChaCha8Rng,
) -> (Vec<Stream>, Instant) {
    let longest = channels.iter().map(|c| c.arrivals().min_inter_arrival()).max().expect("some");
    let start = rng.random_range(0..3_000_000);
    // Beyond the last of the first messages, too.
    let until = Instant::from_nanos(start + 3_000_000) + longest * 4;
    let pattern = rng.random_range(0..4);
    let step = rng.random_range(1..400_000);
    let streams = channels.iter().zip(&grant.channels).map(|(channel, granted)| {
        let arrivals = channel.arrivals();
        let spacing = arrivals.min_inter_arrival().as_nanos();
        let from_below = u64::from(channels.len() as u32 - 1 - granted.rank);
        let first = start
            + match pattern {
                0 => 0,
                1 => rng.random_range(0..spacing),
                2 => (step + rng.random_range(0..=1)) * from_below,
                _ => rng.random_range(0..=step),
            };
        let first = Instant::from_nanos(first);
        let rng = ChaCha8Rng::seed_from_u64(rng.random());
        let source = match pattern {
            3 => Source::drawn(arrivals, first, until, rng),
            _ => Source::greedy(arrivals, first, until, rng),
        };
        Stream {
            terms: Terms {
                arrivals,
                promise: Promise::RealTime {
                    rank: Rank(granted.rank),
                    delay_bound: channel.delay_bound(),
                },
                too_early: TooEarly::Wait,
            },
            source,
        }
    });
    (streams.collect(), until)
}

fn assert_within(tallies: &[Tally], bounds: &[Duration], what: &str, seed: u64) {
    for (at, (tally, bound)) in tallies.iter().zip(bounds).enumerate() {
        let longest = tally.longest;
        assert!(longest <= *bound, "{what}, seed {seed}, channel {at}: {longest} > {bound}");
    }
}

/// Thousands of admitted systems, beside best effort that always has something to send: no message
/// takes longer than was granted. The seed in the message replays a failure.
#[test]
fn no_message_of_an_admitted_channel_is_late() {
    none_is_late(|system, _| system);
}

/// The same where packets are paced at one to four times the processor time of one, so that the
/// link decides for some and the pace for others.
#[test]
fn no_message_of_an_admitted_channel_is_late_at_a_pace() {
    none_is_late(|system, rng| {
        let least = system.cpu.as_nanos();
        System { pace: Duration::from_nanos(rng.random_range(least..=4 * least)), ..system }
    });
}

fn none_is_late(change: impl Fn(System, &mut ChaCha8Rng) -> System + Sync) {
    let closest = std::sync::atomic::AtomicU64::new(0);
    let admitted = on_all_threads(3_000, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let system = draw_system(&mut rng);
        let system = change(system, &mut rng);
        let channels = draw_channels(&system, &mut rng);
        let grant = admit_channels(&sender(&system), &channels, &mut Steps::default());
        let Ok(grant) = grant else { return false };
        let proven: Vec<_> = grant.channels.iter().map(|channel| channel.delay_bound).collect();
        let declared: Vec<_> = channels.iter().map(Channel::delay_bound).collect();
        let mut orders = vec![(ServiceOrder::Rank, &proven)];
        if grant.holds_in_deadline_order {
            orders.push((ServiceOrder::Deadline, &declared));
        }
        for (order, bounds) in orders {
            let (streams, until) = draw_streams(&channels, &grant, &mut rng);
            let tallies = drive(&system, order, streams, until, &mut rng);
            assert_within(&tallies, bounds, &format!("{order:?}"), seed);
            for (tally, bound) in tallies.iter().zip(bounds) {
                assert!(tally.complete > 0 && tally.not_conforming == 0, "seed {seed}");
                assert_eq!(tally.complete, tally.offered, "seed {seed}");
                let permille = tally.longest.as_nanos() * 1_000 / bound.as_nanos();
                closest.fetch_max(permille, std::sync::atomic::Ordering::Relaxed);
            }
        }
        true
    });
    let closest = closest.into_inner();
    println!("{admitted} admitted, the longest delay over its bound {closest} ‰");
    assert!(admitted > 1_000, "{admitted} admitted");
    // A bound that no run comes near would be no test of the egress scheduler.
    assert!(closest > 900, "{closest}");
}

/// A client that sends ten times what it declared, in any size, delays neither other channels'
/// messages nor its own accepted ones.
#[test]
fn a_client_that_breaks_its_contract_harms_no_other() {
    let admitted = on_all_threads(600, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let system = draw_system(&mut rng);
        let channels = draw_channels(&system, &mut rng);
        let grant = admit_channels(&sender(&system), &channels, &mut Steps::default());
        let Ok(grant) = grant else { return false };
        let bounds: Vec<_> = grant.channels.iter().map(|channel| channel.delay_bound).collect();
        let (mut streams, until) = draw_streams(&channels, &grant, &mut rng);
        let culprit = rng.random_range(0..channels.len());
        let loses = rng.random_bool(0.5);
        let Stream { terms, source } = &mut streams[culprit];
        terms.too_early = if loses { TooEarly::Discard } else { TooEarly::Wait };
        let flood = ChaCha8Rng::seed_from_u64(rng.random());
        *source = Source::flood(terms.arrivals, Instant::ZERO, until, flood);
        let tallies = drive(&system, ServiceOrder::Rank, streams, until, &mut rng);
        assert_within(&tallies, &bounds, "beside a flood", seed);
        for (at, tally) in tallies.iter().enumerate() {
            assert_eq!(tally.wrong_size > 0, at == culprit, "seed {seed}");
            assert_eq!(tally.too_early > 0, at == culprit && loses, "seed {seed}");
            assert_eq!(tally.not_conforming > 0, at == culprit && !loses, "seed {seed}");
            // The accepted messages, counted in every window.
            tally.assert_policed(channels[at].arrivals(), at == culprit && !loses, seed);
        }
        true
    });
    assert!(admitted > 150, "{admitted} admitted");
}

/// Channels that always have something to send: the n-th message counts as arrived exactly n
/// spacings after the first. Best effort has a share as well, where the link has room.
#[test]
fn a_saturating_channel_gets_its_rate_exactly() {
    for seed in 0..20 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let system = System { best_effort: Vec::new(), ..draw_system(&mut rng) };
        let of = |bytes: u32| system.link().transmission_time(bytes);
        let whole = system.cut.packet_bytes();
        // A third of the link for each, with odd spacings.
        let streams: Vec<Stream> = (0..3)
            .map(|at| {
                let spacing = of(whole) * 3 + Duration::from_nanos(1 + 2 * rng.random_range(0..9));
                let arrivals = LinearBounded::fixed(whole, spacing, 1).expect("valid");
                let delay_bound = spacing * 2;
                let promise = match at {
                    2 => Promise::BestEffort,
                    rank => Promise::RealTime { rank: Rank(rank), delay_bound },
                };
                let terms = Terms { arrivals, promise, too_early: TooEarly::Wait };
                Stream { terms, source: Source::always(whole) }
            })
            .collect();
        let spacings: Vec<_> =
            streams.iter().map(|s| s.terms.arrivals.min_inter_arrival()).collect();
        let until = Instant::ZERO + spacings[0] * 5_000;
        let tallies = drive(&system, ServiceOrder::Rank, streams, until, &mut rng);
        for (tally, spacing) in tallies.iter().zip(spacings) {
            let messages = tally.logical.len() as u64;
            assert!(messages > 4_900, "seed {seed}: {messages}");
            for (at, logical) in tally.logical.iter().enumerate() {
                assert_eq!(*logical, tally.logical[0] + spacing * at as u64, "seed {seed}");
            }
            assert!(tally.longest <= spacing * 2, "seed {seed}");
        }
    }
}
