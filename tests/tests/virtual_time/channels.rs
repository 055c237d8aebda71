//! Admitted channels keep their delay bounds in the simulator, which shares no line with the
//! bounds: it drives the policies of `sending_host::policy`.

use crate::channels_draw::{draw_backlogs, draw_channels, draw_hogs, draw_sender, simulate};
use punctual_analysis::Steps;
use punctual_model::channel::{
    BestEffort, Channel, LinearBounded, Link, LinkScheduling, Packetisation, SendCosts, Sender,
};
use punctual_model::{Duration, Instant, Service};
use punctual_policy::queues::ServiceOrder::{Deadline, Rank};
use punctual_sim::egress::traffic::{Delays, Message, greedy, periodic};
use punctual_sim::egress::{Drawn, Exact};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sending_host::bounds::{Assumed, Interference, admit_channels, edf, sound};
use sending_host::simulation::sources::{Backlog, Hog, HogPattern};
use sending_host::simulation::{Setup, run};
use system_tests::seeds::on_all_threads;

/// Draws costs of steps from as little as nothing to their worst.
fn draw_costs(rng: &mut ChaCha8Rng) -> Drawn<ChaCha8Rng> {
    let least_percent = rng.random_range(0..=100);
    Drawn { least_percent, rng: ChaCha8Rng::seed_from_u64(rng.random()) }
}

/// Returns steps that take at least this percentage of their costs.
fn at_least(percent: u64, sender: &Sender) -> Assumed<'static> {
    Assumed::at_least(percent as u32 * 10_000, sender.costs)
}

fn system(seed: u64) -> (Sender, Vec<Channel>, ChaCha8Rng) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let sender = draw_sender(&mut rng);
    let channels = draw_channels(&sender, &mut rng);
    (sender, channels, rng)
}

fn assert_within(seen: &Delays, bounds: &[Duration], what: &str, seed: u64) {
    for (channel, bound) in seen.channels.iter().zip(bounds) {
        assert!(channel.longest <= *bound, "{what}, seed {seed}: {} > {bound}", channel.longest);
    }
}

/// Several thousand admitted systems, with costs as drawn and with the worst: no message is late, and
/// none takes longer than was granted. The seed in the message replays a failure.
#[test]
fn admitted_channels_are_never_late() {
    let admitted = on_all_threads(5_000, |seed| {
        let (sender, channels, mut rng) = system(seed);
        let Ok(grant) = admit_channels(&sender, &channels, &mut Steps::default()) else {
            return false;
        };
        let bounds: Vec<_> = grant.channels.iter().map(|channel| channel.delay_bound).collect();
        let mut runs = vec![
            simulate(&sender, &channels, Rank, &[], Exact, 2, &mut rng),
            simulate(&sender, &channels, Rank, &[], draw_costs(&mut rng), 2, &mut rng),
        ];
        for seen in &runs {
            assert_within(seen, &bounds, "by rank", seed);
        }
        if grant.holds_in_deadline_order {
            let costs = draw_costs(&mut rng);
            runs.push(simulate(&sender, &channels, Deadline, &[], costs, 2, &mut rng));
        }
        for channel in runs.iter().flat_map(|seen| &seen.channels) {
            assert_eq!(
                (channel.late, channel.refused, channel.not_conforming),
                (0, 0, 0),
                "{seed}"
            );
        }
        true
    });
    println!("{admitted} admitted");
    assert!(admitted > 3_000, "{admitted} admitted");
}

/// A source that sends ten times as much as it declared, in any size, is held and refused. Neither
/// the other channels' messages nor its own accepted ones take longer than was granted.
#[test]
fn a_misbehaving_channel_harms_no_other() {
    let admitted = on_all_threads(700, |seed| {
        let (sender, channels, mut rng) = system(seed);
        let Ok(grant) = admit_channels(&sender, &channels, &mut Steps::default()) else {
            return false;
        };
        let bounds: Vec<_> = grant.channels.iter().map(|channel| channel.delay_bound).collect();
        let culprit = rng.random_range(0..channels.len());
        let spacing = channels[culprit].arrivals().min_inter_arrival();
        let longest = channels.iter().map(|c| c.arrivals().min_inter_arrival()).max();
        let until = Instant::from_nanos(3_000_000) + longest.expect("some") * 3;
        let first = Instant::from_nanos(2_000_000);
        let most = channels[culprit].arrivals().max_message();
        let mut flood = rng.clone();
        let source = |at: usize| -> Box<dyn Iterator<Item = Message>> {
            if at != culprit {
                return Box::new(
                    greedy(channels[at].arrivals(), first).take_while(|m| m.at < until),
                );
            }
            let mut sizes = flood.clone();
            flood = ChaCha8Rng::seed_from_u64(flood.random());
            let tenth = Duration::from_nanos(spacing.as_nanos().div_ceil(10));
            let messages = periodic(first, tenth, most).take_while(|m| m.at < until);
            Box::new(messages.map(move |message| {
                let wrong = sizes.random_bool(0.2);
                Message { bytes: if wrong { most * 2 } else { most }, ..message }
            }))
        };
        let sources = (0..channels.len()).map(source).collect();
        let backlogs = draw_backlogs(&sender, &mut rng);
        let (channels, hogs) = (&channels[..], &[]);
        let setup =
            Setup { sender: &sender, channels, order: Rank, room: 8, backlogs: &backlogs, hogs };
        let mut seen = Delays::new(channels);
        let end = until + longest.expect("some") * 200;
        let totals = run(&setup, sources, draw_costs(&mut rng), end, &mut seen);
        assert_eq!(totals.inside, 0);
        assert_within(&seen, &bounds, "beside a flood", seed);
        for (at, channel) in seen.channels.iter().enumerate() {
            assert_eq!(channel.refused > 0 && channel.not_conforming > 0, at == culprit, "{seed}");
        }
        true
    });
    assert!(admitted > 300, "{admitted} admitted");
}

/// Compares the bounds with interference (Theorem 4 of `docs/channel-bounds.md`) with hogs that
/// come late and then early, and whenever a packet goes on the link.
#[test]
fn bounds_beneath_hogs_are_never_exceeded() {
    let bounded = on_all_threads(3_000, |seed| {
        let (sender, channels, mut rng) = system(seed);
        let (hogs, interference) = draw_hogs(&mut rng);
        let mut any = false;
        for least_percent in [100, 0, rng.random_range(50..100)] {
            let assumed =
                Assumed { interference: &interference, ..at_least(least_percent, &sender) };
            let bounds = sound::delays_assuming(&sender, &channels, assumed, &mut Steps::default());
            let by_deadline =
                edf::all_in_time_assuming(&sender, &channels, assumed, &mut Steps::default());
            let orders = [Rank, Deadline];
            for order in orders {
                let bounds: Option<Vec<Duration>> = match order {
                    Rank => bounds.iter().map(|bound| bound.bound()).collect(),
                    Deadline if by_deadline => {
                        Some(channels.iter().map(Channel::delay_bound).collect())
                    }
                    Deadline => None,
                };
                let Some(bounds) = bounds else { continue };
                any = true;
                // A step that may take nothing often takes most of its cost all the same.
                let costs = match least_percent {
                    0 => draw_costs(&mut rng),
                    _ => Drawn { least_percent, rng: ChaCha8Rng::seed_from_u64(rng.random()) },
                };
                let seen = simulate(&sender, &channels, order, &hogs, costs, 2, &mut rng);
                assert_within(&seen, &bounds, "beneath hogs", seed);
            }
        }
        any
    });
    println!("{bounded} bounded");
    assert!(bounded > 1_200, "{bounded} bounded");
}

/// The example of `docs/channel-bounds.md`, "Interference from above": adding the hogs' work to the
/// window is not enough. While one runs, the link becomes free, and that costs C_link once more.
#[test]
fn interference_lets_more_link_scheduling_through() {
    let micros = Service::from_micros;
    let sender = Sender {
        link: Link::new(Duration::from_micros(40), 0).expect("valid"),
        costs: SendCosts {
            switch: Service::ZERO,
            cache: Service::ZERO,
            first_packet: micros(10_000),
            packet: micros(10),
            link_scheduling: micros(40),
        },
        packetisation: Packetisation::new(100, 1).expect("valid"),
        link_scheduling: LinkScheduling::InInterrupt,
        best_effort: BestEffort::fixed(400_000),
    };
    let traffic = LinearBounded::fixed(100, Duration::from_secs(10), 1).expect("valid");
    let delay_bound = Duration::from_secs(1);
    let channels = [Channel::new("one", &traffic.into(), delay_bound).expect("valid")];
    // At every second start, for as long as the packet takes.
    let (work, period) = (micros(40), Duration::from_micros(160));
    let hogs = [Hog { work, period, pattern: HogPattern::AtStarts }];
    let backlog =
        Backlog { bytes: 400_000, first: Instant::ZERO, pause: Duration::ZERO, room: 100_000 };
    let mut seen = Delays::new(&channels);
    for at in 50..100 {
        let message = Message { at: Instant::ZERO + Duration::from_millis(at * 5), bytes: 100 };
        let setup = Setup {
            sender: &sender,
            channels: &channels,
            order: Rank,
            room: 1,
            backlogs: &[backlog],
            hogs: &hogs,
        };
        let until = Instant::from_nanos(2_000_000_000);
        let sources = vec![[message].into_iter()];
        assert_eq!(run(&setup, sources, Exact, until, &mut seen).inside, 0);
    }
    let seen = seen.channels[0].longest;
    let interference = [Interference { work, period, jitter: Duration::ZERO }];
    let bound = |interference| {
        let delays = sound::delays_beneath(&sender, &channels, interference, &mut Steps::default());
        delays[0].bound().expect("little load")
    };
    let times = seen.as_nanos().div_ceil(period.as_nanos());
    let hoped = bound(&[]) + work.at_full_speed() * times;
    assert!(
        hoped < seen && seen <= bound(&interference),
        "{hoped} {seen} {}",
        bound(&interference)
    );
    println!("hoped for {hoped}, seen {seen}, bound {}", bound(&interference));
}

/// Shows why O2 is promised less where costs are upper bounds: on a processor slightly faster than
/// declared, a block ends before the link is free, and the next packet waits for another channel's
/// block.
#[test]
fn in_o2_a_faster_processor_exceeds_the_bound_for_exact_costs() {
    let exceeded = on_all_threads(400, |seed| {
        let (sender, channels, mut rng) = system(seed);
        let bounds = |assumed| {
            let bounds = sound::delays_assuming(&sender, &channels, assumed, &mut Steps::default());
            bounds.iter().map(|bound| bound.bound()).collect::<Option<Vec<_>>>()
        };
        let Some(exact) = bounds(at_least(100, &sender)) else { return false };
        let costs = Drawn { least_percent: 80, rng: ChaCha8Rng::seed_from_u64(seed) };
        let seen = simulate(&sender, &channels, Rank, &[], costs, 8, &mut rng);
        for percent in [0, 80] {
            if let Some(safe) = bounds(at_least(percent, &sender)) {
                assert_within(&seen, &safe, "at least nothing, 80 %", seed);
            }
        }
        let exceeds = seen.channels.iter().zip(&exact).any(|(seen, bound)| seen.longest > *bound);
        assert!(!exceeds || sender.link_scheduling == LinkScheduling::InThread, "seed {seed}");
        exceeds
    });
    assert!(exceeded > 0);
}
