//! Measures how tight the tests are: what each admits, against the sets in which no search found a
//! miss.
//!
//! A miss is a proof that no safe test can admit the set; if none is found, that is no proof that a
//! test could. So the feasible part lies between the exact test and the column "no miss".
//!
//! `classes` (how sets are counted), `search` (the upper bound), then the tables: here those of a
//! whole processor, in `supply` those inside a reservation.

mod classes;
mod supply;

use punctual_analysis::edf::demand::{DemandVerdict, processor_demand};
use punctual_analysis::fixed_priority::{ResponseTime, all_in_time, non_preemptive};
use punctual_analysis::{Granularity, Steps, fifo, utilisation};
use punctual_model::{Duration, Policy, Service, Task, TaskSpec};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use self::classes::{Family, table};
use crate::sets::{Shape, load, period, shares};
use crate::table::Table;

pub(crate) fn tables(sets: u64) -> Vec<Table> {
    vec![
        preemptive(sets),
        quanta(sets),
        deadlines(sets),
        in_order(sets),
        supply::acceptance(sets),
        supply::least_shares(sets.div_ceil(10)),
    ]
}

/// The steps that one test of one set may use.
const STEPS: u64 = 1_000_000;

fn steps() -> Steps {
    Steps::new(STEPS)
}

/// Draws 2 to 8 tasks by UUniFast with these periods, the shortest first.
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

fn as_drawn(tasks: &[Task]) -> Vec<Task> {
    tasks.to_vec()
}

/// Orders the tasks for first in, first out, which runs jobs released at one instant in the order
/// of tasks: the search is harder with the earliest deadline last.
fn last_first(tasks: &[Task]) -> Vec<Task> {
    tasks.iter().rev().cloned().collect()
}

/// Adds last segments: with yield points only after each quantum, a job ends with the rest of its
/// batch.
fn with_last_segments(tasks: &[Task]) -> Vec<Task> {
    changed(tasks, |task| {
        let (wcet, quantum) = (task.wcet().as_nanos(), task.quantum().as_nanos());
        let left = match wcet % quantum {
            0 => quantum,
            left => left,
        };
        TaskSpec { last_segment: Service::from_nanos(left), ..task.spec().clone() }
    })
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
    all_in_time(&load(tasks), &mut steps())
}

fn exact_without_preemption(tasks: &[Task]) -> bool {
    let load = load(tasks);
    let times = non_preemptive::response_times(&load, Granularity::Continuous, &mut steps());
    meets_deadlines(tasks, &times)
}

fn exact_in_order(tasks: &[Task]) -> bool {
    meets_deadlines(tasks, &fifo::response_times(&load(tasks), &mut steps()))
}

/// The processor demand test, by QPA.
fn demand(tasks: &[Task]) -> bool {
    processor_demand(&load(tasks), &mut steps()) == DemandVerdict::Fits
}

/// The density test of one CPU, `Σ C_i / min(D_i, T_i) ≤ 1`, in floating point, because nothing is
/// promised here. With deadlines at the end of the period it is the utilisation test.
fn density(tasks: &[Task]) -> bool {
    let density = |task: &Task| {
        let within = task.relative_deadline().min(task.min_inter_arrival());
        task.wcet().as_nanos() as f64 / within.as_nanos() as f64
    };
    tasks.iter().map(density).sum::<f64>() <= 1.0
}

fn preemptive(sets: u64) -> Table {
    table(
        "tight-preemptive",
        "Preemptible anywhere, deadlines at the end of the period (10 to 1000 ms)",
        60..=95,
        sets,
        &[
            Family {
                of: as_drawn,
                tests: &[
                    ("liu-layland", |tasks| utilisation::liu_layland(&load(tasks)).admits),
                    ("hyperbolic", |tasks| utilisation::hyperbolic(&load(tasks)).admits),
                    ("rm exact", exact),
                ],
                policy: Policy::Rm,
                no_miss: "rm no miss",
            },
            Family {
                of: as_drawn,
                tests: &[("edf utilisation", density), ("edf qpa", demand)],
                policy: Policy::Edf,
                no_miss: "edf no miss",
            },
        ],
        |rng, total| plain(rng, total, 100.0),
    )
}

fn quanta(sets: u64) -> Table {
    table(
        "tight-quanta",
        "Upcalls: quanta of 1 PDU to a whole batch (10 to 100 ms); last: the last segment is known; \
         np: no job is preempted",
        40..=95,
        sets,
        &[
            Family {
                of: as_drawn,
                tests: &[
                    ("rmdp", |tasks| utilisation::rmdp(&load(tasks)).admits),
                    ("sha", |tasks| utilisation::sha(&load(tasks)).admits),
                    ("exact", exact),
                ],
                policy: Policy::Rmdp,
                no_miss: "no miss",
            },
            Family {
                of: with_last_segments,
                tests: &[("last exact", exact)],
                policy: Policy::Rmdp,
                no_miss: "last no miss",
            },
            Family {
                of: whole_jobs,
                tests: &[("np exact", exact_without_preemption)],
                policy: Policy::Rm,
                no_miss: "np no miss",
            },
            Family {
                of: as_drawn,
                tests: &[("edf qpa", demand)],
                policy: Policy::Edf,
                no_miss: "edf no miss",
            },
            Family {
                of: whole_jobs,
                tests: &[("np edf qpa", demand)],
                policy: Policy::Edf,
                no_miss: "np edf no miss",
            },
        ],
        |rng, total| Shape::draw(rng).at(total),
    )
}

fn deadlines(sets: u64) -> Table {
    table(
        "tight-deadlines",
        "Preemptible anywhere, deadlines drawn between wcet and period (10 to 1000 ms); fp: the \
         shorter deadline first",
        20..=95,
        sets,
        &[
            Family {
                of: as_drawn,
                tests: &[("fp exact", exact)],
                policy: Policy::Fp,
                no_miss: "fp no miss",
            },
            Family {
                of: as_drawn,
                tests: &[("edf density", density), ("edf qpa", demand)],
                policy: Policy::Edf,
                no_miss: "edf no miss",
            },
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
    table(
        "tight-fifo",
        "First in, first out, deadlines at the end of the period (10 to 40 ms)",
        20..=95,
        sets,
        &[Family {
            of: last_first,
            tests: &[("fifo exact", exact_in_order)],
            policy: Policy::Fifo,
            no_miss: "fifo no miss",
        }],
        |rng, total| plain(rng, total, 4.0),
    )
}
