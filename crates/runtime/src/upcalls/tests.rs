//! Tests in an ordinary thread, so without any privilege: they check what happens, never how fast.

use std::panic::{AssertUnwindSafe, catch_unwind};

use punctual_linux::clock;
use punctual_model::{Duration, Handler, HostProfile, Instant, Service, Upcall, UpcallSpec};
use punctual_trace::{Event, Kind};

use super::{CreateError, OrderError, Upcalls};
use crate::placement::Placement;

/// The longest that anything may take on a host with other load.
const PATIENCE: Duration = Duration::from_secs(20);

struct Count(u64);

impl Handler for Count {
    fn iterate(&mut self, _: Instant, pdus: u32) -> u32 {
        self.0 += 1;
        pdus
    }
}

struct Panics;

impl Handler for Panics {
    fn iterate(&mut self, _: Instant, _: u32) -> u32 {
        panic!("as the test wants")
    }
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn every(period: Duration) -> Upcall {
    let time_per_pdu = Service::from_micros(10);
    let spec = UpcallSpec { name: "u".into(), period, batch: 1, quantum: 1, time_per_pdu };
    Upcall::new(spec).expect("valid")
}

fn ordinary<H: Handler + Send + 'static>() -> Upcalls<H> {
    Upcalls::new(Placement::Ordinary, HostProfile::ideal(1))
}

/// Runs them until `enough` has been drained. Returns the start of every job.
fn starts(upcalls: Upcalls<Count>, start: Instant, enough: fn(&[Event]) -> bool) -> Vec<Event> {
    let mut running = upcalls.run(start).expect("an ordinary thread");
    let give_up = clock::now() + PATIENCE;
    let mut seen: Vec<Event> = Vec::new();
    while !enough(&seen) && clock::now() < give_up {
        clock::sleep(ms(5));
        seen.extend(running.drain().filter(|event| event.kind == Kind::Start));
    }
    assert_eq!(running.events_lost(), 0);
    assert!(!running.has_ended());
    let jobs: u64 = running.stop().expect("stops").handlers.iter().map(|count| count.0).sum();
    assert!(jobs >= seen.len() as u64);
    seen
}

#[test]
fn each_upcall_is_released_its_phase_after_the_start() {
    let phases = [ms(0), ms(3), ms(25)];
    let mut upcalls = ordinary();
    for phase in phases {
        upcalls.create_at(every(ms(20)), Count(0), phase).expect("no promise, no refusal");
    }
    let start = clock::now() + ms(20);
    let seen = starts(upcalls, start, |seen| seen.iter().any(|event| event.job.index == 3));
    assert!(!seen.is_empty());
    for Event { at, job, release, .. } in seen {
        assert_eq!(release, start + phases[job.task as usize] + ms(20) * job.index);
        assert!(at >= release, "never early");
    }
}

#[test]
fn releases_of_one_window_share_a_wake_up() {
    let window = ms(10);
    let mut upcalls = ordinary().with_release_window(window);
    for phase in [ms(0), ms(3)] {
        upcalls.create_at(every(ms(40)), Count(0), phase).expect("no promise, no refusal");
    }
    // Both jobs of a period run one right after the other, a window after the first release.
    let shared = |seen: &[Event]| {
        seen.windows(2).any(|pair| {
            let [first, second] = pair else { return false };
            first.job.index == second.job.index
                && second.release == first.release + ms(3)
                && first.at >= first.release + ms(10)
        })
    };
    let seen = starts(upcalls, clock::now() + ms(50), shared);
    assert!(shared(&seen), "{seen:?}");
    assert!(seen.iter().all(|event| event.at >= event.release));
}

#[test]
fn admission_counts_the_window() {
    let upcalls = |window| {
        let mut upcalls = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1))
            .without_containment()
            .with_release_window(window);
        upcalls.create(every(ms(4)), Count(0)).map(|_| upcalls)
    };
    // Its work of 10 µs just fits behind the window, and not behind a longer one.
    let mut fits = upcalls(ms(4) - Duration::from_micros(10)).expect("to the nanosecond");
    assert!(matches!(fits.create(every(ms(40)), Count(0)), Ok(1)), "less urgent");
    assert!(matches!(fits.create(every(ms(3)), Count(0)), Err(CreateError::Refused(_))));
    let one_more = ms(4) - Duration::from_nanos(9_999);
    assert!(matches!(upcalls(one_more), Err(CreateError::Refused(_))));
}

#[test]
fn an_owner_sees_that_upcalls_have_ended() {
    let mut upcalls = ordinary();
    upcalls.create(every(ms(5)), Panics).expect("no promise, no refusal");
    let running = upcalls.run(clock::now()).expect("an ordinary thread");
    let give_up = clock::now() + PATIENCE;
    while !running.has_ended() && clock::now() < give_up {
        clock::sleep(ms(1));
    }
    assert!(running.has_ended());
    assert!(catch_unwind(AssertUnwindSafe(|| running.stop().map(|_| ()))).is_err(), "goes on here");
}

#[test]
fn a_forked_process_does_not_wait_and_touches_nothing() {
    let mut upcalls = ordinary();
    upcalls.create(every(ms(5)), Count(0)).expect("no promise, no refusal");
    let mut running = upcalls.run(clock::now()).expect("an ordinary thread");
    // This makes the upcalls look as if another process had started them, from which this one was
    // forked.
    let owner = std::mem::replace(&mut running.owner, 1);
    assert!(running.has_ended());
    assert!(running.wait(&[0], Instant::MAX).is_empty());
    assert!(matches!(running.suspend(0), Err(OrderError::Ended)));
    running.owner = owner;
    assert!(!running.has_ended(), "they went on where they run");
    running.stop().expect("ours");
}
