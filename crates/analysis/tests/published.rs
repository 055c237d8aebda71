//! Published answers, each under the id it has in the project's collection of oracles.
//!
//! Elsewhere, beside the code they check: the bounds of FP-12 (`ratio.rs`), LBAP-01 (`load.rs`),
//! SBF-01 (`supply_bound.rs`), RSV-01 (`supply_region.rs`), and the response times of EDF-01, which
//! has a wcet above its deadline, as no contract can say (`edf`).

mod common;

use common::{TICK, Ticks, contract, in_ticks, load, plain, response_ticks};
use punctual_analysis::edf::demand::{DemandVerdict, processor_demand};
use punctual_analysis::edf::response_time;
use punctual_analysis::fixed_priority::{last_segment, non_preemptive, suspension};
use punctual_analysis::global::workload::{self, Slack};
use punctual_analysis::global::{self, density};
use punctual_analysis::{CpuLoad, Granularity, Shortfall, Steps, admit, fifo, utilisation};
use punctual_model::{Duration, HostProfile, Policy, Service, Task, TaskSpec};

const DISCRETE: Granularity = Granularity::Ticks(TICK);

fn late_by(ticks: u64) -> Shortfall {
    Shortfall::Time(Duration::from_nanos(ticks * TICK))
}

fn responses(tasks: &[(u64, u64)]) -> Vec<Option<u64>> {
    response_ticks(&load(&plain(tasks)))
}

fn known<const N: usize>(ticks: [u64; N]) -> Vec<Option<u64>> {
    ticks.into_iter().map(Some).collect()
}

#[test]
fn fp_01_exact_fit() {
    assert_eq!(responses(&[(1, 4), (1, 5), (3, 9), (3, 18)]), known([1, 2, 7, 18]));
}

#[test]
fn fp_02a_lehoczky_worst_job_is_not_the_first() {
    assert_eq!(responses(&[(52, 100), (52, 140)]), known([52, 156]));
}

#[test]
fn fp_02b_lehoczky_longer_period_more_urgent() {
    assert_eq!(responses(&[(52, 140), (52, 100)]), known([52, 108]));
}

#[test]
fn fp_05_schedcat_reference_sets() {
    // .1
    assert_eq!(
        responses(&[(5995, 43000), (2497, 44000), (18376, 52000), (7724, 55000)]),
        known([5995, 8492, 26868, 34592])
    );
    // .2
    assert_eq!(
        responses(&[
            (2693, 84000),
            (1340, 92000),
            (462, 34000),
            (438, 39000),
            (1350, 32000),
            (1080, 12000),
            (6083, 91000),
            (550, 57000),
            (3486, 68000),
            (4916, 81000)
        ]),
        known([2693, 4033, 4495, 4933, 6283, 7363, 14526, 15076, 18562, 23478])
    );
    // .3
    assert_eq!(
        responses(&[(1274, 13000), (5840, 16000), (1433, 15000), (1579, 13000)]),
        known([1274, 7114, 8547, 10126])
    );
    // .5
    assert_eq!(
        responses(&[
            (1064, 12000),
            (409, 13000),
            (1671, 41000),
            (2341, 33000),
            (512, 31000),
            (133, 31000),
            (2387, 32000),
            (5518, 63000),
            (1391, 24000)
        ]),
        known([1064, 1473, 3144, 5485, 5997, 6130, 8517, 15508, 16899])
    );
    // .6
    assert_eq!(
        responses(&[
            (828, 17000),
            (936, 24000),
            (1141, 59000),
            (1036, 67000),
            (468, 14000),
            (444, 19000),
            (2477, 41000),
            (367, 20000),
            (4382, 69000),
            (2008, 23000)
        ]),
        known([828, 1764, 2905, 3941, 4409, 4853, 7330, 7697, 12079, 14555])
    );
    // .8
    assert_eq!(
        responses(&[(17116, 50000), (7200, 100000), (14384, 138000), (13596, 122000)]),
        known([17116, 24316, 38700, 69412])
    );
    // .9
    assert_eq!(
        responses(&[(36474, 66000), (4921, 95000), (984, 95000), (18668, 113000)]),
        known([36474, 41395, 42379, 61047])
    );
}

#[test]
fn fp_06a_sha_and_goodenough() {
    let system = plain(&[(20, 100), (40, 150), (100, 350)]);
    assert_eq!(response_ticks(&load(&system)), known([20, 60, 240]));
    assert!(utilisation::liu_layland(&load(&system)).admits, "0.7524 is within 0.7798");
}

#[test]
fn fp_07_burns_and_wellings() {
    // a: harmonic, utilisation exactly one
    assert_eq!(responses(&[(5, 20), (10, 40), (40, 80)]), known([5, 15, 80]));
    // b
    assert_eq!(responses(&[(3, 7), (3, 12), (5, 20)]), known([3, 6, 20]));
    // c: the third misses its deadline of 50
    let system = plain(&[(10, 30), (10, 40), (12, 50)]);
    assert_eq!(response_ticks(&load(&system)), known([10, 20, 52]));
    let refusal =
        admit(&contract(Policy::Rm, 1, &system, &[]), &HostProfile::ideal(1)).expect_err("52 > 50");
    assert_eq!(refusal.entry.as_deref(), Some("t2"));
    assert_eq!(refusal.shortfall, Some(late_by(2)));
}

#[test]
fn fp_08_stallings_the_cheap_test_fails_and_the_exact_one_admits() {
    let system = plain(&[(20, 100), (30, 145), (68, 150)]);
    assert_eq!(response_ticks(&load(&system)), known([20, 50, 138]));
    let grant = admit(&contract(Policy::Rm, 1, &system, &[]), &HostProfile::ideal(1))
        .expect("the exact test decides");
    let verdicts: Vec<_> = grant.tests.iter().map(|test| (test.name, test.admits)).collect();
    assert_eq!(verdicts, [("liu-layland", false), ("hyperbolic", false), ("response-time", true)]);
}

#[test]
fn fp_10_overload_has_no_bound() {
    let expected = [Some(1), Some(2), None, None];
    assert_eq!(responses(&[(1, 2), (1, 3), (3, 9), (3, 18)]), expected);
}

#[test]
fn fp_11_without_suspension_and_suspension_as_own_work() {
    assert_eq!(responses(&[(1, 2), (5, 20), (1, 20)]), known([1, 10, 12]));
    assert_eq!(responses(&[(1, 2), (10, 20)]), known([1, 20]));
}

#[test]
fn fp_11_self_suspension() {
    let load = load(&plain(&[(1, 2), (5, 20), (1, 20)]));
    let times = |suspension: [u64; 3]| {
        let suspension = suspension.map(|ticks| Duration::from_nanos(ticks * TICK));
        suspension::response_times(&load, &suspension, &mut Steps::default())
            .into_iter()
            .map(|bound| bound.map(|bound| bound.as_nanos() / TICK))
            .collect::<Vec<_>>()
    };
    assert_eq!(times([0, 0, 0]), known([1, 10, 12]));
    assert_eq!(times([0, 5, 0]), [Some(1), Some(20), None], "the third may be beyond 20");
}

fn without_preemption(tasks: &[(u64, u64)], granularity: Granularity) -> Vec<Option<u64>> {
    let load = load(&plain(tasks));
    in_ticks(&non_preemptive::response_times(&load, granularity, &mut Steps::default()))
}

#[test]
fn np_01_three_non_preemptive_tasks() {
    let system = [(20, 70), (20, 80), (35, 200)];
    assert_eq!(without_preemption(&system, DISCRETE), known([54, 74, 75]));
    assert_eq!(without_preemption(&system, Granularity::Continuous), known([55, 75, 75]));
}

#[test]
fn np_03_non_preemptive_overload() {
    let system = [(10, 20), (20, 50), (30, 200)];
    assert_eq!(without_preemption(&system, DISCRETE), [Some(39), Some(79), None]);
}

#[test]
fn lp_01_known_last_segments() {
    let load = load(&with_quanta(&[(4, 12, 2), (6, 20, 3), (8, 40, 4)]));
    let last = [2, 3, 3].map(|ticks| Service::from_nanos(ticks * TICK));
    let times = |granularity| {
        let steps = &mut Steps::default();
        in_ticks(&last_segment::response_times(&load, &last, granularity, steps))
    };
    assert_eq!(times(DISCRETE), known([7, 13, 22]));
    assert_eq!(times(Granularity::Continuous), known([8, 14, 22]));
}

fn with_quanta(tasks: &[(u64, u64, u64)]) -> Vec<Ticks> {
    tasks
        .iter()
        .map(|&(wcet, period, quantum)| Ticks { quantum, ..Ticks::plain(wcet, period) })
        .collect()
}

#[test]
fn rmdp_01_weak_test_refuses_what_exact_analysis_admits() {
    let system = with_quanta(&[(4, 12, 2), (6, 20, 3), (8, 40, 4)]);
    assert_eq!(utilisation::rmdp_left_side(&load(&system)).to_string(), "1.066667");
    let finding = utilisation::rmdp(&load(&system));
    assert!(!finding.admits);
    assert!(finding.why.contains("above 0.779763"), "{}", finding.why);
    let finding = utilisation::sha(&load(&system));
    assert!(!finding.admits);
    // 4/12 + 6/20 + 4/20
    let wanted = "first 2 of 3 tasks utilisation with blocking 0.833334 is above 0.828427";
    assert!(finding.why.contains(wanted), "{}", finding.why);
    assert_eq!(response_ticks(&load(&system)), known([8, 18, 32]));
    let grant = admit(&contract(Policy::Rmdp, 1, &system, &[]), &HostProfile::ideal(1));
    assert!(grant.is_ok());
}

/// Bini, Buttazzo & Buttazzo: at the bound, where the sum is 5/6 and Liu & Layland's is 0.828.
#[test]
fn fp_12_the_hyperbolic_test_admits_up_to_two() {
    let at_the_bound = load(&plain(&[(1, 2), (1, 3)]));
    assert!(!utilisation::liu_layland(&at_the_bound).admits);
    let finding = utilisation::hyperbolic(&at_the_bound);
    assert!(finding.admits && finding.why.contains("2.000000 is within 2"), "{}", finding.why);
    let above = utilisation::hyperbolic(&load(&plain(&[(1, 2), (1_000, 2_999)])));
    assert!(!above.admits && above.why.contains("2.000167 is above 2"), "{}", above.why);
}

#[test]
fn rmdp_02_narrow_range_of_periods() {
    let system = with_quanta(&[(100, 1000, 50), (150, 1100, 75), (200, 1200, 200)]);
    assert_eq!(utilisation::rmdp_left_side(&load(&system)).to_string(), "0.436364");
    assert!(utilisation::rmdp(&load(&system)).admits);
    assert!(utilisation::sha(&load(&system)).admits);
    assert_eq!(response_ticks(&load(&system)), known([300, 450, 450]));
}

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

/// Published: R = 79, 101, 121 against D = 50, 100, 120. No contract can say the first task, whose
/// wcet is above its deadline. Even with D = 79 for it, a window of 202 has 203 of work due.
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
    // The second and its deadline of 34.
    let refusal = admit(&contract(Policy::Fifo, 1, &system, &[]), &HostProfile::ideal(1))
        .expect_err("91 > 34");
    assert_eq!((refusal.test, refusal.entry.as_deref()), ("fifo-response-time", Some("t1")));
    assert_eq!(refusal.shortfall, Some(late_by(57)));
}

/// Global EDF needs three CPUs; so do partitions, since each pair has a utilisation of 4/3.
#[test]
fn mp_01_three_tasks_of_two_thirds() {
    let system = plain(&[(2, 3), (2, 3), (2, 3)]);
    for policy in [Policy::Edf, Policy::Rm, Policy::Fifo] {
        let on = |cpus| admit(&contract(policy, cpus, &system, &[]), &HostProfile::ideal(4));
        assert!(on(2).is_err());
        let grant = on(3).expect("one each");
        let mut cpus: Vec<u16> = grant.tasks.iter().map(|task| task.cpu).collect();
        cpus.sort_unstable();
        assert_eq!(cpus, [0, 1, 2]);
    }
    // Under global EDF the first miss on two CPUs is at 3.
    let load = in_single_ticks(&[(2, 3), (2, 3), (2, 3)]);
    let bounds = |cpus| workload::earliest_deadline(&load, cpus, &mut Steps::default());
    assert_eq!((bounds(1), bounds(2)), (None, None));
    assert_eq!(bounds(3), Some(vec![Duration::from_nanos(2); 3]));
    assert!(!density::density(&load, 2).admits, "2 > 2 - 2/3");
    // Nor on three, where the bound is 3 - 2·2/3; four have one of 4 - 3·2/3, exactly 2, and
    // rounding to the safe side loses that.
    assert!(!density::density(&load, 3).admits);
    assert!(density::density(&load, 5).admits, "2 < 5 - 4·2/3");
}

/// The analyses of global scheduling take a nanosecond for their tick.
fn in_single_ticks(tasks: &[(u64, u64)]) -> CpuLoad {
    let task = |&(wcet, period): &(u64, u64)| {
        let (period, wcet) = (Duration::from_nanos(period), Service::from_nanos(wcet));
        Task::new(TaskSpec::periodic("t", period, wcet)).expect("a valid task")
    };
    CpuLoad::new(&tasks.iter().map(task).collect::<Vec<_>>(), [], Service::ZERO)
}

#[test]
fn mp_02_global_fixed_priority() {
    let load = in_single_ticks(&[(1, 4), (1, 5), (3, 9), (9, 18)]);
    let steps = &mut Steps::default();
    let nanos = |bounds: Vec<Option<Duration>>| -> Vec<Option<u64>> {
        bounds.into_iter().map(|bound| bound.map(Duration::as_nanos)).collect()
    };
    // Guan et al.
    let guan = nanos(global::fixed_priority::response_times(&load, 2, steps));
    assert_eq!(guan, known([1, 1, 4, 15]));
    let guan = nanos(global::fixed_priority::response_times(&load, 3, steps));
    assert_eq!(guan, known([1, 1, 3, 12]));
    // Bertogna & Cirinei. The tool that published 14 for the last task sums up all that the others
    // may do; with what runs beside the job left out, as in the paper, it is 13.
    let plain = nanos(workload::fixed_priority(&load, 3, Slack::Ignored, steps));
    assert_eq!(plain, known([1, 1, 3, 13]));
    assert_eq!(with_all_work(&[(1, 4), (1, 5), (3, 9)], 9, 3), 14);
    let with_slack = nanos(workload::fixed_priority(&load, 2, Slack::Used, steps));
    assert_eq!(with_slack, known([1, 1, 4, 15]));
}

/// The least `x = C + ⌊Σ W_i(x) / m⌋`, for deadlines at the end of the period and no slack.
fn with_all_work(higher: &[(u64, u64)], wcet: u64, cpus: u64) -> u64 {
    let work = |&(wcet, period): &(u64, u64), window: u64| {
        let reach = window + period - wcet;
        reach / period * wcet + (reach % period).min(wcet)
    };
    let due = |x: &u64| wcet + higher.iter().map(|task| work(task, *x)).sum::<u64>() / cpus;
    (wcet..100).find(|x| due(x) <= *x).expect("a fixed point")
}
