//! Deferrable servers keep what admission promises: each gets its budget from the start of each
//! period, jobs of their holders are in time, and so are the tasks beneath them.

use std::cell::RefCell;

use punctual_analysis::{BackEnd, Request, Steps, System, UpcallOrder};
use punctual_model::command::Backend;
use punctual_model::reservation::Enforcement;
use punctual_model::{
    Duration, HostProfile, Instant, Policy, Reservation, Service, Task, TaskSpec,
};
use punctual_policy::jobs::Jobs;
use punctual_sim::arrivals::{Adversarial, Arrivals, Attack, Bursty, Drawn};
use punctual_sim::overheads::Overheads;
use punctual_sim::processor::{Demand, Processor, Served, Servers, Stretch, Whole};
use punctual_sim::tasks::{Setting, run_in};
use punctual_trace::{Event, Kind, Sink};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::late::Late;

/// A host with drawn servers and tasks, all of them admitted.
struct Host {
    /// Each with the time within which its jobs are done.
    servers: Vec<(Reservation, Duration)>,
    /// The holders of the servers as tasks: a budget's work at most every period.
    holders: Vec<Task>,
    kernel: Vec<Reservation>,
    tasks: Vec<Task>,
    late: Service,
    switch: Service,
}

/// The grain of drawn times: what is drawn in it makes equal instants likely.
const GRAIN: u64 = 50_000;

fn grains(count: u64) -> Service {
    Service::from_nanos(GRAIN * count)
}

/// Draws a reservation of a period of 1 ms up to so many grains.
fn reservation(rng: &mut ChaCha8Rng, longest: u64, share: f64) -> Reservation {
    let period = rng.random_range(20..=longest);
    let budget = ((period as f64 * rng.random_range(0.05..share)) as u64).clamp(1, period);
    Reservation::new(grains(budget), grains(period).at_full_speed()).expect("valid")
}

fn draw(rng: &mut ChaCha8Rng) -> Host {
    let (late, switch) = (rng.random_range(0..4), rng.random_range(0..3));
    let late = grains(late * rng.random_range(0..2));
    let switch = Service::from_micros(10 * switch * rng.random_range(0..2));
    let host =
        HostProfile { slot_allowance: late, context_switch: switch, ..HostProfile::ideal(1) };
    let (mut system, mut steps) = (System::new(host, UpcallOrder::LevelOrder), Steps::default());
    let (mut kernel, mut tasks) = (Vec::new(), Vec::new());
    let mut next = 0;
    if rng.random_bool(0.4) {
        let one = reservation(rng, 200, 0.3);
        if system.admit(next, Request::Deadline(one), &mut steps).is_ok() {
            kernel.push(one);
        }
        next += 1;
    }
    for _ in 0..rng.random_range(1..=4) {
        let reservation = reservation(rng, 300, 0.5);
        let (enforcement, backend) = (Enforcement::Soft, Backend::Server);
        let request = Request::Command { reservation, enforcement, backend, cpu: None };
        if let Ok(back_end) = system.admit(next, request, &mut steps) {
            assert_eq!(back_end, BackEnd::Server { cpu: 0 });
        }
        next += 1;
    }
    for task in crate::draw::tasks(rng, (0.05, 0.6), 20.0) {
        let one = [task];
        if system.admit(next, Request::Executor(&one), &mut steps).is_ok() {
            tasks.extend(one);
        }
        next += 1;
    }
    let servers: Vec<_> = system
        .served_on(0)
        .map(|(id, one)| (one, system.job_within(id).expect("served")))
        .collect();
    let holder = |(one, _): &(Reservation, Duration)| {
        Task::new(TaskSpec::periodic("holder", one.period(), one.budget())).expect("valid")
    };
    let holders = servers.iter().map(holder).collect();
    Host { servers, holders, kernel, tasks, late, switch }
}

/// Notes the longest response of each holder's jobs.
struct Longest<'a>(&'a RefCell<Vec<Duration>>);

impl Sink for Longest<'_> {
    fn record(&mut self, event: Event) {
        if event.kind == Kind::Complete {
            let longest = &mut self.0.borrow_mut()[event.job.task as usize];
            *longest = (*longest).max(event.at - event.release);
        }
    }
}

fn arrivals<'a>(rng: &mut ChaCha8Rng, of: &'a [Task]) -> Box<dyn Arrivals + 'a> {
    let own = ChaCha8Rng::seed_from_u64(rng.random());
    match rng.random_range(0..4) {
        0 => Box::new(Drawn::new(of, own)),
        1 => Box::new(Bursty::new(of, own)),
        2 => Box::new(Adversarial::new(of, Attack::default())),
        _ => {
            // Strictly periodic from any phase on, also across the ends of periods.
            let phases: Vec<Duration> = of
                .iter()
                .map(|task| {
                    let most = task.min_inter_arrival().as_nanos();
                    Duration::from_nanos(rng.random_range(0..most))
                })
                .collect();
            Box::new(punctual_sim::arrivals::Periodic::new(of, &phases))
        }
    }
}

/// Runs the host, and returns the late jobs of tasks and the longest response of each holder. With
/// `changes` servers have smaller budgets at times, and their own again.
fn run(host: &Host, changes: bool, rng: &mut ChaCha8Rng) -> (u64, Vec<Duration>) {
    let until = Instant::from_nanos(4_000 * GRAIN);
    let above: Vec<_> = host.kernel.iter().map(|one| (*one, Demand::Drawn)).collect();
    let kernel = Servers::new(&above, None, ChaCha8Rng::seed_from_u64(rng.random()));
    let kernel = kernel.expect("admitted");
    let longest = RefCell::new(vec![Duration::ZERO; host.servers.len()]);
    let reservations = host.servers.iter().map(|(one, _)| *one);
    let holders = arrivals(rng, &host.holders);
    let sink = Longest(&longest);
    let mut served = Served::new(kernel, reservations, holders, until, host.late, sink);
    for (at, (own, _)) in host.servers.iter().enumerate().filter(|_| changes) {
        for _ in 0..rng.random_range(0..6) {
            let when = Instant::from_nanos(rng.random_range(0..4_000 * GRAIN));
            let least = host.late.as_nanos().max(1);
            let budget = rng.random_range(least..=own.budget().as_nanos().max(least));
            let budget = if rng.random() { own.budget() } else { Service::from_nanos(budget) };
            served.change(at, Reservation::new(budget, own.period()).expect("less"), when);
        }
    }
    let late = if host.tasks.is_empty() {
        0
    } else {
        let costs =
            Overheads { wake_up: Service::ZERO, switch: host.switch, ..Overheads::default() };
        let most = |of: fn(&Task) -> Duration| host.tasks.iter().map(of).max().unwrap_or_default();
        let end = until + most(Task::relative_deadline) + Duration::from_nanos(1);
        let mut seen = Late::new(&host.tasks);
        let setting = Setting::default().costing(costs).on(&mut served, end);
        let jobs = Jobs::of(Policy::Rmdp, &host.tasks, 0);
        let mut own = arrivals(rng, &host.tasks);
        let left = run_in(setting, &host.tasks, jobs, &mut own, until, &mut seen);
        seen.late + left.len() as u64
    };
    served.finish();
    drop(served);
    (late, longest.into_inner())
}

#[test]
fn jobs_in_servers_and_tasks_beneath_them_are_in_time() {
    let mut rng = ChaCha8Rng::seed_from_u64(418);
    let (mut with_bound, mut near, mut beneath) = (0, 0, 0);
    for number in 0..12_000 {
        let host = draw(&mut rng);
        beneath += usize::from(!host.servers.is_empty() && !host.tasks.is_empty());
        for _ in 0..3 {
            let (late, longest) = run(&host, false, &mut rng);
            assert_eq!(late, 0, "host {number}: a task was late");
            for ((one, bound), longest) in host.servers.iter().zip(longest) {
                assert!(longest <= *bound, "host {number}: {one} took {longest}, not {bound}");
                with_bound += 1;
                near += usize::from(longest.as_nanos() * 10 >= bound.as_nanos() * 9);
            }
        }
    }
    assert!(
        with_bound > 30_000 && near > 12_000 && beneath > 4_500,
        "{with_bound} {near} {beneath}"
    );
}

/// Tests that servers whose budgets change within their periods take no more from everything beneath
/// than with their largest.
#[test]
fn servers_that_change_their_budgets_take_no_more_than_the_largest() {
    let mut rng = ChaCha8Rng::seed_from_u64(420);
    let mut beneath = 0;
    for number in 0..6_000 {
        let host = draw(&mut rng);
        if host.servers.is_empty() {
            continue;
        }
        beneath += usize::from(!host.tasks.is_empty());
        let (late, _) = run(&host, true, &mut rng);
        assert_eq!(late, 0, "host {number}: a task was late");
    }
    assert!(beneath > 2_000, "{beneath}");
}

/// A holder that always has work gets its budget in every period, each from its start on.
#[test]
fn a_holder_that_always_wants_more_has_its_budget_in_each_period() {
    let mut rng = ChaCha8Rng::seed_from_u64(419);
    let mut checked = 0;
    for number in 0..3_000 {
        let host = draw(&mut rng);
        let Some(((own, bound), higher)) = host.servers.split_last() else { continue };
        let above: Vec<_> = host.kernel.iter().map(|one| (*one, Demand::Drawn)).collect();
        let kernel = Servers::new(&above, None, ChaCha8Rng::seed_from_u64(rng.random()));
        let kernel = kernel.expect("admitted");
        let until = Instant::from_nanos(3_000 * GRAIN);
        let count = higher.len();
        let holders = arrivals(&mut rng, &host.holders[..count]);
        let reservations = higher.iter().map(|(one, _)| *one);
        let served = Served::new(kernel, reservations, holders, until, host.late, ());
        // One job that never ends, in a server of its own below the others.
        let whole = [Task::new(TaskSpec::periodic(
            "always",
            Duration::from_secs(1),
            Service::from_secs(1),
        ))
        .expect("valid")];
        let times = RefCell::new(Vec::new());
        let always = punctual_sim::arrivals::Periodic::new(&whole, &[Duration::ZERO]);
        let mut last = Served::new(served, [*own], always, until, host.late, Runs(&times));
        let mut now = Instant::ZERO;
        while now < until {
            let Stretch { until: next, .. } = last.at(now, false);
            now = next.min(until);
        }
        let (period, late) = (own.period(), host.late.at_full_speed());
        let got = |from: Instant, to: Instant| -> u64 {
            let within = |&(start, end): &(Instant, Instant)| {
                end.min(to).saturating_since(start.max(from)).as_nanos()
            };
            times.borrow().iter().map(within).sum()
        };
        // With its switches free, it has a whole budget by then; what a late look gave too much is
        // taken from the next period.
        let mut start = Instant::ZERO;
        while start + period + late < until {
            let two = got(Instant::ZERO, start + *bound);
            let periods = (start - Instant::ZERO).as_nanos() / period.as_nanos() + 1;
            let least = periods * own.budget().as_nanos();
            assert!(two >= least, "host {number}: {own} got {two} of {least} by {start}");
            checked += 1;
            start += period;
        }
    }
    assert!(checked > 10_000, "{checked}");
}

/// Notes the stretches in which the only job ran.
struct Runs<'a>(&'a RefCell<Vec<(Instant, Instant)>>);

impl Sink for Runs<'_> {
    fn record(&mut self, event: Event) {
        let mut runs = self.0.borrow_mut();
        match event.kind {
            Kind::Start | Kind::Resume => runs.push((event.at, Instant::MAX)),
            _ => {
                if let Some((_, end)) = runs.last_mut() {
                    *end = event.at;
                }
            }
        }
    }
}

#[test]
fn alone_each_job_is_served_at_once() {
    let own: Reservation = "3ns/10ns".parse().expect("valid");
    let task = [Task::new(TaskSpec::periodic("job", own.period(), own.budget())).expect("valid")];
    for phase in 0..10 {
        let longest = RefCell::new(vec![Duration::ZERO]);
        let arrivals = punctual_sim::arrivals::Periodic::new(&task, &[Duration::from_nanos(phase)]);
        let until = Instant::from_nanos(1_000);
        let sink = Longest(&longest);
        let mut served = Served::new(Whole, [own], arrivals, until, Service::ZERO, sink);
        served.finish();
        drop(served);
        assert_eq!(longest.into_inner(), [Duration::from_nanos(3)], "{phase}");
    }
}
