use super::*;
use crate::arrivals::{Arrival, Drawn, Listed, Periodic};
use crate::overheads::Overheads;
use alloc::vec;
use punctual_model::{Duration, Service, TaskSpec};
use punctual_trace::{Event, Kind, Summary};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

fn task(period: u64, wcet: u64, quantum: u64) -> Task {
    Task::new(TaskSpec {
        quantum: Service::from_micros(quantum),
        ..TaskSpec::periodic("t", Duration::from_micros(period), Service::from_micros(wcet))
    })
    .expect("valid")
}

fn summary(tasks: &[Task], policy: Jobs, phases: &[u64]) -> Summary {
    let phases: Vec<_> = phases.iter().map(|us| Duration::from_micros(*us)).collect();
    let mut summary = Summary::new(tasks);
    let until = Instant::from_nanos(200_000);
    run(tasks, policy, &mut Periodic::new(tasks, &phases), until, &mut summary);
    summary
}

fn worst(summary: &Summary) -> Vec<u64> {
    let max = |task: &punctual_trace::TaskSummary| task.response_time.max().expect("jobs");
    summary.tasks().iter().map(|task| max(task).as_nanos() / 1000).collect()
}

#[test]
fn burns_and_wellings_response_times_at_the_critical_instant() {
    let tasks = [task(7, 3, 0), task(12, 3, 0), task(20, 5, 0)];
    let summary = summary(&tasks, Jobs::fixed_priority(&[0, 1, 2]), &[0, 0, 0]);
    assert_eq!(worst(&summary), [3, 6, 20]);
    assert_eq!(summary.late(), 0);
}

#[test]
fn a_quantum_is_not_interrupted_and_a_yield_point_gives_way() {
    // The long job starts at 0 and would yield at 4; the short one is released at 1.
    let tasks = [task(20, 2, 0), task(40, 8, 4)];
    let mut events: Vec<Event> = Vec::new();
    let phases = [Duration::from_micros(1), Duration::ZERO];
    let mut arrivals = Periodic::new(&tasks, &phases);
    let until = Instant::from_nanos(15_000);
    run(&tasks, Jobs::fixed_priority(&[0, 1]), &mut arrivals, until, &mut events);
    let seen: Vec<_> =
        events.iter().map(|e| (e.at.as_nanos() / 1000, e.job.task, e.kind)).collect();
    assert_eq!(
        seen,
        [
            (0, 1, Kind::Start),
            (4, 1, Kind::GiveWay),
            (4, 0, Kind::Start),
            (6, 0, Kind::Complete),
            (6, 1, Kind::Resume),
            (10, 1, Kind::Complete),
        ]
    );
}

#[test]
fn earliest_deadline_uses_the_whole_cpu() {
    let tasks = [task(4, 2, 0), task(8, 4, 0)];
    let summary = summary(&tasks, Jobs::earliest_deadline(2), &[0, 0]);
    assert_eq!(summary.late(), 0);
    assert_eq!(summary.jobs(), 50 + 25);
}

#[test]
fn an_overload_is_late_and_the_run_still_ends() {
    let tasks = [task(4, 3, 0), task(8, 4, 0)];
    assert!(summary(&tasks, Jobs::fixed_priority(&[0, 1]), &[0, 0]).late() > 0);
}

fn us(n: u64) -> Instant {
    Instant::from_nanos(n * 1000)
}

/// Lists one job of each task, known and released at `at`, which runs for its wcet.
fn once(tasks: &[Task], at: &[u64]) -> Vec<Vec<Arrival>> {
    let job = |(task, at): (&Task, &u64)| {
        vec![Arrival { release: us(*at), known: us(*at), exec_time: task.wcet() }]
    };
    tasks.iter().zip(at).map(job).collect()
}

/// Returns the events in microseconds.
fn seen(events: &[Event]) -> Vec<(u64, u32, Kind)> {
    events.iter().map(|e| (e.at.as_nanos() / 1000, e.job.task, e.kind)).collect()
}

fn with_last_segment(period: u64, wcet: u64, quantum: u64, last: u64) -> Task {
    let spec = task(period, wcet, quantum).spec().clone();
    Task::new(TaskSpec { last_segment: Service::from_micros(last), ..spec }).expect("valid")
}

#[test]
fn a_last_segment_is_never_interrupted_and_no_stretch_is_longer_than_the_quantum() {
    // The long job needs 10, in quanta of at most 6 of which the last is at least 5: 5, then 5.
    let tasks = [task(40, 2, 0), with_last_segment(40, 10, 6, 5)];
    for (released, start) in [(1, 5), (5, 5), (6, 10), (9, 10)] {
        let mut events: Vec<Event> = Vec::new();
        let lists = once(&tasks, &[released, 0]);
        let policy = Jobs::fixed_priority(&[0, 1]);
        run(&tasks, policy, &mut Listed::new(&lists), us(40), &mut events);
        assert!(seen(&events).contains(&(start, 0, Kind::Start)), "{released}: {events:?}");
        // With yield points everywhere else, only the last segment delays the short job.
        let mut events: Vec<Event> = Vec::new();
        let setting = Setting::default().yielding(Eager(&[true, true]));
        let policy = Jobs::fixed_priority(&[0, 1]);
        let left = run_in(setting, &tasks, policy, &mut Listed::new(&lists), us(40), &mut events);
        assert_eq!(left, []);
        let start = if released <= 5 { released } else { 10 };
        assert!(seen(&events).contains(&(start, 0, Kind::Start)), "{released}: {events:?}");
    }
}

#[test]
fn a_job_without_preemption_never_gives_way_however_short() {
    let tasks = [task(10, 2, 0), with_last_segment(40, 8, 8, 8)];
    let mut events: Vec<Event> = Vec::new();
    let mut arrivals = Drawn::new(&tasks, ChaCha8Rng::seed_from_u64(3));
    run(&tasks, Jobs::fixed_priority(&[0, 1]), &mut arrivals, us(100_000), &mut events);
    assert!(events.len() > 10_000);
    assert!(!events.iter().any(|event| event.kind == Kind::GiveWay));
}

#[test]
fn what_finds_the_processor_idle_waits_until_it_is_awake() {
    let tasks = [task(40, 2, 0), task(40, 8, 0)];
    let costs = Overheads {
        switch: Service::from_micros(1),
        wake_up: Service::from_micros(5),
        ..Overheads::default()
    };
    let lists = once(&tasks, &[3, 0]);
    let mut events: Vec<Event> = Vec::new();
    let (policy, mut arrivals) = (Jobs::fixed_priority(&[0, 1]), Listed::new(&lists));
    let setting = Setting::default().costing(costs);
    let left = run_in(setting, &tasks, policy, &mut arrivals, us(40), &mut events);
    assert_eq!(left, []);
    // It wakes for the long job from 0 to 5, and goes to the short one, which came meanwhile. Once
    // awake, it switches at once.
    let expected =
        [(6, 0, Kind::Start), (8, 0, Kind::Complete), (9, 1, Kind::Start), (17, 1, Kind::Complete)];
    assert_eq!(seen(&events), expected);
}

#[test]
fn a_switch_is_charged_on_start_and_on_return_and_not_interrupted() {
    let tasks = [task(40, 2, 0), task(40, 8, 0)];
    let setting = Setting::default().costing(Overheads {
        switch: Service::from_micros(2),
        cache: Service::from_micros(1),
        ..Overheads::default()
    });
    let events_of = |released: u64| {
        let lists = once(&tasks, &[released, 0]);
        let mut events: Vec<Event> = Vec::new();
        let (policy, mut arrivals) = (Jobs::fixed_priority(&[0, 1]), Listed::new(&lists));
        let left = run_in(setting.clone(), &tasks, policy, &mut arrivals, us(40), &mut events);
        assert_eq!(left, []);
        seen(&events)
    };
    // Switch 0–3, long 3–5, switch 5–8, short 8–10, switch 10–13, long 13–19.
    assert_eq!(
        events_of(5),
        [
            (3, 1, Kind::Start),
            (5, 1, Kind::GiveWay),
            (8, 0, Kind::Start),
            (10, 0, Kind::Complete),
            (13, 1, Kind::Resume),
            (19, 1, Kind::Complete),
        ]
    );
    // The short job is released during the switch to the long one, which ends at 3 and was in vain.
    assert_eq!(
        events_of(1),
        [
            (6, 0, Kind::Start),
            (8, 0, Kind::Complete),
            (11, 1, Kind::Start),
            (19, 1, Kind::Complete),
        ]
    );
}

#[test]
fn a_seed_replays_a_run() {
    let tasks = [task(7, 3, 2), task(12, 3, 0), with_last_segment(40, 5, 3, 2)];
    let events = |seed| {
        let mut events: Vec<Event> = Vec::new();
        let mut arrivals = Drawn::new(&tasks, ChaCha8Rng::seed_from_u64(seed));
        run(&tasks, Jobs::earliest_deadline(3), &mut arrivals, us(10_000), &mut events);
        events
    };
    assert_eq!(events(1), events(1));
    assert_ne!(events(1), events(2));
}
