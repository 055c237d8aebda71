//! The egress scheduler keeps the promises of `analysis::channel::egress`, in virtual time.

use std::sync::atomic::{AtomicU64, Ordering};

use punctual_analysis::Steps;
use punctual_analysis::channel::egress::Egress;
use punctual_analysis::reservation::of_the_kernel;
use punctual_model::channel::{Channel, LinearBounded, Link, Packetisation};
use punctual_model::{Duration, Instant, Reservation, Service, Task, TaskSpec};
use punctual_policy::jobs::Jobs;
use punctual_sim::arrivals::Periodic;
use punctual_sim::egress::traffic::{Backlog, Delays, Message, drawn, greedy};
use punctual_sim::egress::{Drawn, Server, Setup};
use punctual_sim::tasks::{Below, Setting};
use punctual_trace::{Event, Sink};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use system_tests::seeds::on_all_threads;

/// A sink that ignores every event.
struct Untold;

impl Sink for Untold {
    fn record(&mut self, _: Event) {}
}

/// Draws links from faster to slower than the processor, paced or not.
fn draw_egress(rng: &mut ChaCha8Rng) -> Egress {
    let startup = Duration::from_nanos(rng.random_range(0..=20_000));
    let link = Link::new(startup, rng.random_range(1..=80)).expect("valid");
    let per_block = if rng.random_bool(0.6) { 1 } else { rng.random_range(2..=5) };
    let cut = Packetisation::new(rng.random_range(64..=9_000), per_block).expect("valid");
    let per_packet = Service::from_nanos(rng.random_range(1_000..=20_000));
    let cpu = ["500us/1ms", "9ms/10ms", "1ms/1ms"][rng.random_range(0..3)];
    let allowance = Duration::from_nanos(rng.random_range(0..=100_000));
    Egress::new(link, cut, per_packet, cpu.parse().expect("valid"), allowance).expect("fast")
}

/// Draws one to seven channels that ask for 10 to 90 % of thread and link.
fn draw_channels(egress: &Egress, rng: &mut ChaCha8Rng) -> Vec<Channel> {
    let count = rng.random_range(1..=7);
    let load = rng.random_range(0.1..0.9);
    let channel = |at: u32| {
        let most = rng.random_range(1..=30_000_u32);
        let least = if rng.random_bool(0.6) { most } else { rng.random_range(1..=most) };
        let share = load / f64::from(count) * rng.random_range(0.5..1.5);
        let period = (egress.time_of(most).as_nanos() as f64 / share) as u64;
        let burst = if rng.random_bool(0.4) { 1 } else { rng.random_range(2..=6) };
        let arrivals = LinearBounded::new(least, most, Duration::from_nanos(period), burst);
        let delay = (period as f64 * rng.random_range(0.3..3.0)) as u64;
        let delay = Duration::from_nanos(delay).saturating_add(egress.looks_within());
        Channel::new(format!("{at}"), &arrivals.expect("valid").into(), delay).expect("valid")
    };
    (0..count).map(channel).collect()
}

fn draw_reservations(rng: &mut ChaCha8Rng) -> Vec<Reservation> {
    let count = [0, 0, 1, 2][rng.random_range(0..4)];
    let one = |_| {
        let period = rng.random_range(200_000..5_000_000);
        let budget = rng.random_range(period / 50..=period / 6);
        Reservation::new(Service::from_nanos(budget), Duration::from_nanos(period)).expect("valid")
    };
    (0..count).map(one).collect()
}

/// Returns the reservations as tasks, which take all of their budgets.
fn budgets(all: &[Reservation]) -> Vec<Task> {
    let task = |one: &Reservation| {
        Task::new(TaskSpec::periodic("reserved", one.period(), one.budget())).expect("valid")
    };
    all.iter().map(task).collect()
}

/// Thousands of admitted systems beside best effort that always has something to send, beneath
/// reservations, with a thread that wakes up as late as admission assumes: no message takes longer
/// than was proven, nor than was requested.
#[test]
fn no_message_of_an_admitted_channel_is_late() {
    let closest = AtomicU64::new(0);
    let admitted = on_all_threads(4_000, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let egress = draw_egress(&mut rng);
        let channels = draw_channels(&egress, &mut rng);
        let reservations = draw_reservations(&mut rng);
        let reserved = budgets(&reservations);
        let above = of_the_kernel(reservations.iter().copied());
        let (mut steps, mut for_bounds) = (Steps::default(), Steps::default());
        if !egress.all_in_time(&channels, &above, &mut steps) {
            return false;
        }
        let bounds = egress.delays(&channels, &above, &mut steps, &mut for_bounds);
        let longest = channels.iter().map(|c| c.arrivals().min_inter_arrival()).max();
        for _ in 0..3 {
            let start = rng.random_range(0..3_000_000);
            let until = Instant::from_nanos(start + 3_000_000) + longest.expect("some") * 4;
            let spread = [0, 400_000, 3_000_000][rng.random_range(0..3)];
            let conforming = rng.random_bool(0.3);
            let sources = channels.iter().map(|channel| {
                let first = Instant::from_nanos(start + rng.random_range(0..=spread));
                let draws = ChaCha8Rng::seed_from_u64(rng.random());
                let messages: Box<dyn Iterator<Item = Message>> = match conforming {
                    true => Box::new(drawn(channel.arrivals(), first, draws)),
                    false => Box::new(greedy(channel.arrivals(), first)),
                };
                messages.take_while(move |message| message.at < until)
            });
            let sources = sources.collect();
            let backlog = |_| Backlog {
                bytes: rng.random_range(1..=30_000),
                first: Instant::from_nanos(rng.random_range(0..=start)),
                pause: Duration::ZERO,
            };
            let backlogs: Vec<Backlog> = (0..start % 3).map(backlog).collect();
            let pace = egress.pace().unwrap_or(Duration::ZERO);
            let setup = Setup {
                link: egress.link(),
                cut: egress.cut(),
                per_packet: egress.per_packet(),
                pace,
                wakes_within: egress.allowance().min(pace),
                channels: &channels,
                held: &[],
                room: 64,
                backlogs: &backlogs,
            };
            let phase = |_: &Task| Duration::from_nanos(rng.random_range(0..=start));
            let phases: Vec<Duration> = reserved.iter().map(phase).collect();
            let end = until + Duration::from_secs(60);
            let left = Below::new(
                Setting::default(),
                &reserved,
                Jobs::earliest_deadline(reserved.len()),
                Periodic::new(&reserved, &phases),
                end,
                Untold,
            );
            let least_percent = [100, 0, 60][rng.random_range(0..3)];
            let costs = Drawn { least_percent, rng: ChaCha8Rng::seed_from_u64(rng.random()) };
            let mut seen = Delays::new(&channels);
            let inside = Server::new(setup, left, sources, costs, &mut seen).finish(end);
            assert_eq!(inside, 0, "seed {seed}: every message leaves");
            for (at, (seen, bound)) in seen.channels.iter().zip(&bounds).enumerate() {
                let bound = bound.bound().expect("all are in time");
                assert!(bound <= seen.delay_bound, "seed {seed}, channel {at}");
                let took = seen.longest;
                assert!(
                    took <= bound,
                    "seed {seed}, channel {at}: {took} > {bound} {setup:?} {reservations:?} {bounds:?} longest {} start {start} spread {spread} conf {conforming} least {least_percent}",
                    egress.longest()
                );
                assert!(seen.sent > 0 && seen.not_conforming + seen.refused == 0, "seed {seed}");
                let permille = took.as_nanos() * 1_000 / bound.as_nanos();
                closest.fetch_max(permille, Ordering::Relaxed);
            }
        }
        true
    });
    let closest = closest.into_inner();
    println!("{admitted} admitted, the longest delay over its bound {closest} ‰");
    assert!(admitted > 1_000, "{admitted} admitted");
    // A bound that no run comes near would be no test of the scheduler.
    assert!(closest > 850, "{closest}");
}
