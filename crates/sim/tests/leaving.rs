//! Tests that upcalls which the live admission admits are in time under the live policy while other
//! upcalls join, change and leave.

use punctual_analysis::{Request, Steps, System, UpcallOrder};
use punctual_model::{
    Duration, Handler, HostProfile, Instant, JobId, Service, Task, Upcall, UpcallSpec,
};
use punctual_sim::cpu::{Cpu, Supply};
use punctual_sim::upcalls::{Machine, Order};
use punctual_trace::{Event, Kind};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;

struct Draw(ChaCha8Rng);

impl Draw {
    fn of(&mut self, from: u64, to: u64) -> u64 {
        from + self.0.next_u64() % (to - from + 1)
    }

    fn upcall(&mut self) -> Upcall {
        let period = self.of(4, 40);
        let batch = self.of(1, (period / 2).max(2)) as u32;
        let quantum = [1, batch.div_ceil(2), batch][self.of(0, 2) as usize];
        upcall(period, batch, quantum)
    }
}

/// Makes an upcall of `batch` PDUs of half a millisecond each, every `period` milliseconds.
fn upcall(period: u64, batch: u32, quantum: u32) -> Upcall {
    Upcall::new(UpcallSpec {
        name: "u".into(),
        period: Duration::from_millis(period),
        batch,
        quantum,
        time_per_pdu: Service::from_micros(500),
    })
    .expect("valid")
}

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

/// A handler that processes all the PDUs it may.
struct All;

impl Handler for All {
    fn iterate(&mut self, _: Instant, pdus: u32) -> u32 {
        pdus
    }
}

fn service(_: &All, pdus: u32) -> Service {
    Service::from_micros(500 * u64::from(pdus))
}

/// The time at which the share of an upcall that left becomes free for others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Free {
    /// At once.
    AtOnce,
    /// As soon as the admission state says so.
    Settled,
}

/// A CPU on which upcalls join and leave, with one request of the owner after the other.
struct Host {
    free: Free,
    system: System<u32>,
    machine: Machine<All, fn(&All, u32) -> Service>,
    cpu: Cpu,
    events: Vec<Event>,
    /// The periods of each upcall that ever ran, by its number, each with the time from which it
    /// held.
    periods: Vec<Vec<(Instant, Duration)>>,
    /// The current or last contract of each upcall.
    last: Vec<Upcall>,
    admitted: u32,
    refused: u32,
    /// For each capacity that became free: the time when its upcall left, and the time when it was
    /// found free.
    freed: Vec<(Instant, Instant)>,
}

impl Host {
    fn new(free: Free) -> Self {
        Self {
            free,
            system: System::new(
                HostProfile { reservable_ppm: 1_000_000, ..HostProfile::ideal(1) },
                UpcallOrder::LevelOrder,
            ),
            machine: Machine::new(64, None, service as fn(&All, u32) -> Service),
            cpu: Cpu::new(Supply::Whole, Instant::ZERO),
            events: Vec::new(),
            periods: Vec::new(),
            last: Vec::new(),
            admitted: 0,
            refused: 0,
            freed: Vec::new(),
        }
    }

    /// Runs to the first end of a turn at or after `until`.
    fn run(&mut self, until: Instant) -> Instant {
        self.machine
            .run(&mut self.cpu, until, &mut self.events)
            .expect("orders that can be followed");
        self.cpu.sleep_until(until);
        let now = self.cpu.now();
        let before: Vec<Instant> = self.system.leaving().collect();
        _ = self.system.settle(now);
        let after: Vec<Instant> = self.system.leaving().collect();
        let gone = before.into_iter().filter(|left| !after.contains(left));
        self.freed.extend(gone.map(|left| (left, now)));
        now
    }

    fn create(&mut self, upcall: Upcall, after: Duration, now: Instant) -> Option<u32> {
        let task = self.periods.len() as u32;
        let wanted = [Task::from(&upcall)];
        let request = Request::Executor(&wanted);
        if self.system.admit(task, request, &mut Steps::default()).is_err() {
            self.refused += 1;
            return None;
        }
        self.admitted += 1;
        self.periods.push(vec![(Instant::ZERO, upcall.period())]);
        self.last.push(upcall.clone());
        let first_release = now + after;
        self.machine.order(now, Order::Create { task, upcall, handler: All, first_release });
        Some(task)
    }

    fn close(&mut self, task: u32, now: Instant) {
        let was_there = match self.free {
            Free::AtOnce => self.system.release(task),
            Free::Settled => self.system.retire(task, now),
        };
        assert!(was_there);
        self.machine.order(now, Order::Close { task });
    }

    fn change(&mut self, task: u32, upcall: Upcall, now: Instant) {
        let wanted = [Task::from(&upcall)];
        let since = (self.free == Free::Settled).then_some(now);
        let request = Request::Executor(&wanted);
        match self.system.change(task, request, since, &mut Steps::default()) {
            Err(_) => self.refused += 1,
            Ok(_) => {
                self.admitted += 1;
                self.periods[task as usize].push((now, upcall.period()));
                self.last[task as usize] = upcall.clone();
                self.machine.order(now, Order::Change { task, upcall });
            }
        }
    }

    /// Returns jobs that were complete after the next release of their upcall was due.
    fn late(&self) -> Vec<(JobId, Instant, Instant)> {
        let complete = self.events.iter().filter(|event| event.kind == Kind::Complete);
        let late = complete.filter(|event| {
            // For a job that was released before its upcall changed, the longer period counts.
            let periods = &self.periods[event.job.task as usize];
            let since = periods.iter().rposition(|(since, _)| *since <= event.release).unwrap_or(0);
            let periods = periods[since..].iter().filter(|(since, _)| *since <= event.at);
            let period = periods.map(|(_, period)| *period).max().expect("one");
            event.at > event.release + period
        });
        late.map(|event| (event.job, event.release, event.at)).collect()
    }

    /// Returns whether the CPU was idle at some instant between the leave of each upcall and the
    /// finding that its share is free, judged by every job of the run.
    fn were_idle_since(&self) -> bool {
        let mut jobs: BTreeMap<JobId, (Instant, Instant)> = BTreeMap::new();
        for event in &self.events {
            let job = jobs.entry(event.job).or_insert((event.release, Instant::MAX));
            if matches!(event.kind, Kind::Complete | Kind::Abort | Kind::Skip { .. }) {
                job.1 = event.at;
            }
        }
        let is_idle =
            |at: Instant| jobs.values().all(|(release, end)| at <= *release || *end <= at);
        let ends = || jobs.values().map(|(_, end)| *end);
        self.freed.iter().all(|&(left, found)| {
            is_idle(left) || ends().any(|end| left <= end && end <= found && is_idle(end))
        })
    }
}

/// Runs the example of `punctual_analysis::system::leaving`: 5 of 10 ms above 10 of 20 ms. Another
/// upcall of the first kind takes the place of the first after its job.
fn replacing(free: Free) -> Host {
    let mut host = Host::new(free);
    host.create(upcall(20, 20, 1), Duration::ZERO, at(0)).expect("half");
    let first = host.create(upcall(10, 10, 10), Duration::ZERO, at(0)).expect("the other half");
    let now = host.run(at(5));
    host.close(first, now);
    let _ = host.create(upcall(10, 10, 10), Duration::ZERO, now);
    host.run(at(200));
    host
}

#[test]
fn jobs_are_late_if_the_capacity_of_an_upcall_is_reused_at_once() {
    let unsafe_ = replacing(Free::AtOnce);
    assert_eq!((unsafe_.admitted, unsafe_.late().len()), (3, 9));
    let safe = replacing(Free::Settled);
    assert_eq!((safe.admitted, safe.refused), (2, 1));
    assert_eq!(safe.late(), []);
}

#[test]
fn capacity_is_free_once_the_cpu_was_idle() {
    let mut host = Host::new(Free::Settled);
    host.create(upcall(20, 20, 1), Duration::ZERO, at(0)).expect("half");
    let first = host.create(upcall(10, 10, 10), Duration::ZERO, at(0)).expect("the other half");
    let now = host.run(at(5));
    host.close(first, now);
    assert_eq!(host.create(upcall(10, 10, 10), Duration::ZERO, now), None);
    // At most one job of each was pending: 15 ms. The one that stays takes 20 ms in 40.
    assert_eq!(host.system.free_by(), Some(at(5 + 35)));
    // The CPU is idle from 15 to 20 ms.
    host.run(at(16));
    host.system.idle(0, at(15));
    assert_eq!(host.system.free_by(), None);
    let now = host.cpu.now();
    host.create(upcall(10, 10, 10), Duration::ZERO, now).expect("its place is free");
    host.run(at(200));
    assert_eq!(host.late(), []);
}

#[test]
fn a_reduction_is_never_refused_and_frees_capacity_later() {
    let mut host = Host::new(Free::Settled);
    host.create(upcall(20, 8, 1), Duration::ZERO, at(0)).expect("a fifth");
    let shrinks = host.create(upcall(10, 16, 16), Duration::ZERO, at(0)).expect("four fifths");
    let now = host.run(at(8));
    host.change(shrinks, upcall(10, 4, 4), now);
    assert_eq!(host.refused, 0);
    assert_eq!(host.create(upcall(10, 12, 12), Duration::ZERO, now), None);
    let by = host.system.free_by().expect("it still counts");
    let now = host.run(by);
    host.create(upcall(10, 12, 12), Duration::ZERO, now).expect("what it gave back");
    host.run(at(400));
    assert_eq!(host.late(), []);
}

/// Draws a system in which an upcall joins, changes or leaves every few milliseconds.
fn drawn(seed: u64, free: Free) -> Host {
    let draw = &mut Draw(ChaCha8Rng::seed_from_u64(seed));
    let mut host = Host::new(free);
    let mut live = Vec::new();
    let mut now = at(0);
    for _ in 0..draw.of(10, 40) {
        for _ in 0..draw.of(1, 3) {
            let some = (!live.is_empty()).then(|| draw.of(0, live.len() as u64 - 1) as usize);
            match (draw.of(0, 9), some) {
                (0..=1, Some(some)) => host.close(live.swap_remove(some), now),
                (2, Some(some)) => {
                    // Another upcall replaces it.
                    let task = live.swap_remove(some);
                    host.close(task, now);
                    live.extend(host.create(host.last[task as usize].clone(), Duration::ZERO, now));
                }
                (3, Some(some)) => host.change(live[some], draw.upcall(), now),
                _ => {
                    let after = Duration::from_millis(draw.of(0, 1) * draw.of(0, 5));
                    live.extend(host.create(draw.upcall(), after, now));
                }
            }
        }
        now = host.run(now + Duration::from_micros(500 * draw.of(1, 30)));
    }
    host.run(now + Duration::from_millis(200));
    host
}

/// Draws more systems with `PUNCTUAL_DRAWS=100000 cargo test …`.
#[test]
fn no_admitted_upcall_is_late_while_upcalls_join_change_and_leave() {
    let count = std::env::var("PUNCTUAL_DRAWS").ok().and_then(|count| count.parse().ok());
    let count = count.unwrap_or(3_000);
    let (mut admitted, mut refused, mut freed, mut late_at_once) = (0, 0, 0, 0);
    for seed in 0..count {
        let host = drawn(seed, Free::Settled);
        assert_eq!(host.late(), [], "seed {seed}");
        assert!(host.were_idle_since(), "seed {seed}");
        (admitted, refused) = (admitted + host.admitted, refused + host.refused);
        freed += host.freed.len();
        late_at_once += u32::from(!drawn(seed, Free::AtOnce).late().is_empty());
    }
    println!(
        "{count} systems: {admitted} admitted, {refused} refused, {freed} freed; {late_at_once} with late jobs if all \
         were free at once"
    );
    assert!(u64::from(admitted) > 5 * count && u64::from(refused) > count && freed as u64 > count);
    assert!(u64::from(late_at_once) > count / 200, "{late_at_once}");
}
