//! Systems that fit inside reservations, or below them, never miss there: the analysis of supply
//! against the policies that supply.

use crate::late::Late;
use punctual_analysis::edf::demand::{DemandVerdict, processor_demand};
use punctual_analysis::fixed_priority::all_in_time;
use punctual_analysis::supply::{Guarantee, Inside, Limits, Supply, build, fits_inside};
use punctual_analysis::{CpuLoad, Steps};
use punctual_model::{Duration, Instant, Policy, Reservation, Service, Task};
use punctual_policy::jobs::Jobs;
use punctual_policy::timetable::Turns;
use punctual_sim::arrivals::{Adversarial, Arrival, Arrivals, Attack, Bursty, Drawn};
use punctual_sim::processor::{Demand, Part, Periods, Place, Processor, Servers, Tabled, Whole};
use punctual_sim::tasks::{Setting, run_in};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Draws tasks that use up to `most` of a processor.
fn tasks(rng: &mut ChaCha8Rng, most: f64) -> Vec<Task> {
    crate::draw::tasks(rng, (0.05, most.max(0.06)), 20.0)
}

fn policy(tasks: &[Task], policy: Policy) -> Jobs {
    Jobs::of(policy, tasks, 0)
}

/// A run of `tasks` on `processor`.
struct Run<'a> {
    tasks: &'a [Task],
    policy: Policy,
    seed: u64,
}

impl Run<'_> {
    /// Returns the number of jobs that were late, or not complete when their deadline had passed,
    /// over the given arrivals.
    fn late(&self, processor: impl Processor, arrivals: &mut dyn Arrivals) -> u64 {
        let of_all =
            |of: fn(&Task) -> Duration| self.tasks.iter().map(of).max().unwrap_or_default();
        let until = Instant::ZERO
            + of_all(Task::min_inter_arrival) * 4
            + of_all(Task::release_jitter)
            + DELAY;
        // All jobs that arrive before `until` are due before this.
        let end = until + of_all(Task::relative_deadline) + Duration::from_nanos(1);
        let mut seen = Late::new(self.tasks);
        let jobs = policy(self.tasks, self.policy);
        let setting = Setting::default().on(processor, end);
        let left = run_in(setting, self.tasks, jobs, &mut &mut *arrivals, until, &mut seen);
        seen.late + left.len() as u64
    }

    /// Returns the same over drawn arrivals, bursts, and attacks by each task. `processor` makes
    /// the processor for the instant at which all tasks are released at once.
    fn late_over_all<P: Processor>(&self, processor: impl Fn(Instant) -> P) -> u64 {
        let blockers = (0..self.tasks.len() as u32).map(Some).chain([None]);
        let attacks = blockers.map(|blocker| {
            let attack = Attack { blocker, ..Attack::default() };
            // Late enough for a whole budget before it.
            let pattern = Adversarial::new(self.tasks, attack);
            let critical = pattern.critical_instant() + DELAY;
            self.late(processor(critical), &mut Delayed(pattern))
        });
        let rng = || ChaCha8Rng::seed_from_u64(self.seed);
        attacks.sum::<u64>()
            + self.late(processor(Instant::ZERO), &mut Drawn::new(self.tasks, rng()))
            + self.late(processor(Instant::ZERO), &mut Bursty::new(self.tasks, rng()))
    }
}

/// No period is longer.
const DELAY: Duration = Duration::from_millis(10);

/// Arrivals that come later by [`DELAY`].
struct Delayed<'a>(Adversarial<'a>);

impl Arrivals for Delayed<'_> {
    fn next(&mut self, task: u32) -> Arrival {
        let Arrival { release, known, exec_time } = self.0.next(task);
        Arrival { release: release + DELAY, known: known + DELAY, exec_time }
    }
}

fn reservation(rng: &mut ChaCha8Rng, share: f64) -> Reservation {
    let period = rng.random_range(500..=10_000u64);
    let budget = ((period as f64 * share) as u64).clamp(1, period);
    Reservation::new(Service::from_micros(budget), Duration::from_micros(period)).expect("valid")
}

#[test]
fn systems_that_fit_inside_a_reservation_never_miss_there() {
    let (mut fit, mut late_unfit, mut unfit) = (0, 0, 0);
    for seed in 0..1_500 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let share = rng.random_range(0.3..0.9);
        let own = reservation(&mut rng, share);
        let tasks = tasks(&mut rng, 0.8 * share);
        let by = [Policy::Fp, Policy::Edf][rng.random_range(0..2)];
        let load = CpuLoad::new(&tasks, [], Service::ZERO);
        let run = Run { tasks: &tasks, policy: by, seed };
        let answer = fits_inside(by, &load, &Supply::hard_cbs(own), &mut Steps::new(3_000_000));
        // The first budget just before the critical instant, all others as late as possible.
        let worst = |critical: Instant| {
            let used =
                Instant::from_nanos(critical.as_nanos().saturating_sub(own.budget().as_nanos()));
            Periods::new(own, used, Place::EarlyThenLate)
        };
        if answer != Inside::Fits {
            unfit += 1;
            late_unfit += u64::from(run.late_over_all(worst) > 0);
            continue;
        }
        fit += 1;
        assert_eq!(run.late_over_all(worst), 0, "seed {seed}: {by:?} in {own}: {tasks:#?}");
        let others: Vec<(Reservation, Demand)> = [Demand::Always, Demand::Drawn]
            .iter()
            .map(|demand| (reservation(&mut rng, (1.0 - share) / 2.0 - 0.001), *demand))
            .collect();
        let all = [&[(own, Demand::Always)], &others[..]].concat();
        let served =
            |_| Servers::new(&all, Some(0), ChaCha8Rng::seed_from_u64(seed)).expect("at most one");
        assert_eq!(run.late_over_all(served), 0, "seed {seed}: {by:?} in {all:?}: {tasks:#?}");
    }
    println!("{fit} fit, {late_unfit} of {unfit} others are late");
    assert!(fit > 100 && late_unfit * 2 > unfit, "{fit} {late_unfit} {unfit}");
}

#[test]
fn systems_that_fit_inside_a_timetable_never_miss_there() {
    let mut fit = 0;
    for seed in 0..1_500 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let share = rng.random_range(0.3..0.8);
        let reservations =
            [reservation(&mut rng, share), reservation(&mut rng, 0.9 * (1.0 - share))];
        let tasks = tasks(&mut rng, 0.8 * share);
        let by = [Policy::Fp, Policy::Edf][rng.random_range(0..2)];
        let load = CpuLoad::new(&tasks, [], Service::ZERO);
        let supply = Supply::new(reservations[0], Guarantee::EveryWindow);
        if fits_inside(by, &load, &supply, &mut Steps::new(3_000_000)) != Inside::Fits {
            continue;
        }
        let Ok(built) = build(&reservations, Limits::default(), &mut Steps::default()) else {
            continue;
        };
        fit += 1;
        let run = Run { tasks: &tasks, policy: by, seed };
        let slots = |origin| {
            let turns = Turns::new(built.table.clone(), origin);
            Tabled::new(Whole, Some(turns), Part::Slots(0), Service::ZERO)
        };
        // The time before the origin is unassigned, so the table starts before all releases.
        assert_eq!(run.late_over_all(|_| slots(Instant::ZERO)), 0, "seed {seed}: {tasks:#?}");
    }
    println!("{fit} fit");
    assert!(fit > 200, "{fit}");
}

#[test]
fn systems_that_fit_below_reservations_never_miss_there() {
    let (mut fit, mut late_unfit, mut unfit) = (0, 0, 0);
    for seed in 0..1_500 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let share = rng.random_range(0.1..0.6);
        let count = rng.random_range(1..=3);
        let reservations: Vec<Reservation> =
            (0..count).map(|_| reservation(&mut rng, share / f64::from(count))).collect();
        let tasks = tasks(&mut rng, 0.7 * (1.0 - share));
        let by = [Policy::Fp, Policy::Edf][rng.random_range(0..2)];
        let load = CpuLoad::new(&tasks, reservations.clone(), Service::ZERO);
        let mut steps = Steps::new(3_000_000);
        let fits = match by {
            Policy::Edf => processor_demand(&load, &mut steps) == DemandVerdict::Fits,
            _ => all_in_time(&load, &mut steps),
        };
        let run = Run { tasks: &tasks, policy: by, seed };
        let mut late = 0;
        for demand in [Demand::Always, Demand::Drawn] {
            let all: Vec<_> = reservations.iter().map(|one| (*one, demand)).collect();
            let below =
                |_| Servers::new(&all, None, ChaCha8Rng::seed_from_u64(seed)).expect("below one");
            late += run.late_over_all(below);
        }
        if fits {
            assert_eq!(late, 0, "seed {seed}: {by:?} below {reservations:?}: {tasks:#?}");
            fit += 1;
        } else {
            unfit += 1;
            late_unfit += u64::from(late > 0);
        }
    }
    println!("{fit} fit, {late_unfit} of {unfit} others are late");
    assert!(fit > 100 && late_unfit * 4 > unfit, "{fit} {late_unfit} {unfit}");
}
