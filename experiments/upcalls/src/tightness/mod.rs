//! How tight the tests are: what each admits, against what no search found to miss.
//!
//! A set counts as simulated without a miss if every attack of [`search`] leaves all jobs in time. A
//! miss is a proof that no safe test can admit the set; none found is not a proof that one could. So
//! what is feasible lies between the exact test and that column.

mod search;
mod supply;

use std::ops::RangeInclusive;

use punctual_analysis::edf::demand::{DemandVerdict, processor_demand};
use punctual_analysis::fixed_priority::{ResponseTime, all_in_time, non_preemptive};
use punctual_analysis::{Granularity, Steps, fifo, utilisation};
use punctual_model::{Duration, Policy, Service, Task, TaskSpec};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::sets::{Shape, load, period, shares};
use crate::table::{Cell, Table, part};

pub(crate) fn tables(sets: u64) -> Vec<Table> {
    vec![preemptive(sets), quanta(sets), deadlines(sets), in_order(sets), supply::table(sets)]
}

type Test = (&'static str, fn(&[Task]) -> bool);

/// `sets` sets for each class of utilisation, the lower edge in hundredths, classes of 0.05; what
/// part of them each test admits.
fn by_class(
    name: &'static str,
    title: &str,
    classes: RangeInclusive<u32>,
    sets: u64,
    tests: &[Test],
    draw: fn(&mut ChaCha8Rng, f64) -> Vec<Task>,
) -> Table {
    let title = format!("{title} (part of {sets} sets in each class)");
    let names = tests.iter().map(|(name, _)| *name);
    let mut table =
        Table::new(name, title, &std::iter::once("utilisation").chain(names).collect::<Vec<_>>());
    for class in classes.step_by(5) {
        let mut rng = ChaCha8Rng::seed_from_u64(u64::from(class));
        let mut admitted = vec![0; tests.len()];
        for _ in 0..sets {
            let total = f64::from(class) / 100.0 + rng.random_range(0.0..0.05);
            let tasks = draw(&mut rng, total);
            for ((_, admits), count) in tests.iter().zip(&mut admitted) {
                *count += u64::from(admits(&tasks));
            }
        }
        let class = f64::from(class) / 100.0;
        let parts = admitted.into_iter().map(|count| part(count, sets));
        table.row(
            [Cell::from(&*format!("{class:.2} to {:.2}", class + 0.05))].into_iter().chain(parts),
        );
    }
    table
}

/// 2 to 8 tasks by UUniFast with these periods, the shortest first.
fn plain(rng: &mut ChaCha8Rng, total: f64, spread: f64) -> Vec<Task> {
    let n = rng.random_range(2..=8);
    let mut tasks: Vec<Task> = shares(rng, n, total)
        .into_iter()
        .map(|share| {
            let period = period(rng, 10_000.0, spread);
            let wcet = ((share * period.as_nanos() as f64) as u64).max(1);
            Task::new(TaskSpec::periodic("t", period, Service::from_nanos(wcet))).expect("valid")
        })
        .collect();
    tasks.sort_by_key(Task::min_inter_arrival);
    tasks
}

fn changed(tasks: &[Task], mut change: impl FnMut(&Task) -> TaskSpec) -> Vec<Task> {
    tasks.iter().map(|task| Task::new(change(task)).expect("valid")).collect()
}

fn whole_jobs(tasks: &[Task]) -> Vec<Task> {
    changed(tasks, |task| task.spec().clone().non_preemptive())
}

fn meets_deadlines(tasks: &[Task], times: &[ResponseTime]) -> bool {
    tasks
        .iter()
        .zip(times)
        .all(|(task, time)| time.bound().is_some_and(|bound| bound <= task.relative_deadline()))
}

fn exact(tasks: &[Task]) -> bool {
    all_in_time(&load(tasks), &mut Steps::default())
}

fn demand(tasks: &[Task]) -> bool {
    processor_demand(&load(tasks), &mut Steps::default()) == DemandVerdict::Fits
}

/// The density test of one CPU, `Σ C_i / min(D_i, T_i) ≤ 1`, in floating point: nothing is promised
/// here.
fn density(tasks: &[Task]) -> bool {
    let density = |task: &Task| {
        let within = task.relative_deadline().min(task.min_inter_arrival());
        task.wcet().as_nanos() as f64 / within.as_nanos() as f64
    };
    tasks.iter().map(density).sum::<f64>() <= 1.0
}

fn misses_nothing(policy: Policy) -> impl Fn(&[Task]) -> bool {
    move |tasks| !search::finds_a_miss(policy, tasks)
}

fn preemptive(sets: u64) -> Table {
    by_class(
        "tight-preemptive",
        "Preemptible anywhere, deadlines at the end of the period (10 to 1000 ms)",
        60..=95,
        sets,
        &[
            ("liu-layland", |tasks| utilisation::liu_layland(&load(tasks)).admits),
            ("hyperbolic", |tasks| utilisation::hyperbolic(&load(tasks)).admits),
            ("rm exact", exact),
            ("rm no miss", |tasks| misses_nothing(Policy::Rm)(tasks)),
            ("edf utilisation", density),
            ("edf demand", demand),
        ],
        |rng, total| plain(rng, total, 100.0),
    )
}

fn quanta(sets: u64) -> Table {
    by_class(
        "tight-quanta",
        "Upcalls: quanta of 1 PDU to a whole batch (10 to 100 ms); np: no job is preempted",
        40..=95,
        sets,
        &[
            ("rmdp", |tasks| utilisation::rmdp(&load(tasks)).admits),
            ("sha", |tasks| utilisation::sha(&load(tasks)).admits),
            ("rmdp exact", exact),
            ("rmdp no miss", |tasks| misses_nothing(Policy::Rmdp)(tasks)),
            ("edf demand", demand),
            ("edf no miss", |tasks| misses_nothing(Policy::Edf)(tasks)),
            ("np exact", |tasks| {
                let tasks = whole_jobs(tasks);
                let steps = &mut Steps::default();
                let times =
                    non_preemptive::response_times(&load(&tasks), Granularity::Continuous, steps);
                meets_deadlines(&tasks, &times)
            }),
            ("np no miss", |tasks| misses_nothing(Policy::Rm)(&whole_jobs(tasks))),
            ("np edf demand", |tasks| demand(&whole_jobs(tasks))),
            ("np edf no miss", |tasks| misses_nothing(Policy::Edf)(&whole_jobs(tasks))),
        ],
        |rng, total| Shape::draw(rng).at(total),
    )
}

fn deadlines(sets: u64) -> Table {
    by_class(
        "tight-deadlines",
        "Preemptible anywhere, deadlines drawn between wcet and period (10 to 1000 ms); fp: the \
         shorter deadline first",
        20..=95,
        sets,
        &[
            ("fp exact", exact),
            ("fp no miss", |tasks| misses_nothing(Policy::Fp)(tasks)),
            ("edf density", density),
            ("edf demand", demand),
            ("edf no miss", |tasks| misses_nothing(Policy::Edf)(tasks)),
        ],
        |rng, total| {
            let mut tasks = changed(&plain(rng, total, 100.0), |task| {
                let (wcet, period) = (task.wcet().at_full_speed(), task.min_inter_arrival());
                let relative_deadline =
                    Duration::from_nanos(rng.random_range(wcet.as_nanos()..=period.as_nanos()));
                TaskSpec { relative_deadline, ..task.spec().clone() }
            });
            tasks.sort_by_key(Task::relative_deadline);
            tasks
        },
    )
}

fn in_order(sets: u64) -> Table {
    by_class(
        "tight-fifo",
        "First in, first out, deadlines at the end of the period (10 to 40 ms)",
        20..=95,
        sets,
        &[
            ("fifo exact", |tasks| {
                meets_deadlines(tasks, &fifo::response_times(&load(tasks), &mut Steps::default()))
            }),
            ("fifo no miss", |tasks| misses_nothing(Policy::Fifo)(tasks)),
        ],
        |rng, total| plain(rng, total, 4.0),
    )
}
