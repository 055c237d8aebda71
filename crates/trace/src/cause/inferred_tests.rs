//! Tests the jobs of threads that declare none, in virtual time, against the threads' own logs.

use alloc::string::ToString;
use alloc::vec::Vec;

use punctual_model::{Duration, Instant};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::{Asked, Edge, InferredJobs, Rhythm, Told};
use crate::event::{Event, Kind};
use crate::kernel::{Class, Place, Seen};

const TID: u32 = 7;
const OTHER: Seen = Seen { tid: 8, comm: crate::kernel::Comm([0; 16]), class: Class::Ordinary };
const MS: u64 = 1_000_000;

/// Places in the program of a thread, on x86-64.
type At = (u32, Place);
const fn at(syscall: u32, first: u64, second: u32, stack: u32) -> At {
    (syscall, Place { first, second, stack })
}
/// clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME), usleep(), poll(), a condition variable, a mutex.
const SLEEP: At = at(230, 1, 1, 0x100);
const USLEEP: At = at(230, 0, 0, 0x90);
const POLL: At = at(7, 0xbeef, 0, 0x80);
const CONDITION: At = at(202, 0x1000, 0x189, 0x60);
const MUTEX: At = at(202, 0x2000, 0x80, 0x70);
const READ: At = at(0, 3, 0x77, 0x50);

/// A thread whose sleeps are played, with its log.
struct Thread {
    jobs: InferredJobs,
    now: u64,
    /// The kernel tells of sleeps until instants that are over.
    passes: bool,
    told: Vec<Told>,
    /// The releases and ends of its jobs.
    log: Vec<(u64, u64)>,
}

impl Thread {
    fn new(declared: Option<Duration>, asked: Asked) -> Self {
        let mut jobs = InferredJobs::new(declared);
        jobs.add(TID, 4, asked);
        Self { jobs, now: 100 * MS, passes: false, told: Vec::new(), log: Vec::new() }
    }

    fn work(&mut self, nanos: u64) {
        self.now += nanos;
    }

    fn nap(&mut self, (syscall, place): At, until: u64, due: Option<u64>) {
        let asleep = Instant::from_nanos(self.now);
        let syscall = Some(syscall);
        let edge = Edge::Sleeps { tid: TID, syscall, uninterruptible: false, place };
        self.jobs.take(asleep, edge, &mut self.told);
        self.now = until.max(self.now);
        let due = due.map(Instant::from_nanos);
        let waker = due.is_none().then_some(OTHER);
        let wakes = Instant::from_nanos(self.now);
        self.jobs.take(wakes, Edge::Wakes { tid: TID, due, waker }, &mut self.told);
    }

    /// Sleeps until `due`, and wakes 20 µs later; not at all if `due` is over, which may be seen.
    fn sleep_until(&mut self, place: At, due: u64) {
        if due > self.now {
            self.nap(place, due + 20_000, Some(due));
        } else if self.passes {
            let edge = Edge::Passes { tid: TID, due: Instant::from_nanos(due) };
            self.jobs.take(Instant::from_nanos(self.now), edge, &mut self.told);
        }
    }

    fn sleep_for(&mut self, place: At, nanos: u64) {
        self.sleep_until(place, self.now + nanos);
    }

    /// Is blocked until another thread wakes it.
    fn blocked(&mut self, place: At, nanos: u64) {
        self.nap(place, self.now + nanos, None);
    }

    /// Logs the end of a job.
    fn done(&mut self, release: u64) {
        self.log.push((release, self.now));
    }

    fn end(&mut self) {
        self.jobs.end(Instant::from_nanos(self.now), &mut self.told);
    }

    fn found(&self) -> Vec<(u64, u64)> {
        let jobs = self.told.iter().filter_map(|one| match one {
            Told::Event(Event { at, release, kind: Kind::Complete, .. }) => {
                Some((release.as_nanos(), at.as_nanos()))
            }
            _ => None,
        });
        jobs.collect()
    }

    /// Checks that the late jobs that were found are those of the log, except the first and the last
    /// two of all jobs.
    fn agrees(&self, deadline: u64) {
        let late = |all: &[(u64, u64)]| -> Vec<u64> {
            let all = all.iter().filter(|(release, end)| end - release > deadline);
            all.map(|&(release, _)| release / 100_000).collect()
        };
        let inner = &self.log[2..self.log.len() - 2];
        let (first, last) = (inner[0].0 / 100_000, inner[inner.len() - 1].0 / 100_000);
        let truth = late(inner);
        let mut found = late(&self.found());
        found.retain(|release| (first..=last).contains(release));
        let near = |one: u64, all: &[u64]| all.iter().any(|other| one.abs_diff(*other) <= 2);
        let missing: Vec<_> = truth.iter().filter(|one| !near(**one, &found)).collect();
        let wrong: Vec<_> = found.iter().filter(|one| !near(**one, &truth)).collect();
        assert!(!truth.is_empty());
        assert!(
            missing.is_empty() && wrong.is_empty() && truth.len() == found.len(),
            "{} late, {} found; missing {missing:?}, wrong {wrong:?}; {}",
            truth.len(),
            found.len(),
            self.said()
        );
    }

    fn said(&self) -> alloc::string::String {
        self.jobs
            .taken(TID)
            .and_then(|taken| taken.release)
            .map_or_else(|| "no period".to_string(), |release| release.to_string())
    }
}

/// Plays a thread that works for a millisecond every 10 ms, and in every fourth job `late`.
fn absolute(late: impl Fn(&mut Thread)) -> Thread {
    let mut thread = Thread::new(None, Asked::Periodic);
    let mut due = thread.now;
    for job in 0..200 {
        due += 10 * MS;
        thread.sleep_until(SLEEP, due);
        thread.work(MS);
        if job % 4 == 0 {
            late(&mut thread);
        }
        thread.done(due);
    }
    thread.sleep_until(SLEEP, due + 10 * MS);
    thread.end();
    thread
}

#[test]
fn a_sleep_inside_a_job_is_part_of_it() {
    absolute(|thread| thread.sleep_for(USLEEP, 7 * MS)).agrees(5 * MS);
    absolute(|thread| thread.sleep_for(POLL, 7 * MS)).agrees(5 * MS);
    // The same call at the same place, as in an interpreter.
    let thread = absolute(|thread| thread.sleep_for(SLEEP, 7 * MS + 3_000));
    thread.agrees(5 * MS);
    let said = thread.said();
    assert!(said.starts_with("released by clock_nanosleep every 10ms"), "{said}");
}

#[test]
fn a_worker_on_a_condition_variable_may_take_other_locks() {
    for seed in 0..20 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut thread = Thread::new(None, Asked::Periodic);
        let mut due = thread.now;
        for job in 0..200 {
            due += 10 * MS;
            let woken = due + rng.random_range(50_000..150_000);
            thread.nap(CONDITION, woken, None);
            thread.work(MS);
            if job % 3 == 0 {
                thread.blocked(MUTEX, rng.random_range(10_000..7 * MS));
            }
            thread.work(100_000);
            thread.done(woken);
        }
        thread.nap(CONDITION, due + 10 * MS, None);
        thread.end();
        thread.agrees(5 * MS);
    }
}

#[test]
fn a_timed_wait_for_releases_is_told_from_a_mutex() {
    let mut thread = Thread::new(None, Asked::Periodic);
    let mut due = thread.now;
    for job in 0..200 {
        due += 10 * MS;
        thread.sleep_until(CONDITION, due);
        thread.work(MS);
        if job % 5 == 0 {
            thread.blocked(MUTEX, 6 * MS);
        }
        thread.done(due);
    }
    thread.sleep_until(CONDITION, due + 10 * MS);
    thread.end();
    thread.agrees(5 * MS);
}

#[test]
fn a_relative_sleep_has_a_period_that_drifts() {
    for seed in 0..20 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut thread = Thread::new(None, Asked::Periodic);
        for job in 0..200 {
            let due = thread.now + 10 * MS;
            thread.sleep_until(at(230, 0, 0, 0x100), due);
            thread.work(rng.random_range(MS / 2..2 * MS));
            if job % 4 == 0 {
                thread.work(12 * MS);
            }
            if job % 4 == 1 {
                thread.sleep_for(USLEEP, 6 * MS);
            }
            thread.done(due);
        }
        thread.sleep_for(at(230, 0, 0, 0x100), 10 * MS);
        thread.end();
        thread.agrees(5 * MS);
        let release = thread.jobs.taken(TID).and_then(|taken| taken.release).expect("found");
        assert_eq!(release.rhythm, Rhythm::Relative, "{release}");
    }
}

/// Plays a thread that does each job, however late, before it waits again.
fn overloaded(declared: Option<u64>, long: impl Fn(usize) -> u64) -> Thread {
    overloaded_and(false, declared, long)
}

fn overloaded_and(passes: bool, declared: Option<u64>, long: impl Fn(usize) -> u64) -> Thread {
    let declared = declared.map(Duration::from_nanos);
    let mut thread = Thread { passes, ..Thread::new(declared, Asked::Periodic) };
    let mut due = thread.now;
    for job in 0..400 {
        due += 10 * MS;
        thread.sleep_until(SLEEP, due);
        thread.work(long(job));
        thread.done(due);
    }
    thread.sleep_until(SLEEP, due + 10 * MS);
    thread.end();
    thread
}

#[test]
fn each_job_of_an_overload_is_late() {
    // One long job delays some that follow.
    overloaded(None, |job| if job % 20 == 7 { 44 * MS } else { MS }).agrees(10 * MS);
    // A third of the time all jobs take longer than a period.
    let thread = overloaded(None, |job| if job % 60 < 20 { 13 * MS } else { 2 * MS });
    thread.agrees(10 * MS);
    assert_eq!(thread.found().len(), 400, "each release is a job");
    // Nearly always.
    let rare = |job: usize| if job.is_multiple_of(12) { MS } else { 10 * MS + 300_000 };
    overloaded(Some(10 * MS), rare).agrees(10 * MS);
}

/// Each timer that was already due when it was set ends a job, to the nanosecond.
#[test]
fn timers_that_were_already_due_part_the_jobs_of_an_overload() {
    for seed in 0..20 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let long: Vec<u64> = (0..400).map(|_| rng.random_range(MS..18 * MS)).collect();
        let thread = overloaded_and(true, None, |job| {
            // It has no backlog at first and at last.
            if (40..350).contains(&job) { long[job] } else { MS / 2 }
        });
        assert_eq!(thread.found(), thread.log, "seed {seed}: {}", thread.said());
    }
}

#[test]
fn a_thread_that_never_waits_again_misses_its_releases() {
    let mut thread = overloaded(None, |_| MS);
    let (jobs, last) = (thread.found().len(), thread.now);
    thread.work(95 * MS);
    thread.end();
    assert_eq!(thread.found().len(), jobs + 10, "{last}");
}

#[test]
fn waits_without_a_period_are_not_judged() {
    for seed in 0..20 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut thread = Thread::new(None, Asked::Periodic);
        for _ in 0..700 {
            // Geometric lengths, in one of three places.
            let place = [READ, CONDITION, POLL][rng.random_range(0..3)];
            let mut length = 50_000;
            while rng.random_range(0..20) != 0 {
                length += MS;
            }
            thread.blocked(place, length + rng.random_range(0..MS));
            thread.work(rng.random_range(10_000..MS));
        }
        thread.end();
        assert_eq!(thread.told, [], "seed {seed}: {}", thread.said());
        let taken = thread.jobs.taken(TID).expect("known");
        assert!(taken.waits == 700 && taken.most.is_some(), "{taken:?}");
    }
}

/// A goroutine's ticker stays with a thread for a while.
#[test]
fn a_period_that_was_there_for_a_while_is_given_up() {
    let mut thread = Thread::new(None, Asked::Periodic);
    for _ in 0..33 {
        let due = thread.now + 10 * MS;
        thread.nap(CONDITION, due, None);
    }
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for _ in 0..100 {
        thread.blocked(CONDITION, rng.random_range(MS..100 * MS));
        thread.work(rng.random_range(100_000..60 * MS));
    }
    thread.end();
    let late = thread.found().iter().filter(|(release, end)| end - release > 5 * MS).count();
    assert_eq!((late, thread.said().as_str()), (0, "no period"));
}

/// It loads, plays, and then waits for something else.
#[test]
fn start_and_exit_are_not_judged() {
    let mut thread = Thread::new(None, Asked::Periodic);
    for _ in 0..20 {
        thread.blocked(READ, 3 * MS);
        thread.work(7 * MS);
    }
    thread.blocked(CONDITION, 3080 * MS);
    let mut due = thread.now;
    for _ in 0..100 {
        due += 10 * MS;
        thread.sleep_until(SLEEP, due);
        thread.work(MS);
    }
    thread.blocked(CONDITION, 2000 * MS);
    let exits = |thread: &mut Thread| {
        let jobs = thread.found();
        assert!(jobs.iter().all(|(release, end)| end - release < 2 * MS), "{jobs:?}");
        assert_eq!(jobs.len(), 99);
        assert!(matches!(thread.told.last(), Some(Told::Unknown { task: 4 })));
    };
    let (jobs, told) = (thread.jobs.clone(), thread.told.clone());
    thread.jobs.forget(TID, &mut thread.told);
    exits(&mut thread);
    // The same while it sleeps elsewhere at the end of the watch.
    (thread.jobs, thread.told) = (jobs, told);
    let asleep = Instant::from_nanos(thread.now);
    let (syscall, place) = (Some(CONDITION.0), CONDITION.1);
    let edge = Edge::Sleeps { tid: TID, syscall, uninterruptible: false, place };
    thread.jobs.take(asleep, edge, &mut thread.told);
    thread.now += 500 * MS;
    thread.end();
    exits(&mut thread);
}

#[test]
fn a_thread_that_was_named_is_judged_by_events() {
    let play = |asked| {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut thread = Thread::new(None, asked);
        for job in 0..300 {
            thread.blocked(READ, rng.random_range(MS..40 * MS));
            let woken = thread.now;
            thread.work(MS);
            if job % 4 == 0 {
                thread.blocked(MUTEX, 6 * MS);
            }
            thread.done(woken);
        }
        thread.blocked(READ, MS);
        thread.end();
        thread
    };
    let named = play(Asked::Any);
    named.agrees(5 * MS);
    assert!(named.said().starts_with("woken in read(3), where it spends"), "{}", named.said());
    assert_eq!(play(Asked::Periodic).told, []);
    assert_eq!(play(Asked::Withheld).told, []);
    // It may be named late, and nothing is lost.
    let mut late = play(Asked::Withheld);
    late.jobs.ask(TID, Asked::Any);
    late.end();
    assert_eq!(late.found(), named.found());
}

#[test]
fn a_gap_ends_nothing_and_hides_the_job_that_it_is_in() {
    let mut thread = overloaded(None, |_| MS);
    thread.told.clear();
    let due = thread.now - 20_000;
    thread.jobs.gap(&mut thread.told);
    assert_eq!(thread.told, [Told::Unknown { task: 4 }]);
    thread.sleep_until(SLEEP, due + 10 * MS);
    thread.work(MS);
    thread.sleep_until(SLEEP, due + 20 * MS);
    assert_eq!(thread.found(), [(due + 10 * MS, due + 11 * MS + 20_000)]);
}

#[test]
fn two_timers_at_one_place_do_not_lengthen_each_others_jobs() {
    let mut thread = Thread::new(None, Asked::Periodic);
    let epoll = at(232, 5, 0, 0x40);
    let start = thread.now;
    let (mut fast, mut slow) = (start + 10 * MS, start + 26 * MS);
    while thread.now < start + 3000 * MS {
        let due = fast.min(slow);
        thread.sleep_until(epoll, due);
        thread.work(MS / 2);
        if due == fast {
            thread.done(due);
            fast += 10 * MS;
        } else {
            slow += 26 * MS;
        }
    }
    thread.sleep_until(epoll, fast.min(slow));
    thread.end();
    let found = thread.found();
    assert!(found.len() > 250, "{}: {}", found.len(), thread.said());
    assert!(found.iter().all(|(release, end)| end - release < 2 * MS), "{}", thread.said());
}
