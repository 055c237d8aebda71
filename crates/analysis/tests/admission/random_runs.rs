//! Random legal behaviour of random systems stays within the proven bounds: sporadic releases,
//! jitter, quanta that begin anywhere, and a reservation above all.

use crate::common::{Draw, TICK, Ticks, draw};
use punctual_analysis::edf::{self, demand::DemandVerdict};
use punctual_analysis::fixed_priority::response_times;
use punctual_analysis::{CpuLoad, Granularity, Steps};
use punctual_model::Service;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

struct Job {
    task: usize,
    nominal: u64,
    known: u64,
    left: u64,
}

/// A constant bandwidth server above all tasks; its holder wakes and blocks at random.
#[derive(Default)]
struct Server {
    left: u64,
    deadline: u64,
    awake: bool,
}

impl Server {
    fn runs(&mut self, now: u64, (budget, period): (u64, u64), rng: &mut ChaCha8Rng) -> bool {
        if !self.awake && rng.random_bool(0.3) {
            self.awake = true;
            if now >= self.deadline || self.left * period > (self.deadline - now) * budget {
                (self.left, self.deadline) = (budget, now + period);
            }
        }
        if self.awake && now >= self.deadline {
            (self.left, self.deadline) = (budget, now + period);
        }
        let runs = self.awake && self.left > 0;
        self.left -= u64::from(runs);
        self.awake &= rng.random_bool(0.8);
        runs
    }
}

/// Returns the worst response time of each task in one random run of `ticks`.
fn run(
    rng: &mut ChaCha8Rng,
    system: &[Ticks],
    reserved: Option<(u64, u64)>,
    edf: bool,
    ticks: u64,
) -> Vec<u64> {
    let mut jobs = Vec::new();
    let dense = rng.random_bool(0.7);
    for (task, of) in system.iter().enumerate() {
        let (mut nominal, mut known) = (rng.random_range(0..3), 0);
        while nominal < ticks {
            let late = match rng.random_range(0..3) {
                0 => 0,
                1 => of.jitter,
                _ => rng.random_range(0..=of.jitter),
            };
            // Releases of one task become known in order.
            known = (nominal + late).max(known);
            jobs.push(Job { task, nominal, known, left: of.wcet });
            nominal += of.period + if dense { 0 } else { rng.random_range(0..3) };
        }
    }
    let mut server = Server::default();
    let mut worst = vec![0; system.len()];
    // The job inside a quantum, and the rest of that quantum.
    let mut inside: Option<(usize, u64)> = None;
    for now in 0..ticks {
        if reserved.is_some_and(|reserved| server.runs(now, reserved, rng)) {
            continue;
        }
        let ready = |at: &usize| jobs[*at].known <= now && jobs[*at].left > 0;
        let urgency = |at: &usize| {
            let Job { task, nominal, .. } = jobs[*at];
            let key = if edf { nominal + system[task].deadline } else { task as u64 };
            (key, task, nominal)
        };
        let runs = match inside {
            Some((at, _)) => Some(at),
            None => (0..jobs.len()).filter(ready).min_by_key(urgency),
        };
        let Some(at) = runs else { continue };
        let quantum = system[jobs[at].task].quantum;
        if inside.is_none() && quantum > 1 && rng.random_bool(0.5) {
            inside = Some((at, quantum));
        }
        jobs[at].left -= 1;
        if jobs[at].left == 0 {
            let response = now + 1 - jobs[at].nominal;
            worst[jobs[at].task] = worst[jobs[at].task].max(response);
        }
        inside = inside
            .map(|(at, left)| (at, left - 1))
            .filter(|&(at, left)| left > 0 && jobs[at].left > 0);
    }
    worst
}

const ANY: Draw = Draw { tasks: 4, longest: 14, jitter: true, quanta: true, any_deadline: true };

fn draw_reservation(rng: &mut ChaCha8Rng) -> Option<(u64, u64)> {
    rng.random::<bool>().then(|| {
        let period = rng.random_range(3..10);
        (rng.random_range(1..=period / 3), period)
    })
}

#[test]
fn response_times_stay_within_their_bounds() {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let mut tight = 0;
    for round in 0..1_500 {
        let system = draw(&mut rng, ANY);
        let reserved = draw_reservation(&mut rng);
        let load = CpuLoad::new(
            &crate::common::tasks(&system),
            reserved.map(|(budget, period)| crate::common::reservation(budget, period)),
            Service::ZERO,
        );
        let bounds = response_times(&load, &mut Steps::default());
        let seen = run(&mut rng, &system, reserved, false, 300);
        for (at, (&seen, bound)) in seen.iter().zip(&bounds).enumerate() {
            if let Some(bound) = bound.bound() {
                assert!(
                    seen * TICK <= bound.as_nanos(),
                    "round {round}: task {at} took {seen}, bound {bound}: {system:?} {reserved:?}"
                );
                tight += usize::from(seen * TICK == bound.as_nanos());
            }
        }
    }
    assert!(tight > 100, "some runs reach the bound: {tight}");
}

#[test]
fn response_times_by_deadline_stay_within_their_bounds() {
    let mut rng = ChaCha8Rng::seed_from_u64(13);
    let (mut tight, mut late) = (0, 0);
    for round in 0..1_500 {
        let system = draw(&mut rng, ANY);
        let reserved = draw_reservation(&mut rng);
        let load = CpuLoad::new(
            &crate::common::tasks(&system),
            reserved.map(|(budget, period)| crate::common::reservation(budget, period)),
            Service::ZERO,
        );
        let steps = &mut Steps::default();
        let bounds = edf::response_time::response_times(&load, Granularity::Continuous, steps);
        let seen = run(&mut rng, &system, reserved, true, 300);
        for (at, (&seen, bound)) in seen.iter().zip(&bounds).enumerate() {
            if let Some(bound) = bound.bound() {
                assert!(
                    seen * TICK <= bound.as_nanos(),
                    "round {round}: task {at} took {seen}, bound {bound}: {system:?} {reserved:?}"
                );
                tight += usize::from(seen * TICK == bound.as_nanos());
                late += usize::from(seen > system[at].deadline);
            }
        }
    }
    assert!(tight > 100 && late > 10, "some runs reach the bound: {tight}, some are late: {late}");
}

#[test]
fn systems_admitted_by_edf_meet_every_deadline() {
    let mut rng = ChaCha8Rng::seed_from_u64(12);
    let mut admitted = 0;
    for round in 0..4_000 {
        let system = draw(&mut rng, ANY);
        let reserved = draw_reservation(&mut rng);
        let load = CpuLoad::new(
            &crate::common::tasks(&system),
            reserved.map(|(budget, period)| crate::common::reservation(budget, period)),
            Service::ZERO,
        );
        // Not `admit`, which would search for a counter-offer.
        if edf::demand::processor_demand(&load, &mut Steps::default()) != DemandVerdict::Fits {
            continue;
        }
        admitted += 1;
        let seen = run(&mut rng, &system, reserved, true, 300);
        for (task, seen) in system.iter().zip(seen) {
            assert!(seen <= task.deadline, "round {round}: {seen} in {system:?} {reserved:?}");
        }
    }
    assert!(admitted > 300, "{admitted}");
}
