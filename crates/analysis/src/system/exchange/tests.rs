//! Compares a system in which exchanges are refused or undone with one that never saw them.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use punctual_model::channel::{
    BitRate, Channel, Direction, Framing, LinearBounded, Link, Packetisation, ReadLimit,
};
use punctual_model::reservation::Enforcement;
use punctual_model::{Duration, HostProfile, Instant, Reservation, Service, Task, TaskSpec};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::channel::egress::Egress;
use crate::system::{Carrier, Joining, UpcallOrder};

const CPUS: u16 = 3;
/// The CPU whose timetable is followed.
const FOLLOWED: u16 = 0;
/// The CPU whose commands are to begin together.
const TOGETHER: u16 = 1;

type Answer = Result<String, Box<Refusal>>;

enum Wanted {
    Executor(Vec<Task>),
    Deadline(Reservation),
    Command(Reservation),
    Seat(Reservation),
    Share(u64),
    Sending(Channel),
    Receiving(ReadLimit),
    BestEffort,
}

fn micros(from: &mut ChaCha8Rng, least: u64, most: u64) -> u64 {
    from.random_range(least..=most)
}

fn reservation(rng: &mut ChaCha8Rng, part: u64) -> Reservation {
    let period = [5_000, 10_000, 20_000, 40_000][rng.random_range(0..4)];
    let budget = Service::from_micros(micros(rng, 100, period / part));
    Reservation::new(budget, Duration::from_micros(period)).expect("valid")
}

fn task(rng: &mut ChaCha8Rng) -> Task {
    let period = micros(rng, 5_000, 60_000);
    let wcet = micros(rng, 1, period / 4);
    let quantum = Service::from_micros(micros(rng, 1, wcet));
    let (period, wcet) = (Duration::from_micros(period), Service::from_micros(wcet));
    Task::new(TaskSpec { quantum, ..TaskSpec::periodic("t", period, wcet) }).expect("valid")
}

impl Wanted {
    fn draw(rng: &mut ChaCha8Rng) -> Self {
        let arrivals = |rng: &mut ChaCha8Rng| {
            let spacing = Duration::from_micros(micros(rng, 1_000, 40_000));
            LinearBounded::fixed(rng.random_range(1..=3_000), spacing, 1).expect("valid")
        };
        match rng.random_range(0..16) {
            0..5 => Self::Executor((0..rng.random_range(1..4)).map(|_| task(rng)).collect()),
            5 => Self::Deadline(reservation(rng, 8)),
            6 => Self::Command(reservation(rng, 3)),
            7 | 8 => Self::Seat(reservation(rng, 3)),
            9 => Self::Share(rng.random_range(1_000..300_000)),
            10 | 11 => Self::Receiving(ReadLimit::of(arrivals(rng), Framing::Fragments, 1_440)),
            12 => Self::BestEffort,
            _ => {
                let bound = Duration::from_micros(micros(rng, 300, 20_000));
                Self::Sending(Channel::new("c", &arrivals(rng).into(), bound).expect("valid"))
            }
        }
    }

    fn request(&self, now: Instant) -> Request<'_> {
        match self {
            Self::Executor(tasks) => Request::Executor(tasks),
            Self::Deadline(reservation) => Request::Deadline(*reservation),
            Self::Command(reservation) => Request::Command {
                reservation: *reservation,
                enforcement: Enforcement::Soft,
                backend: Backend::Timetable,
                cpu: Some(TOGETHER),
            },
            Self::Seat(reservation) => Request::Joining(Joining {
                reservation: *reservation,
                cpu: FOLLOWED,
                earliest: now,
                standing: &[],
            }),
            Self::Share(ppm) => Request::Share(*ppm),
            Self::Sending(channel) => Request::Sending(channel),
            Self::Receiving(limit) => Request::Receiving(*limit),
            Self::BestEffort => Request::BestEffort(Direction::Send),
        }
    }
}

fn carrier() -> Carrier {
    let wire = Link::with_picos(Duration::from_micros(10), 80_000).expect("fast enough");
    let cut = Packetisation::new(1_440, 1).expect("valid");
    let (packet, cpu) = (Service::from_micros(20), "2ms/10ms".parse().expect("valid"));
    let egress = Egress::new(wire, cut, packet, cpu, Duration::from_micros(100));
    Carrier {
        egress: egress.expect("fast enough"),
        change: Service::from_micros(2),
        cpu: Some(FOLLOWED),
        link: BitRate::new(100_000_000).ok(),
        headers: 118,
        best_effort_ppm: 50_000,
        received_packet: Service::from_micros(150),
    }
}

fn system(seed: u64) -> System<u64> {
    let context_switch = Service::from_micros(seed % 3);
    let slot_allowance = HostProfile::ASSUMED_SLOT_ALLOWANCE;
    let host = HostProfile { context_switch, slot_allowance, ..HostProfile::ideal(CPUS) };
    let order = [UpcallOrder::LevelOrder, UpcallOrder::FixedLevel][seed as usize % 2];
    let mut system = System::new(host, order);
    system.carry(carrier(), &mut Steps::default()).expect("alone");
    system
}

/// Returns everything that decides later requests, except how far the tasks are proven.
fn figures(system: &System<u64>) -> String {
    let mut all = format!(
        "{:?} {} {} {:?} {:?}\n{:?}\n{:?}\n{:?} {:?}\n",
        system.entries,
        system.granted_ppm,
        system.last_leaving,
        system.leaving,
        system.now,
        system.carried,
        system.of_the_kernel,
        system.tables,
        system.followed,
    );
    for cpu in &system.cpus {
        let mut above: Vec<String> = cpu.above().iter().map(|load| format!("{load:?}")).collect();
        above.sort_unstable();
        let (share, pending, idle) = (cpu.share_ppm(), cpu.pending(), cpu.idle_within(0));
        all.push_str(&format!("{share} {pending} {idle:?} {above:?}\n"));
    }
    all
}

/// One system is asked more than the other; what it refuses, and what it undoes, leaves no trace,
/// and both give the same answers for the rest of their lives.
#[test]
fn refused_and_undone_exchanges_leave_no_trace() {
    let [mut refused, mut undone, mut admitted, mut denied] = [0_u32; 4];
    let mut kinds = BTreeMap::<String, u32>::new();
    for seed in 0..150 {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let (mut asked, mut other) = (system(seed), system(seed));
        let mut live: Vec<u64> = Vec::new();
        let mut now = Instant::ZERO + Duration::from_millis(1);
        for id in 0..60_u64 {
            if rng.random() {
                now = now.saturating_add(Duration::from_micros(micros(rng, 0, 30_000)));
            }
            let leaves = |rng: &mut ChaCha8Rng| -> Vec<u64> {
                let those = live.iter().copied().filter(|_| rng.random_ratio(1, 6));
                those.take(2).collect()
            };
            // Only one of the two is asked.
            let (gone, mut come) = (leaves(rng), Vec::from([(1_000 + id, Wanted::draw(rng))]));
            if let Some(&again) = gone.first() {
                come.push((again, Wanted::draw(rng)));
            }
            let since = Some(now).filter(|_| rng.random_ratio(3, 4));
            // Both know what time it is, and have looked at all that left.
            for _ in 0..100 {
                let _ = (asked.settle(now), other.settle(now));
            }
            let requests: Vec<_> = come.iter().map(|(id, one)| (*id, one.request(now))).collect();
            let before = figures(&asked);
            let steps = &mut Steps::default();
            let trial = match (rng.random_range(0..3), gone.first()) {
                (0, None) => asked.would_admit(1_000 + id, requests[0].1, steps).map(drop),
                (0, Some(first)) => {
                    let request = requests[0].1;
                    asked.try_change(*first, request, since, steps).map(|one| asked.undo(one))
                }
                _ => {
                    let exchange = asked.try_exchange(&gone, &requests, since, steps);
                    exchange.map(|exchange| asked.undo(exchange))
                }
            };
            since.into_iter().for_each(|now| _ = other.settle(now));
            match trial {
                Ok(()) => undone += 1,
                Err(refusal) => {
                    refused += 1;
                    *kinds.entry(refusal.test.into()).or_default() += 1;
                }
            }
            assert_eq!(figures(&asked), figures(&other), "seed {seed}, request {id}");
            if since.is_none() {
                assert_eq!(figures(&asked), before, "seed {seed}, request {id}");
            }

            // Both are.
            let wanted = Wanted::draw(rng);
            let (gone, since) = (leaves(rng), Some(now).filter(|_| rng.random_ratio(3, 4)));
            let mut both = |with: &dyn Fn(&mut System<u64>) -> Answer| {
                let answers = [with(&mut asked), with(&mut other)];
                assert_eq!(answers[0], answers[1], "seed {seed}, request {id}");
                let [answer, _] = answers;
                if answer.is_ok() {
                    admitted += 1
                } else {
                    denied += 1
                }
                answer.is_ok()
            };
            match rng.random_range(0..8) {
                0 => {
                    gone.iter().for_each(|id| {
                        both(&|system| Ok(format!("{}", system.retire(*id, now))));
                    });
                    live.retain(|id| !gone.contains(id));
                }
                1 => {
                    let cpu = rng.random_range(0..CPUS);
                    both(&|system| {
                        system.idle(cpu, now);
                        system.sender_idle(now);
                        Ok(format!("{:?}", system.free_by()))
                    });
                }
                2 | 3 => {
                    let request = [(id, wanted.request(now))];
                    let exchanged = both(&|system| {
                        let answer = system.exchange(&gone, &request, since, &mut Steps::default());
                        answer.map(|back_ends| format!("{back_ends:?}"))
                    });
                    if exchanged {
                        live.retain(|id| !gone.contains(id));
                        live.push(id);
                    }
                }
                4 | 5 if !live.is_empty() => {
                    let id = *live.choose(rng).expect("one");
                    both(&|system| {
                        let steps = &mut Steps::default();
                        let answer = system.change(id, wanted.request(now), since, steps);
                        answer.map(|back_end| format!("{back_end:?}"))
                    });
                }
                _ => {
                    let admitted = both(&|system| {
                        let answer = system.admit(id, wanted.request(now), &mut Steps::default());
                        answer.map(|back_end| format!("{back_end:?}"))
                    });
                    if admitted {
                        live.push(id);
                    }
                }
            }
            assert_eq!(figures(&asked), figures(&other), "seed {seed}, request {id}");
        }
    }
    let counts = format!("{refused} {undone} {admitted} {denied} {kinds:?}");
    let tests = ["response-time", "channel-delay", "timetable", "processor"];
    assert!(tests.iter().all(|test| kinds.get(*test).is_some_and(|times| *times > 5)), "{counts}");
    assert!(refused > 1_000 && undone > 1_000 && admitted > 1_000 && denied > 500, "{counts}");
}
