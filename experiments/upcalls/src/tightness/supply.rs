//! Inside a reservation: the least budget by each test, against the least with which a search finds
//! no miss.

use punctual_analysis::supply::bound::Guarantee;
use punctual_analysis::supply::inside::least_budget;
use punctual_model::{Duration, Instant, Policy, Reservation, Service, Task};
use punctual_policy::jobs::Jobs;
use punctual_sim::arrivals::Periodic;
use punctual_sim::processor::{Periods, Place};
use punctual_sim::tasks::{Setting, run_in};
use punctual_trace::Summary;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::plain;
use crate::sets::load;
use crate::table::{Cell, Table};

/// What one budget search may use for each trial.
const STEPS: u64 = 2_000_000;

pub(super) fn table(sets: u64) -> Table {
    let title = format!(
        "Inside a reservation of a third of the shortest period: mean utilisation of the tasks, and \
         mean least share X/Y by each test ({sets} sets in each class, 10 to 40 ms; sets that do not \
         fit inside the whole CPU left out)"
    );
    let columns = [
        "utilisation",
        "sets",
        "tasks need",
        "rm every period",
        "rm no miss",
        "rm every window",
        "edf every period",
        "edf no miss",
        "edf every window",
    ];
    let mut table = Table::new("tight-supply", title, &columns);
    for class in (20..70).step_by(10) {
        let mut rng = ChaCha8Rng::seed_from_u64(class);
        let (mut count, mut need, mut sums) = (0u64, 0.0, [0.0; 6]);
        for _ in 0..sets {
            let total = class as f64 / 100.0 + rng.random_range(0.0..0.1);
            let tasks = plain(&mut rng, total, 4.0);
            let Some(shares) = shares(&tasks) else { continue };
            count += 1;
            need += tasks.iter().map(Task::utilisation).sum::<f64>();
            sums.iter_mut().zip(shares).for_each(|(sum, share)| *sum += share);
        }
        let low = class as f64 / 100.0;
        let means = [need].into_iter().chain(sums).map(|sum| Cell::from(sum / count as f64));
        let first = [Cell::from(&*format!("{low:.2} to {:.2}", low + 0.1)), count.into()];
        table.row(first.into_iter().chain(means));
    }
    table
}

fn shares(tasks: &[Task]) -> Option<[f64; 6]> {
    let period = tasks.iter().map(Task::min_inter_arrival).min()? / 3;
    let load = load(tasks);
    let mut shares = Vec::new();
    for policy in [Policy::Rm, Policy::Edf] {
        let share = |budget: Service| budget.as_nanos() as f64 / period.as_nanos() as f64;
        let least = |guarantee| {
            let least = least_budget(policy, &load, guarantee, period, STEPS)?;
            Some(share(least.reservation.budget()))
        };
        shares.push(least(Guarantee::EveryPeriod)?);
        shares.push(share(without_a_miss(policy, tasks, period)));
        shares.push(least(Guarantee::EveryWindow)?);
    }
    shares.try_into().ok()
}

/// By bisection: the least budget, in microseconds, with which nobody is late if all are released
/// when the first budget has just been used and the others come at the end of their periods.
fn without_a_miss(policy: Policy, tasks: &[Task], period: Duration) -> Service {
    let (mut low, mut high) = (0, period.as_nanos() / 1000);
    while high - low > 1 {
        let middle = (low + high) / 2;
        if in_time(policy, tasks, Service::from_micros(middle), period) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Service::from_micros(high)
}

fn in_time(policy: Policy, tasks: &[Task], budget: Service, period: Duration) -> bool {
    let Ok(reservation) = Reservation::new(budget, period) else { return false };
    let start = budget.at_full_speed();
    let longest = tasks.iter().map(Task::min_inter_arrival).max().unwrap_or(period);
    let until = Instant::ZERO + start + longest * 4;
    // Whatever is released before the end is due by then.
    let end = until + longest + Duration::from_nanos(1);
    let mut summary = Summary::new(tasks);
    let processor = Periods::new(reservation, Instant::ZERO, Place::EarlyThenLate);
    let setting = Setting::default().on(processor, end);
    let jobs = Jobs::of(policy, tasks, 0);
    let mut arrivals = Periodic::new(tasks, &vec![start; tasks.len()]);
    let unfinished = run_in(setting, tasks, jobs, &mut arrivals, until, &mut summary);
    unfinished.is_empty() && summary.late() == 0
}
