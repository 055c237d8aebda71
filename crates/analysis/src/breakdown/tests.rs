use alloc::collections::BTreeSet;
use alloc::string::ToString;
use alloc::vec::Vec;

use punctual_model::{Contract, Duration, HostProfile, Policy, Service, Task, TaskSpec};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

const STEPS: u64 = 1_000_000;

fn task(wcet: u64, period: u64) -> TaskSpec {
    TaskSpec::periodic("t", Duration::from_nanos(period), Service::from_nanos(wcet))
}

fn contract(policy: Policy, specs: impl IntoIterator<Item = TaskSpec>) -> Contract {
    let tasks = specs.into_iter().map(|spec| Task::new(spec).expect("valid"));
    Contract::of_tasks(policy, 1, tasks.collect())
}

fn factor(contract: &Contract, test: Test) -> Option<u64> {
    let found = breakdown(contract, &HostProfile::ideal(1), test, STEPS);
    found.ok().map(|found| found.factor.millionths())
}

/// Draws a few tasks with small numbers, some with quanta, last segments, jitter and other
/// deadlines.
fn drawn(rng: &mut ChaCha8Rng, policy: Policy) -> Contract {
    let count = rng.random_range(1..=3);
    let specs = (0..count).map(|_| {
        let period = rng.random_range(3..=24u64);
        let wcet = rng.random_range(1..=period / 2 + 1);
        let mut spec = task(wcet, period);
        if rng.random_bool(0.5) {
            spec.quantum = Service::from_nanos(rng.random_range(0..=wcet));
            let last = rng.random_range(0..=spec.quantum.as_nanos());
            spec.last_segment = Service::from_nanos(last);
        }
        if rng.random_bool(0.3) {
            let deadline = rng.random_range(wcet..=2 * period);
            spec.relative_deadline = Duration::from_nanos(deadline);
            spec.release_jitter = Duration::from_nanos(rng.random_range(0..deadline) / 4);
        }
        spec
    });
    contract(policy, specs.collect::<Vec<_>>())
}

/// Returns each factor above which some amount of work grows by a nanosecond, and the largest valid
/// one.
fn all_that_matter(contract: &Contract) -> BTreeSet<u64> {
    let largest = largest_valid(contract);
    let amounts = contract.tasks.iter().flat_map(|task| {
        let (wcet, last) = (task.wcet().as_nanos(), task.last_segment().as_nanos());
        [wcet, task.quantum().as_nanos(), wcet - last]
    });
    let mut factors = BTreeSet::from([largest]);
    for amount in amounts.filter(|&amount| amount > 0) {
        // `⌈amount·k / 10⁶⌉ ≤ n` holds exactly up to this `k`.
        let last = |n: u64| n * 1_000_000 / amount;
        factors.extend((1..).map(last).take_while(|&k| k < largest));
    }
    factors
}

#[test]
fn bisection_agrees_with_a_scan_over_all_factors() {
    let mut rng = ChaCha8Rng::seed_from_u64(14);
    let host = HostProfile::ideal(1);
    let (mut found, mut never) = (0, 0);
    for round in 0..400 {
        let (_, policy) = Policy::NAMES[round % Policy::NAMES.len()];
        let contract = drawn(&mut rng, policy);
        for &test in Test::of(policy) {
            let answers: Vec<(u64, bool)> = all_that_matter(&contract)
                .into_iter()
                .map(|k| {
                    let scaled = scaled(&contract, Factor(k)).expect("valid");
                    (k, admits(&scaled, &host, test, STEPS).is_ok())
                })
                .collect();
            let refused = answers.iter().position(|(_, admits)| !admits).unwrap_or(answers.len());
            assert!(
                answers[refused..].iter().all(|(_, admits)| !admits),
                "more work is admitted where less is not: {contract:?}"
            );
            let scan = refused.checked_sub(1).map(|at| answers[at].0);
            assert_eq!(factor(&contract, test), scan, "{test:?} {contract:?}");
            found += u32::from(scan.is_some());
            never += u32::from(scan.is_none());
        }
    }
    assert!(found > 300 && never > 50, "{found} {never}");
}

#[test]
fn every_scaled_task_is_valid_and_does_not_shrink() {
    let mut rng = ChaCha8Rng::seed_from_u64(15);
    for _ in 0..200 {
        let contract = drawn(&mut rng, Policy::Rmdp);
        let largest = largest_valid(&contract);
        assert_eq!(scaled(&contract, Factor(largest + 1)), None);
        assert_eq!(scaled(&contract, Factor::ONE), Some(contract.clone()));
        let mut before: Option<Contract> = None;
        for k in all_that_matter(&contract) {
            let scaled = scaled(&contract, Factor(k)).expect("valid");
            for (less, more) in before.iter().flat_map(|b| &b.tasks).zip(&scaled.tasks) {
                let before_last = |task: &Task| task.wcet() - task.last_segment();
                assert!(less.wcet() <= more.wcet() && less.quantum() <= more.quantum());
                assert!(before_last(less) <= before_last(more));
            }
            before = Some(scaled);
        }
    }
}

/// Liu & Layland's two tasks: the bound for two tasks is 0.828; harmonic periods and earliest
/// deadline first both reach one.
#[test]
fn two_tasks_break_down_at_the_theoretical_utilisation() {
    let ms = 1_000_000;
    // C = T₂ − T₁ and 2T₁ − T₂ with periods in the ratio √2: the worst pair of all.
    let worst = || [task(414_214, ms), task(585_786, 1_414_214)];
    let rm = contract(Policy::Rm, worst());
    for test in [Test::LiuLayland, Test::Hyperbolic, Test::Exact] {
        let factor = factor(&rm, test).expect("some");
        assert!((999_990..=1_000_001).contains(&factor), "{test:?} {factor}");
    }
    let edf = factor(&contract(Policy::Edf, worst()), Test::Exact).expect("some");
    assert!((1_207_000..1_207_110).contains(&edf), "1/0.828427: {edf}");

    let harmonic = contract(Policy::Rm, [task(ms, 4 * ms), task(2 * ms, 8 * ms)]);
    assert_eq!(factor(&harmonic, Test::Exact), Some(2_000_000));
    let found = breakdown(&harmonic, &HostProfile::ideal(1), Test::Exact, STEPS);
    assert_eq!(found.map(|found| found.utilisation), Ok(Ratio::ONE));
}

#[test]
fn the_critical_factor_agrees_with_admission() {
    let ms = 1_000_000;
    let declared = [
        TaskSpec { quantum: Service::from_millis(1), ..task(3 * ms, 10 * ms) },
        TaskSpec { quantum: Service::from_millis(2), ..task(5 * ms, 20 * ms) },
    ];
    let host = HostProfile::ideal(1);
    for (_, policy) in Policy::NAMES {
        let contract = contract(policy, declared.clone());
        let factor = breakdown(&contract, &host, Test::Exact, STEPS).expect("some").factor;
        let at =
            |factor| scaled(&contract, factor).is_some_and(|c| crate::admit(&c, &host).is_ok());
        assert!(at(factor) && !at(Factor(factor.0 + 1)), "{policy:?} {factor}");
        assert!(bounds_at(&contract, &host, factor, STEPS).admitted);
        assert!(!bounds_at(&contract, &host, Factor(factor.0 + 1), STEPS).admitted);
    }
}

#[test]
fn the_difference_is_the_cost_of_yield_points() {
    let contract = contract(
        Policy::Rmdp,
        [task(2, 10), TaskSpec { quantum: Service::from_nanos(6), ..task(6, 30) }],
    );
    let preemptible = preemptible_anywhere(&contract);
    assert_eq!(factor(&contract, Test::Exact), Some(1_166_666));
    assert_eq!(factor(&preemptible, Test::Exact), Some(2_500_000));
    assert_eq!(factor(&contract, Test::LiuLayland), None);
}

#[test]
fn a_test_that_does_not_apply_says_why() {
    let quanta =
        contract(Policy::Rm, [TaskSpec { quantum: Service::from_nanos(1), ..task(2, 10) }]);
    let host = HostProfile::ideal(1);
    let why = |contract: &Contract, test| {
        breakdown(contract, &host, test, STEPS).expect_err("refused").to_string()
    };
    assert!(why(&quanta, Test::LiuLayland).contains("have a quantum"));
    let two_cpus = Contract { cpus: 2, ..quanta };
    assert!(why(&two_cpus, Test::Sha).contains("for one CPU"));
    assert!(why(&two_cpus, Test::Exact).contains("does not fit"));
}

#[test]
fn factors_are_printed_exactly() {
    for (millionths, text) in
        [(1, "0.000001"), (1_000_000, "1"), (1_250_000, "1.25"), (12_000_010, "12.00001")]
    {
        assert_eq!(Factor(millionths).to_string(), text);
    }
    assert_eq!(Factor::from_millionths(0), None);
}
