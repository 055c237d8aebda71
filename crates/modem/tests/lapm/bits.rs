//! Whole sessions over lines of bits with errors, bursts and slips, at 2400 bit/s.

use punctual_model::{Duration, Instant};
use punctual_modem::lapm::{Closed, Outcome, Parameters, Session, Start};
use punctual_modem::modem::Role;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::{Stream, chance};

const BIT: Duration = Duration::from_nanos(1_000_000_000 / 2_400);
const T400: Duration = Duration::from_millis(750);

/// The errors of a line, each in a million bits.
#[derive(Clone, Copy, Default)]
struct Trouble {
    /// Single inverted bits.
    errors: u32,
    /// Stretches of 240 bits (100 ms) that become noise.
    bursts: u32,
    /// Lost bits.
    slips: u32,
}

struct World {
    now: Instant,
    ends: [Session; 2],
    streams: [Stream; 2],
    rng: ChaCha8Rng,
    trouble: Trouble,
    burst: [u32; 2],
    reads: bool,
    context: String,
}

impl World {
    fn new(seed: u64, starts: [Start; 2], lens: [usize; 2]) -> Self {
        let now = Instant::from_nanos(1);
        let parameters = Parameters::for_rate(2_400);
        Self {
            now,
            ends: [
                Session::new(now, Role::Calling, parameters, starts[0]),
                Session::new(now, Role::Answering, parameters, starts[1]),
            ],
            streams: [Stream::new(2 * seed, lens[0]), Stream::new(2 * seed + 1, lens[1])],
            rng: ChaCha8Rng::seed_from_u64(seed),
            trouble: Trouble::default(),
            burst: [0; 2],
            reads: true,
            context: format!("seed {seed}"),
        }
    }

    fn step(&mut self) {
        let sent = self.ends.each_mut().map(|session| session.next_bit(self.now));
        for (from, bit) in sent.into_iter().enumerate() {
            if let Some(bit) = self.pass(from, bit) {
                self.ends[1 - from].put_bit(self.now, bit);
            }
        }
        for (end, session) in self.ends.iter_mut().enumerate() {
            let stream = &mut self.streams[end];
            stream.written += session.write(stream.rest());
            let mut room = [0; 64];
            let count = if self.reads { session.read(&mut room) } else { 0 };
            self.streams[1 - end].came(&room[..count], &self.context);
        }
        self.now += BIT;
    }

    fn pass(&mut self, from: usize, bit: bool) -> Option<bool> {
        let random = self.rng.next_u64();
        let draw = (random >> 32) as u32 % 1_000_000;
        let Trouble { errors, bursts, slips } = self.trouble;
        if draw < bursts {
            self.burst[from] = 240;
        }
        if self.burst[from] > 0 {
            self.burst[from] -= 1;
            return Some(random & 1 == 1);
        }
        match draw.wrapping_sub(bursts) {
            draw if draw < errors => Some(!bit),
            draw if draw.wrapping_sub(errors) < slips => None,
            _ => Some(bit),
        }
    }

    fn run(&mut self, seconds: u64, done: impl Fn(&Self) -> bool) -> bool {
        for _ in 0..seconds * 240 {
            if done(self) {
                return true;
            }
            (0..10).for_each(|_| self.step());
        }
        done(self)
    }

    fn complete(&self) -> bool {
        self.streams.iter().all(Stream::is_complete)
            && self.ends.iter().all(|session| session.unacknowledged() == 0)
    }

    fn over(&self) -> bool {
        self.complete()
            || self.ends.iter().all(|session| matches!(session.outcome(), Outcome::Closed(_)))
    }
}

const DETECT: Start = Start::Detect { t400: T400 };

#[test]
fn all_ways_to_begin_come_to_error_correction() {
    for starts in [[DETECT, DETECT], [Start::Direct, DETECT], [Start::Direct, Start::Direct]] {
        let mut world = World::new(1, starts, [3_000, 2_000]);
        assert!(world.run(60, World::complete), "{starts:?}");
        for session in &world.ends {
            assert_eq!(session.outcome(), Outcome::Corrected);
            assert_eq!(session.deframer_stats().bad, 0);
            assert_eq!(session.link_stats().map(|stats| stats.timeouts), Some(0), "{starts:?}");
        }
    }
}

#[test]
fn an_end_without_error_correction_is_talked_to_in_plain_characters() {
    for starts in [[DETECT, Start::Plain], [Start::Plain, DETECT]] {
        let mut world = World::new(2, starts, [0, 0]);
        world.reads = false;
        world.run(2, |_| false);
        for session in &world.ends {
            assert_eq!(session.outcome(), Outcome::Plain);
        }
        // Ignore the characters that the plain end received from the detection pattern.
        let mut odd = [0; 200];
        let seen = world.ends.each_mut().map(|session| session.read(&mut odd));
        assert!(seen.iter().all(|&count| count < 110), "{seen:?}");
        world.reads = true;
        world.streams = [Stream::new(1, 500), Stream::new(2, 400)];
        assert!(world.run(10, World::complete), "{starts:?}");
    }
}

#[test]
fn bits_may_be_wrong_missing_or_noise() {
    let (mut complete, mut bad) = (0, 0);
    for seed in 0..60 {
        let mut world = World::new(seed, [DETECT, DETECT], [2_000, 1_500]);
        world.trouble = [
            Trouble { errors: 100, ..Trouble::default() },
            Trouble { bursts: 50, ..Trouble::default() },
            Trouble { slips: 100, ..Trouble::default() },
            Trouble { errors: 300, bursts: 100, slips: 100 },
            Trouble { errors: 3_000, bursts: 0, slips: 0 },
        ][seed as usize % 5];
        world.run(120, World::over);
        world.trouble = Trouble::default();
        assert!(world.run(400, World::over), "seed {seed}: neither complete nor over");
        complete += u32::from(world.complete());
        bad += world.ends.iter().map(|session| session.deframer_stats().bad).sum::<u64>();
    }
    assert!(complete >= 48, "{complete} of 60");
    assert!(bad > 1_000, "{bad}");
}

/// The modem has to cope with a hundredth of all samples lost in bursts.
#[test]
fn one_percent_of_bursts_is_survived_or_said() {
    let mut complete = 0;
    for seed in 0..30 {
        let mut world = World::new(seed, [DETECT, DETECT], [3_000, 3_000]);
        // 1 % of the time in bursts of 100 ms: a burst begins at 42 of a million bits.
        world.trouble = Trouble { bursts: 42, ..Trouble::default() };
        assert!(world.run(300, World::over), "seed {seed}");
        complete += u32::from(world.complete());
    }
    assert!(complete >= 28, "{complete} of 30");
}

#[test]
fn a_peer_that_vanishes_is_noticed() {
    let mut world = World::new(3, [DETECT, DETECT], [50_000, 0]);
    world.run(10, |_| false);
    // Only noise from here on.
    world.trouble = Trouble { bursts: 1_000_000, ..Trouble::default() };
    assert!(world.run(120, World::over));
    for session in &world.ends {
        assert_eq!(session.outcome(), Outcome::Closed(Closed::LineLost));
    }
}

#[test]
fn chance_is_chance() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let hits = (0..10_000).filter(|_| chance(&mut rng, 100)).count();
    assert!((900..1_100).contains(&hits));
}
