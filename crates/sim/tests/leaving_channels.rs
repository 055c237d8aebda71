//! Channels open, change and close while others send: no message of an admitted channel is late in
//! virtual time.

use punctual_analysis::channel::egress::Egress;
use punctual_analysis::{Carrier, Request, Steps, System, UpcallOrder};
use punctual_model::channel::{Channel, LinearBounded, Link, Packetisation};
use punctual_model::{Duration, HostProfile, Instant, Service};
use punctual_sim::egress::traffic::{Delays, Message, greedy};
use punctual_sim::egress::{Exact, Server, Setup};
use punctual_sim::processor::Whole;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// The time at which the capacity of a channel that closed or changed is free for others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Free {
    /// At once.
    AtOnce,
    /// As soon as the admission state says so.
    Settled,
    /// The same, and the sender says when it is idle.
    Reported,
}

/// A sender whose blocks take 8 µs, so that the order of messages is all but preemptive.
fn egress() -> Egress {
    let link = Link::new(Duration::ZERO, 80).expect("fast enough");
    let cut = Packetisation::new(100, 1).expect("valid");
    let cpu = "500us/1ms".parse().expect("valid");
    Egress::new(link, cut, Service::from_nanos(10), cpu, Duration::ZERO).expect("fast enough")
}

/// Makes a channel whose messages take `link_us` of the link every `spacing_us`.
fn channel(link_us: u64, spacing_us: u64, bound_us: u64) -> Channel {
    let bytes = u32::try_from(link_us * 1_000 / 81).expect("short").max(1);
    let arrivals = LinearBounded::fixed(bytes, Duration::from_micros(spacing_us), 1);
    let arrivals = arrivals.expect("valid");
    Channel::new("c", &arrivals.into(), Duration::from_micros(bound_us)).expect("valid")
}

fn at(us: u64) -> Instant {
    Instant::from_nanos(us * 1_000)
}

/// The contract of a channel in the time from its admission to its end or change.
struct Open {
    id: u32,
    channel: Channel,
    since: Instant,
    until: Instant,
}

/// A host whose channels open and close, with one request of the owner after the other.
struct Host {
    free: Free,
    system: System<u32>,
    all: Vec<Open>,
    refused: u32,
}

impl Host {
    fn new(free: Free) -> Self {
        let mut system = System::new(HostProfile::ideal(1), UpcallOrder::LevelOrder);
        system.carry_with_nothing_set_aside(Carrier {
            egress: egress(),
            change: Service::ZERO,
            cpu: None,
            link: None,
            headers: 0,
            best_effort_ppm: 0,
            received_packet: Service::ZERO,
        });
        Self { free, system, all: Vec::new(), refused: 0 }
    }

    /// Tells the admission state that the sender is idle, if every message so far has left.
    fn report(&mut self, now: Instant) {
        if self.free == Free::Reported && self.send(now, now).0 == 0 {
            self.system.sender_idle(now);
        }
    }

    fn open(&mut self, channel: Channel, now: Instant) -> Option<u32> {
        let id = self.all.len() as u32;
        _ = self.system.settle(now);
        if self.system.admit(id, Request::Sending(&channel), &mut Steps::default()).is_err() {
            self.refused += 1;
            return None;
        }
        self.all.push(Open { id, channel, since: now, until: Instant::MAX });
        Some(id)
    }

    /// Returns the contract that is in force, and the instant at which its next message may count
    /// as arrived, if it sends as soon as it may.
    fn current(&mut self, id: u32, now: Instant) -> (&mut Open, Instant) {
        let open = self.all.iter_mut().rfind(|open| open.id == id).expect("it was opened");
        let spacing = open.channel.arrivals().min_inter_arrival();
        let sent = now.saturating_since(open.since).as_nanos().div_ceil(spacing.as_nanos());
        let next = open.since.saturating_add(spacing * sent);
        (open, next)
    }

    fn close(&mut self, id: u32, now: Instant) {
        self.current(id, now).0.until = now;
        let was_there = match self.free {
            Free::AtOnce => self.system.release(id),
            Free::Settled | Free::Reported => self.system.retire(id, now),
        };
        assert!(was_there);
    }

    fn change(&mut self, id: u32, channel: Channel, now: Instant) {
        let since = (self.free != Free::AtOnce).then_some(now);
        let request = Request::Sending(&channel);
        if self.system.change(id, request, since, &mut Steps::default()).is_err() {
            self.refused += 1;
            return;
        }
        let (old, next) = self.current(id, now);
        old.until = now;
        self.all.push(Open { id, channel, since: next.max(now), until: Instant::MAX });
    }

    /// Has every channel send as much and as early as it may until `end`, and returns how many
    /// messages left, and how many of them late.
    fn run(&self, end: Instant) -> (u64, u64) {
        let (left_over, sent, late) = self.send(end, end + Duration::from_secs(60));
        assert_eq!(left_over, 0, "every message leaves");
        (sent, late)
    }

    /// Sends the messages before `end` until `last`, and returns how many have not left by then, how
    /// many have, and how many of them late.
    fn send(&self, end: Instant, last: Instant) -> (u64, u64, u64) {
        let egress = egress();
        let channels: Vec<Channel> = self.all.iter().map(|open| open.channel.clone()).collect();
        let sources = self.all.iter().map(|open| {
            let until = open.until.min(end);
            greedy(open.channel.arrivals(), open.since)
                .take_while(move |message: &Message| message.at < until)
        });
        let setup = Setup {
            link: egress.link(),
            cut: egress.cut(),
            per_packet: egress.per_packet(),
            pace: egress.pace().unwrap_or(Duration::ZERO),
            wakes_within: Duration::ZERO,
            channels: &channels,
            held: &[],
            room: 64,
            backlogs: &[],
        };
        let mut seen = Delays::new(&channels);
        let mut server = Server::new(setup, Whole, sources.collect(), Exact, &mut seen);
        let left_over = server.finish(last);
        drop(server);
        let sum = |of: fn(&punctual_sim::egress::traffic::ChannelDelays) -> u64| {
            seen.channels.iter().map(of).sum()
        };
        assert_eq!(sum(|one| one.refused + one.not_conforming), 0);
        (left_over, sum(|one| one.sent), sum(|one| one.late))
    }
}

/// 5 ms every 20 ms beside 29 ms every 40 ms. The first channel closes when its next message would
/// be due, and another takes its place whose message is as much as two of them.
fn replacing(free: Free) -> (u32, u64) {
    let mut host = Host::new(free);
    host.open(channel(29_500, 40_000, 40_000), at(0)).expect("three quarters");
    let first = host.open(channel(5_000, 20_000, 6_000), at(0)).expect("one quarter");
    host.close(first, at(20_000));
    _ = host.open(channel(10_000, 100_000, 11_000), at(20_000));
    (host.refused, host.run(at(200_000)).1)
}

#[test]
fn a_message_is_late_if_the_capacity_of_a_closed_channel_is_reused_at_once() {
    assert_eq!(replacing(Free::AtOnce), (0, 1));
    assert_eq!(replacing(Free::Settled), (1, 0));
}

#[test]
fn capacity_of_a_closed_channel_is_free_once_the_sender_was_idle() {
    let mut host = Host::new(Free::Settled);
    host.open(channel(29_500, 40_000, 40_000), at(0)).expect("three quarters");
    let first = host.open(channel(5_000, 20_000, 6_000), at(0)).expect("one quarter");
    host.close(first, at(20_000));
    assert_eq!(host.open(channel(10_000, 100_000, 11_000), at(20_000)), None);
    let by = host.system.free_by().expect("it still counts");
    // At most one message of each was pending: 34.5 ms. What stays takes 29.5 of every 40 ms.
    assert!((at(170_000)..at(180_000)).contains(&by), "{by}");
    host.open(channel(10_000, 100_000, 11_000), by).expect("its place is free");
    assert_eq!(host.run(at(600_000)).1, 0);
}

#[test]
fn a_reduction_of_a_channel_is_never_refused_and_frees_capacity_later() {
    let mut host = Host::new(Free::Settled);
    host.open(channel(20_000, 40_000, 40_000), at(0)).expect("a half");
    let shrinks = host.open(channel(9_500, 20_000, 20_000), at(0)).expect("about the other half");
    let new = channel(9_500, 20_000, 10_000);
    assert_eq!(host.open(new.clone(), at(0)), None);
    for reduced in [(9_500, 25_000, 20_000), (9_500, 40_000, 20_000), (400, 40_000, 30_000)] {
        let (link, spacing, bound) = reduced;
        host.change(shrinks, channel(link, spacing, bound), at(1_000));
    }
    assert_eq!(host.refused, 1);
    assert_eq!(host.open(new.clone(), at(1_000)), None);
    let by = host.system.free_by().expect("it still counts");
    host.open(new, by).expect("what it gave back");
    assert_eq!(host.system.free_by(), None);
    assert_eq!(host.run(at(600_000)).1, 0);
}

/// Draws a channel that asks for up to four fifths of the link.
fn drawn_channel(rng: &mut ChaCha8Rng) -> Channel {
    let spacing = rng.random_range(2_000..40_000);
    let link = spacing * rng.random_range(5..80) / 100;
    let bound = (link * 11 / 10 + 100).max(spacing * rng.random_range(1..25) / 10);
    channel(link, spacing, bound)
}

/// Draws a host on which a channel opens, changes or closes every few milliseconds.
fn drawn(seed: u64, free: Free) -> (Host, Instant) {
    let rng = &mut ChaCha8Rng::seed_from_u64(seed);
    let mut host = Host::new(free);
    let mut live = Vec::new();
    let mut now = at(0);
    for _ in 0..rng.random_range(10..40) {
        host.report(now);
        let some = (!live.is_empty()).then(|| rng.random_range(0..live.len()));
        match (rng.random_range(0..10), some) {
            (0..=2, Some(some)) => host.close(live.swap_remove(some), now),
            (3, Some(some)) => host.change(live[some], drawn_channel(rng), now),
            _ => live.extend(host.open(drawn_channel(rng), now)),
        }
        now += Duration::from_micros(rng.random_range(0..20_000));
    }
    (host, now + Duration::from_millis(200))
}

/// Draws more hosts with `PUNCTUAL_DRAWS=100000 cargo test …`.
#[test]
fn no_message_of_an_admitted_channel_is_late_while_channels_open_change_and_close() {
    let count = std::env::var("PUNCTUAL_DRAWS").ok().and_then(|count| count.parse().ok());
    let count = count.unwrap_or(400);
    let [mut admitted, mut refused, mut sent, mut late_at_once, mut sooner] = [0; 5];
    for seed in 0..count {
        let (host, end) = drawn(seed, Free::Settled);
        let (left, late) = host.run(end);
        assert_eq!(late, 0, "seed {seed}");
        admitted += host.all.len() as u64;
        refused += u64::from(host.refused);
        sent += left;
        let (host, end) = drawn(seed, Free::Reported);
        let (reported, late) = host.run(end);
        assert_eq!(late, 0, "seed {seed}, with reports");
        sooner += u64::from(reported != left);
        let (host, end) = drawn(seed, Free::AtOnce);
        late_at_once += u64::from(host.run(end).1 > 0);
    }
    println!(
        "{count} hosts: {admitted} admitted, {refused} refused, {sent} messages; {late_at_once} with late messages if \
         all were free at once"
    );
    assert!(
        admitted > 4 * count && refused > count && sent > 20 * count,
        "{admitted} {refused} {sent}"
    );
    assert!(late_at_once > count / 100, "{late_at_once}");
    assert!(sooner > count / 10, "{sooner}");
}
