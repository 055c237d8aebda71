//! Broken promises make admitted systems late, and the trace shows how often each was broken.

use punctual_analysis::admit;
use punctual_model::{Contract, Duration, HostProfile, Instant, Policy, Service, Task, TaskSpec};
use punctual_policy::jobs::Jobs;
use punctual_sim::arrivals::{Arrivals, Periodic};
use punctual_sim::faults::{ExtraReleases, LateTimers, OneIn, Overrun};
use punctual_sim::processor::{Stolen, Theft, Whole};
use punctual_sim::tasks::{Setting, run, run_in};
use punctual_trace::{Event, Kind, Summary};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn rng() -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(17)
}

/// Returns three tasks that use 90 % of a processor, rate monotonic, and are admitted.
fn admitted() -> Vec<Task> {
    let spec = |period, wcet| {
        TaskSpec::periodic("t", Duration::from_micros(period), Service::from_micros(wcet))
    };
    let tasks = [spec(1_000, 400), spec(2_000, 600), spec(4_000, 800)];
    let tasks: Vec<Task> = tasks.into_iter().map(|spec| Task::new(spec).expect("valid")).collect();
    let contract = Contract::of_tasks(Policy::Rm, 1, tasks.clone());
    assert!(admit(&contract, &HostProfile::ideal(1)).is_ok());
    tasks
}

const UNTIL: Instant = Instant::from_nanos(4_000_000_000);

fn together(tasks: &[Task]) -> Periodic<'_> {
    Periodic::new(tasks, &vec![Duration::ZERO; tasks.len()])
}

/// Returns the events of a run, and the number of late jobs.
fn events(tasks: &[Task], arrivals: &mut impl Arrivals) -> (Vec<Event>, u64) {
    let mut events = Vec::new();
    run(tasks, Jobs::of(Policy::Rm, tasks, 0), arrivals, UNTIL, &mut events);
    let late = late(tasks, &events);
    (events, late)
}

fn late(tasks: &[Task], events: &[Event]) -> u64 {
    use punctual_trace::Sink;
    let mut summary = Summary::new(tasks);
    events.iter().for_each(|event| summary.record(*event));
    summary.late()
}

#[test]
fn without_faults_nothing_is_late() {
    let tasks = admitted();
    let never = OneIn(0);
    let late_timers = LateTimers::new(3, together(&tasks), never, Duration::from_millis(1), rng());
    let extra = ExtraReleases::new(3, late_timers, never, rng());
    let mut wrapped = Overrun::new(extra, never, 300, rng());
    let (wrapped, late) = events(&tasks, &mut wrapped);
    assert_eq!((late, wrapped), (0, events(&tasks, &mut together(&tasks)).0));
}

#[test]
fn overruns_are_counted_and_make_jobs_late() {
    let tasks = admitted();
    let mut arrivals = Overrun::new(together(&tasks), OneIn(20), 250, rng());
    let (events, late) = events(&tasks, &mut arrivals);
    assert!(late > 50, "{late}");
    // The service of each job, from the trace alone.
    let mut since = [Instant::ZERO; 3];
    let mut got = [Duration::ZERO; 3];
    let mut overruns = 0;
    for event in &events {
        let task = event.job.task as usize;
        match event.kind {
            Kind::Start | Kind::Resume => since[task] = event.at,
            Kind::GiveWay => got[task] += event.at - since[task],
            Kind::Complete => {
                let got = core::mem::take(&mut got[task]) + (event.at - since[task]);
                overruns += u64::from(got > tasks[task].wcet().at_full_speed());
            }
            other => panic!("no policy of tasks does {other:?}"),
        }
    }
    // Three more arrivals were drawn than came before the end.
    assert!((arrivals.struck() - 3..=arrivals.struck()).contains(&overruns), "{overruns}");
}

#[test]
fn extra_releases_are_counted_and_make_jobs_late() {
    let tasks = admitted();
    let mut arrivals = ExtraReleases::new(3, together(&tasks), OneIn(10), rng());
    let (events, late) = events(&tasks, &mut arrivals);
    assert!(late > 50, "{late}");
    let jobs = events.iter().filter(|event| event.kind == Kind::Complete).count() as u64;
    let promised: u64 =
        tasks.iter().map(|task| (UNTIL - Instant::ZERO) / task.min_inter_arrival()).sum();
    let extra = jobs - promised;
    assert!((arrivals.struck() - 3..=arrivals.struck()).contains(&extra), "{extra}");
}

#[test]
fn late_timers_are_counted_and_make_jobs_late() {
    let tasks = admitted();
    let most = Duration::from_micros(800);
    let mut arrivals = LateTimers::new(3, together(&tasks), OneIn(10), most, rng());
    assert!(events(&tasks, &mut arrivals).1 > 50);
    // If a short task runs alone, every late timer is a job that begins late, and there are no
    // others.
    let short = TaskSpec {
        relative_deadline: Duration::from_micros(500),
        ..TaskSpec::periodic("t", Duration::from_micros(1_000), Service::from_micros(100))
    };
    let alone = &[Task::new(short).expect("valid")][..];
    let mut arrivals = LateTimers::new(1, together(alone), OneIn(10), most, rng());
    let (events, late) = events(alone, &mut arrivals);
    let begun_late =
        events.iter().filter(|event| event.kind == Kind::Start && event.at > event.release).count();
    let struck = arrivals.struck();
    assert!((struck - 1..=struck).contains(&(begun_late as u64)), "{begun_late} {struck}");
    assert!(late > 20, "{late}");
}

#[test]
fn stolen_time_makes_jobs_late_by_what_was_taken() {
    let tasks = admitted();
    let loss = "500us/5ms".parse().expect("valid");
    for theft in [Theft::Regular(loss, Duration::ZERO), Theft::Drawn(loss)] {
        let stolen = Stolen::new(Whole, theft, rng());
        let setting = Setting::default().on(stolen, Instant::MAX);
        let mut events: Vec<Event> = Vec::new();
        let jobs = Jobs::of(Policy::Rm, &tasks, 0);
        let left = run_in(setting, &tasks, jobs, &mut together(&tasks), UNTIL, &mut events);
        assert!(left.is_empty());
        assert!(late(&tasks, &events) > 50, "{theft:?}");
    }
    // If one task runs alone, it takes longer by the time stolen while it runs.
    let alone = &tasks[..1];
    let all_at_start = Theft::Regular(loss, Duration::ZERO);
    let setting = Setting::default().on(Stolen::new(Whole, all_at_start, rng()), Instant::MAX);
    let mut events: Vec<Event> = Vec::new();
    let jobs = Jobs::of(Policy::Rm, alone, 0);
    let left = run_in(setting, alone, jobs, &mut together(alone), UNTIL, &mut events);
    assert!(left.is_empty());
    for event in events.iter().filter(|event| event.kind == Kind::Complete) {
        let fifth = event.job.index % 5 == 0;
        let taken = Duration::from_micros(if fifth { 900 } else { 400 });
        assert_eq!(event.at - event.release, taken);
    }
    assert_eq!(events.len(), 2 * 4_000);
}

/// The same seeds give the same run.
#[test]
fn faults_replay() {
    let tasks = admitted();
    let run = |seed| {
        let rng = || ChaCha8Rng::seed_from_u64(seed);
        let often = OneIn(rng().random_range(5..9));
        let extra = ExtraReleases::new(3, together(&tasks), often, rng());
        let late = LateTimers::new(3, extra, often, Duration::from_micros(500), rng());
        events(&tasks, &mut Overrun::new(late, often, 150, rng())).0
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
