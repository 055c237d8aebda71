//! Preemptive tasks under fixed priorities.

use punctual_analysis::fixed_priority::suspension;
use punctual_analysis::{Steps, admit, utilisation};
use punctual_model::{Duration, HostProfile, Policy};

use crate::common::{TICK, contract, load, plain, response_ticks};
use crate::{known, late_by};

fn responses(tasks: &[(u64, u64)]) -> Vec<Option<u64>> {
    response_ticks(&load(&plain(tasks)))
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
