//! The cheap tests: each admits only sets that exact analysis admits, and the better ones admit
//! more.

use crate::common::{Draw, Ticks, draw, load, response_ticks};
use punctual_analysis::utilisation::{hyperbolic, liu_layland, rmdp, sha};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn in_time(system: &[Ticks]) -> bool {
    let times = response_ticks(&load(system));
    times.iter().zip(system).all(|(time, task)| time.is_some_and(|time| time <= task.deadline))
}

/// Computes each test literally, with floats: the left sides and the bounds.
fn slow_sha(system: &[Ticks]) -> bool {
    (1..=system.len()).all(|i| {
        let used: f64 = system[..i].iter().map(|t| t.wcet as f64 / t.period as f64).sum();
        let blocking = system[i..].iter().map(|t| t.quantum).max().unwrap_or(0);
        let left = used + blocking as f64 / system[i - 1].period as f64;
        left <= i as f64 * (2f64.powf(1.0 / i as f64) - 1.0) + 1e-12
    })
}

fn slow_hyperbolic(system: &[Ticks]) -> bool {
    let product: f64 = system.iter().map(|t| t.wcet as f64 / t.period as f64 + 1.0).product();
    product <= 2.0 + 1e-12
}

#[test]
fn with_quanta_rmdp_within_sha_within_exact() {
    let mut rng = ChaCha8Rng::seed_from_u64(31);
    let mut counts = [0; 3];
    for _ in 0..6_000 {
        let how = Draw {
            tasks: 5,
            longest: 50,
            jitter: false,
            quanta: rng.random(),
            any_deadline: false,
        };
        let mut system = draw(&mut rng, how);
        system.sort_by_key(|task| task.period);
        let admitted = [rmdp(&load(&system)).admits, sha(&load(&system)).admits, in_time(&system)];
        assert!(admitted.is_sorted(), "{admitted:?} {system:?}");
        assert_eq!(admitted[1], slow_sha(&system), "{system:?}");
        for (count, admitted) in counts.iter_mut().zip(admitted) {
            *count += usize::from(admitted);
        }
    }
    assert!(counts.is_sorted_by(|a, b| a < b), "{counts:?}");
}

#[test]
fn without_quanta_liu_layland_within_hyperbolic_within_exact() {
    let mut rng = ChaCha8Rng::seed_from_u64(32);
    let mut counts = [0; 3];
    for _ in 0..6_000 {
        let how = Draw { tasks: 5, longest: 50, jitter: false, quanta: false, any_deadline: false };
        let mut system = draw(&mut rng, how);
        system.sort_by_key(|task| task.period);
        let load = load(&system);
        let admitted = [liu_layland(&load).admits, hyperbolic(&load).admits, in_time(&system)];
        assert!(admitted.is_sorted(), "{admitted:?} {system:?}");
        assert_eq!(admitted[1], slow_hyperbolic(&system), "{system:?}");
        for (count, admitted) in counts.iter_mut().zip(admitted) {
            *count += usize::from(admitted);
        }
    }
    assert!(counts.is_sorted_by(|a, b| a < b), "{counts:?}");
}

#[test]
fn sha_wants_the_shorter_period_first() {
    let finding = sha(&load(&crate::common::plain(&[(1, 20), (1, 10)])));
    assert!(!finding.admits && finding.why.contains("shorter period"), "{}", finding.why);
}
