//! Frames lost, late and not read, over thousands of seeds; frame by frame, without bits.

use std::collections::VecDeque;

use punctual_model::{Duration, Instant};
use punctual_modem::lapm::xid::Limits;
use punctual_modem::lapm::{Closed, Link, LinkState, Parameters};
use punctual_modem::modem::Role;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::{Stream, chance};

/// One direction: the frames in flight, and the time at which the line can take the next.
struct Wire {
    on_the_way: VecDeque<(Instant, Vec<u8>)>,
    free: Instant,
}

pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) ends: [Link; 2],
    streams: [Stream; 2],
    wires: [Wire; 2],
    rng: ChaCha8Rng,
    /// Lost frames in 1,000.
    pub(crate) loss: u32,
    delay: Duration,
    /// The chance in 1,000, at each step, that an end reads the bytes that came.
    reads: [u32; 2],
    context: String,
}

/// The time of a byte at 2400 bit/s.
const BYTE: Duration = Duration::from_nanos(8 * 1_000_000_000 / 2_400);

impl World {
    pub(crate) fn new(seed: u64, parameters: [Parameters; 2], lens: [usize; 2]) -> Self {
        let now = Instant::from_nanos(1_000);
        let [calling, answering] = parameters;
        Self {
            now,
            ends: [
                Link::new(now, Role::Calling, calling),
                Link::new(now, Role::Answering, answering),
            ],
            streams: [Stream::new(2 * seed, lens[0]), Stream::new(2 * seed + 1, lens[1])],
            wires: [0, 1].map(|_| Wire { on_the_way: VecDeque::new(), free: now }),
            rng: ChaCha8Rng::seed_from_u64(seed),
            loss: 0,
            delay: Duration::from_millis(20),
            reads: [1_000; 2],
            context: format!("seed {seed}"),
        }
    }

    /// Runs everything due at `now`, then advances to the next instant at which something happens.
    pub(crate) fn step(&mut self) {
        for end in 0..2 {
            let link = &mut self.ends[end];
            let stream = &mut self.streams[end];
            stream.written += link.write(stream.rest());
            while self.wires[1 - end].on_the_way.front().is_some_and(|(due, _)| *due <= self.now) {
                let (_, frame) = self.wires[1 - end].on_the_way.pop_front().expect("one is there");
                link.frame(self.now, &frame);
            }
            if chance(&mut self.rng, self.reads[end]) {
                let mut room = [0; 100];
                while let count @ 1.. = link.read(&mut room) {
                    self.streams[1 - end].came(&room[..count], &self.context);
                    if self.reads[end] < 1_000 {
                        break;
                    }
                }
            }
            link.handle_timeout(self.now);
            if self.wires[end].free <= self.now
                && let Some(frame) = link.next_frame(self.now)
            {
                let length = BYTE * (frame.bytes().len() as u64 + 3);
                self.wires[end].free = self.now + length;
                if !chance(&mut self.rng, self.loss) {
                    let due = self.now + length + self.delay;
                    self.wires[end].on_the_way.push_back((due, frame.bytes().to_vec()));
                }
            }
        }
        let soonest = self.wires.iter().flat_map(|wire| {
            let arrival = wire.on_the_way.front().map(|(due, _)| *due);
            [Some(wire.free).filter(|&free| free > self.now), arrival]
        });
        let timeouts = self.ends.iter().map(Link::next_timeout);
        let next = soonest.chain(timeouts).flatten().filter(|&at| at > self.now).min();
        // An end that does not read tries again soon.
        let tick = self.now + Duration::from_millis(200);
        self.now = next.map_or(tick, |next| next.min(tick));
    }

    pub(crate) fn run_until(&mut self, end: Instant, done: impl Fn(&Self) -> bool) -> bool {
        while self.now < end {
            if done(self) {
                return true;
            }
            self.step();
        }
        done(self)
    }

    fn complete(&self) -> bool {
        self.streams.iter().all(Stream::is_complete)
            && self.ends.iter().all(|link| link.unacknowledged() == 0)
    }

    fn closed(&self) -> bool {
        self.ends.iter().all(|link| matches!(link.state(), LinkState::Closed(_)))
    }
}

pub(crate) fn parameters() -> Parameters {
    Parameters::for_rate(2_400)
}

const HOUR: Instant = Instant::from_nanos(3_600_000_000_000);

#[test]
fn a_clean_line_carries_everything_with_next_to_nothing_sent_twice() {
    for seed in 0..50 {
        let mut world = World::new(seed, [parameters(); 2], [20_000, 15_000]);
        assert!(world.run_until(HOUR, World::complete), "seed {seed}: {:?}", world.ends[0].stats());
        for link in &world.ends {
            assert_eq!(link.state(), LinkState::Connected);
            assert_eq!((link.stats().frames_repeated, link.stats().timeouts), (0, 0));
            assert_eq!(link.stats().out_of_order, 0);
        }
        // 20,000 bytes in frames of 128 need 83 ms of overhead in 6 s: 95 % of the line.
        let seconds = (world.now - Instant::from_nanos(1_000)).as_secs_f64();
        assert!(seconds < 20_000.0 * BYTE.as_secs_f64() * 1.08 + 1.0, "{seconds} s");
    }
}

#[test]
fn every_byte_arrives_once_and_in_order_or_the_link_says_that_it_is_over() {
    let (mut complete, mut ended, mut repeated) = (0, 0, 0);
    for seed in 0..3_000 {
        let mut draw = ChaCha8Rng::seed_from_u64(1_000_000 + seed);
        let mut some = |choices: &[u32]| choices[draw.next_u32() as usize % choices.len()];
        let own = |n401, k, negotiate| Parameters {
            limits: Limits::both(n401 as u16, k as u8),
            negotiate,
            ..parameters()
        };
        let negotiate = some(&[0, 1]) == 1;
        // Without negotiation both ends must have the same values (V.42 leaves that to the user).
        let (n401, k) = (some(&[1, 16, 128, 256]), some(&[1, 2, 7, 15, 32]));
        let (far_n401, far_k) =
            if negotiate { (some(&[8, 64, 128]), some(&[1, 3, 15])) } else { (n401, k) };
        let lens = [some(&[0, 1, 700, 4_000]), some(&[0, 90, 3_000])].map(|len| len as usize);
        let both = [own(n401, k, negotiate), own(far_n401, far_k, negotiate)];
        let mut world = World::new(seed, both, lens);
        world.loss = some(&[0, 10, 50, 150, 300, 600]);
        world.delay = Duration::from_millis(some(&[0, 5, 50, 400]).into());
        world.reads = [some(&[1_000, 1_000, 300, 20]), some(&[1_000, 1_000, 300, 20])];
        let loss = world.loss;
        let done = |world: &World| world.complete() || world.closed();
        let now = world.now;
        world.run_until(now + Duration::from_secs(120), done);
        // The line is repaired, and both ends read: the transfer must complete or the link must
        // end.
        world.loss = 0;
        world.reads = [1_000; 2];
        let over = world.run_until(HOUR, done);
        assert!(
            over,
            "seed {seed}: stuck in {:?} {:?}",
            world.ends.each_ref().map(Link::state),
            world.ends.each_ref().map(Link::stats)
        );
        complete += u32::from(world.complete());
        ended += u32::from(!world.complete());
        repeated += world.ends[0].stats().frames_repeated;
        assert!(world.complete() || loss >= 150, "seed {seed}: gave up at {loss} of 1,000");
    }
    assert!(complete > 2_000 && ended > 50, "{complete} complete, {ended} ended");
    assert!(repeated > 10_000, "{repeated}");
}

#[test]
fn an_end_that_does_not_read_stops_the_other_and_loses_nothing() {
    for seed in 0..20 {
        let mut world = World::new(seed, [parameters(); 2], [60_000, 500]);
        world.reads = [1_000, 0];
        let minutes = world.now + Duration::from_secs(600);
        assert!(!world.run_until(minutes, World::complete));
        assert_eq!(world.ends[0].state(), LinkState::Connected, "patience is unlimited");
        assert!(world.ends[1].readable() < 60_000 / 2, "what waits is bounded");
        assert!(world.streams[0].written < 60_000);
        assert!(world.streams[1].is_complete(), "the other direction flows");
        world.reads = [1_000; 2];
        assert!(world.run_until(HOUR, World::complete), "seed {seed}");
        assert_eq!(world.ends[1].stats().no_room, 0, "RNR came in time");
    }
}

#[test]
fn a_line_that_dies_is_noticed_by_both_ends_even_when_nothing_is_sent() {
    for (seed, lens) in [(1, [0, 0]), (2, [50_000, 0]), (3, [50_000, 50_000])] {
        let mut world = World::new(seed, [parameters(); 2], lens);
        let connected = world.now + Duration::from_secs(10);
        world.run_until(connected, |_| false);
        assert!(world.ends.iter().all(|link| link.state() == LinkState::Connected));
        world.loss = 1_000;
        let patience = world.now + Duration::from_secs(90);
        assert!(world.run_until(patience, World::closed), "lens {lens:?}");
        for link in &world.ends {
            assert_eq!(link.state(), LinkState::Closed(Closed::LineLost));
            assert_eq!(link.next_timeout(), None);
        }
    }
}

#[test]
fn a_missing_far_end_is_noticed() {
    let mut world = World::new(1, [parameters(); 2], [10, 10]);
    world.loss = 1_000;
    assert!(world.run_until(HOUR, World::closed));
    for link in &world.ends {
        assert_eq!(link.state(), LinkState::Closed(Closed::NoPeer));
    }
}

#[test]
fn an_end_that_is_released_takes_the_other_with_it() {
    for seed in 0..200 {
        let mut world = World::new(seed, [parameters(); 2], [3_000, 3_000]);
        world.loss = 200 * (seed as u32 % 3);
        let who = (seed % 2) as usize;
        let when = world.now + Duration::from_millis(37 * seed);
        world.run_until(when, |_| false);
        world.ends[who].release();
        assert!(world.run_until(HOUR, World::closed), "seed {seed}");
        if world.loss == 0 && when > Instant::from_nanos(2_000_000_000) {
            assert_eq!(world.ends[who].state(), LinkState::Closed(Closed::Released));
            assert_eq!(world.ends[1 - who].state(), LinkState::Closed(Closed::ByPeer));
        }
        assert_eq!(world.ends[who].write(b"x"), 0);
    }
}

#[test]
fn both_ends_agree_on_the_smaller_window_and_frame() {
    let big = Parameters { limits: Limits::both(256, 20), ..parameters() };
    let small = Parameters { limits: Limits::both(40, 3), ..parameters() };
    for both in [[big, small], [small, big]] {
        let mut world = World::new(5, both, [2_000, 2_000]);
        assert!(world.run_until(HOUR, World::complete));
        for link in &world.ends {
            let limits = link.limits();
            assert_eq!((limits.n401_sent, limits.n401_received), (40, 40));
            assert_eq!((limits.k_sent, limits.k_received), (3, 3));
        }
    }
}
