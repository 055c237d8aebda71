//! Earliest deadline first, and first in, first out.

use punctual_analysis::edf::demand::{DemandVerdict, processor_demand};
use punctual_analysis::edf::response_time;
use punctual_analysis::{CpuLoad, Granularity, Steps, admit, fifo};
use punctual_model::{HostProfile, Policy};

use crate::common::{Ticks, contract, in_ticks, load, plain};
use crate::{DISCRETE, known, late_by};

fn with_deadlines(tasks: &[(u64, u64, u64, u64)]) -> CpuLoad {
    let system: Vec<Ticks> = tasks
        .iter()
        .map(|&(wcet, period, deadline, quantum)| Ticks {
            deadline,
            quantum,
            ..Ticks::plain(wcet, period)
        })
        .collect();
    load(&system)
}

fn fits_under_edf(tasks: &[(u64, u64, u64, u64)]) -> bool {
    processor_demand(&with_deadlines(tasks), &mut Steps::default()) == DemandVerdict::Fits
}

/// Published: R = 79, 101, 121 against D = 50, 100, 120. No contract can declare the first task,
/// because its wcet is above its deadline. Even with D = 79 for it, a window of 202 has 203 of work
/// due.
#[test]
fn edf_01_late_tasks_are_not_schedulable() {
    assert!(!fits_under_edf(&[(79, 120, 79, 0), (11, 34, 100, 0), (1, 190, 120, 0)]));
}

#[test]
fn edf_02_long_busy_period() {
    let system =
        [(1, 5, 5, 0), (100, 1000, 1000, 0), (2, 10, 10, 0), (5, 20, 45, 0), (10, 50, 50, 0)];
    assert!(fits_under_edf(&system));
    let load = with_deadlines(&system);
    let times =
        response_time::response_times(&load, Granularity::Continuous, &mut Steps::default());
    assert_eq!(in_ticks(&times), known([1, 694, 3, 22, 27]));
}

#[test]
fn edf_np_01_np_03_without_preemption() {
    let times = |system, granularity| {
        let load = with_deadlines(system);
        in_ticks(&response_time::non_preemptive(&load, granularity, &mut Steps::default()))
    };
    let first = [(79, 120, 100, 79), (11, 34, 100, 11), (1, 190, 100, 1)];
    assert!(fits_under_edf(&first));
    assert_eq!(times(&first, DISCRETE), known([91, 91, 91]));
    let third = [(5, 20, 29, 5), (10, 20, 30, 10)];
    assert!(fits_under_edf(&third));
    assert_eq!(times(&third, DISCRETE), known([14, 15]));
    assert_eq!(times(&third, Granularity::Continuous), known([15, 15]));
}

#[test]
fn edf_nps_01_floating_sections() {
    let system = [(4, 12, 25, 2), (6, 20, 30, 3), (8, 40, 40, 4)];
    assert!(fits_under_edf(&system));
    let times =
        response_time::response_times(&with_deadlines(&system), DISCRETE, &mut Steps::default());
    assert_eq!(in_ticks(&times), known([8, 13, 22]));
}

#[test]
fn fifo_01_one_bound_for_all() {
    let system = plain(&[(79, 120), (11, 34), (1, 190)]);
    let times = fifo::response_times(&load(&system), &mut Steps::default());
    assert_eq!(in_ticks(&times), known([91, 91, 91]));
    // The second task with its deadline of 34.
    let refusal = admit(&contract(Policy::Fifo, 1, &system, &[]), &HostProfile::ideal(1))
        .expect_err("91 > 34");
    assert_eq!((refusal.test, refusal.entry.as_deref()), ("fifo-response-time", Some("t1")));
    assert_eq!(refusal.shortfall, Some(late_by(57)));
}
