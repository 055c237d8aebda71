//! Inside a reservation: the sets that are admitted, and the least budget that is, against the
//! latest supply that the reservation allows.
//!
//! All tasks are released when the longest stretch without service begins. A holder to whom X is
//! promised in *every period* Y then waits up to 2(Y − X), because the first budget came early and
//! all others come late; a holder to whom it is promised in *every window* of length Y waits only Y
//! − X.

use punctual_analysis::Steps;
use punctual_analysis::supply::bound::{Guarantee, Inside, Supply};
use punctual_analysis::supply::inside::{fits_inside, least_budget};
use punctual_model::{Duration, Instant, Policy, Reservation, Service, Task};
use punctual_policy::jobs::Jobs;
use punctual_sim::arrivals::Periodic;
use punctual_sim::processor::{Periods, Place};
use punctual_sim::tasks::{Setting, run_in};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::classes::{Late, parts};
use super::{STEPS, plain};
use crate::sets::load;
use crate::table::{Cell, Table};

/// The steps that one step of a budget search may use. A budget close to the tasks' demand has long
/// busy windows; an undecided one counts as too little.
const STEPS_A_TRIAL: u64 = 50_000;

/// The length of a simulation, in longest periods.
const LENGTH: u64 = 10;

const CASES: [(Policy, Guarantee); 4] = [
    (Policy::Rm, Guarantee::EveryPeriod),
    (Policy::Rm, Guarantee::EveryWindow),
    (Policy::Edf, Guarantee::EveryPeriod),
    (Policy::Edf, Guarantee::EveryWindow),
];

const COLUMNS: [&str; 8] = [
    "rm period",
    "rm period no miss",
    "rm window",
    "rm window no miss",
    "edf period",
    "edf period no miss",
    "edf window",
    "edf window no miss",
];

/// Returns the acceptance inside half of the processor, in periods of a third of the shortest
/// period.
///
/// # Panics
/// Panics if a test admits a set that was observed to miss: that would be an error in one of the
/// two.
pub(super) fn acceptance(sets: u64) -> Table {
    parts(
        "tight-supply",
        "Inside half of the processor, every third of the shortest period; utilisation of the \
         reservation; 10 to 40 ms; period: X in every period, window: in every window",
        20..=95,
        sets,
        &COLUMNS,
        |rng, total| {
            let tasks = plain(rng, total / 2.0, 4.0);
            let period = shortest(&tasks) / 3;
            let reservation = Reservation::new((period / 2).as_full_service(), period);
            let reservation = reservation.expect("half of a period");
            CASES
                .into_iter()
                .flat_map(|(policy, guarantee)| {
                    let supply = Supply::new(reservation, guarantee);
                    let steps = &mut Steps::new(STEPS);
                    let fits = fits_inside(policy, &load(&tasks), &supply, steps) == Inside::Fits;
                    let in_time = in_time(policy, &tasks, reservation, guarantee);
                    assert!(in_time || !fits, "{policy:?} {guarantee:?} admits: {tasks:#?}");
                    [fits, in_time]
                })
                .collect()
        },
    )
}

/// Returns the least share of the processor, on average.
pub(super) fn least_shares(sets: u64) -> Table {
    let title = format!(
        "The least X of a reservation every third of the shortest period, as a mean share X/Y \
         ({sets} sets in each class, 10 to 40 ms; sets that do not fit inside the whole CPU left out)"
    );
    let columns = [&["utilisation", "sets", "tasks need"], &COLUMNS[..]].concat();
    let mut table = Table::new("tight-shares", title, &columns);
    for class in (20..70).step_by(10) {
        let low = class as f64 / 100.0;
        eprintln!("tight-shares: {low:.2}");
        let mut rng = ChaCha8Rng::seed_from_u64(class);
        let (mut count, mut need, mut sums) = (0u64, 0.0, [0.0; COLUMNS.len()]);
        for _ in 0..sets {
            let total = low + rng.random_range(0.0..0.1);
            let tasks = plain(&mut rng, total, 4.0);
            let Some(shares) = shares(&tasks) else { continue };
            count += 1;
            need += tasks.iter().map(Task::utilisation).sum::<f64>();
            sums.iter_mut().zip(shares).for_each(|(sum, share)| *sum += share);
        }
        let means = [need].into_iter().chain(sums).map(|sum| Cell::from(sum / count as f64));
        let first = [Cell::from(&*format!("{low:.2} to {:.2}", low + 0.1)), count.into()];
        table.row(first.into_iter().chain(means));
    }
    table
}

fn shortest(tasks: &[Task]) -> Duration {
    tasks.iter().map(Task::min_inter_arrival).min().expect("tasks")
}

fn shares(tasks: &[Task]) -> Option<Vec<f64>> {
    let period = shortest(tasks) / 3;
    let load = load(tasks);
    let mut shares = Vec::new();
    for (policy, guarantee) in CASES {
        let share = |budget: Service| budget.as_nanos() as f64 / period.as_nanos() as f64;
        let least = least_budget(policy, &load, guarantee, period, STEPS_A_TRIAL)?;
        shares.push(share(least.reservation.budget()));
        shares.push(share(without_a_miss(policy, tasks, period, guarantee)));
    }
    Some(shares)
}

/// Returns by bisection the least budget, in microseconds, with which no task is late.
fn without_a_miss(policy: Policy, tasks: &[Task], period: Duration, of: Guarantee) -> Service {
    let (mut low, mut high) = (0, period.as_nanos() / 1000);
    while high - low > 1 {
        let middle = (low + high) / 2;
        let reservation = Reservation::new(Service::from_micros(middle), period);
        if reservation.is_ok_and(|reservation| in_time(policy, tasks, reservation, of)) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Service::from_micros(high)
}

/// Returns whether all tasks are in time under the latest supply of `reservation`.
fn in_time(policy: Policy, tasks: &[Task], reservation: Reservation, of: Guarantee) -> bool {
    let budget = reservation.budget().at_full_speed();
    let share = budget.as_nanos() as f64 / reservation.period().as_nanos() as f64;
    // Then a task is late sooner or later, perhaps after the end of a simulation.
    if tasks.iter().map(Task::utilisation).sum::<f64>() > share {
        return false;
    }
    let (place, start) = match of {
        Guarantee::EveryPeriod => (Place::EarlyThenLate, budget),
        // At the end of one late budget the next is Y − X away.
        Guarantee::EveryWindow => (Place::Late, Duration::ZERO),
    };
    let longest = tasks.iter().map(Task::min_inter_arrival).max().expect("tasks");
    let until = Instant::ZERO + start + longest * LENGTH;
    // All jobs released before the end are due by then.
    let end = until + longest + Duration::from_nanos(1);
    let mut late = Late::new(tasks);
    let setting = Setting::default().on(Periods::new(reservation, Instant::ZERO, place), end);
    let jobs = Jobs::of(policy, tasks, 0);
    let mut arrivals = Periodic::new(tasks, &vec![start; tasks.len()]);
    let unfinished = run_in(setting, tasks, jobs, &mut arrivals, until, &mut late);
    unfinished.is_empty() && !late.any
}
