//! Exact response times against a tick-by-tick simulation of the worst case.

use crate::common::{Draw, Ticks, draw, hyperperiod, load, response_ticks};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Simulates the worst case of `system[at]` and returns its response time: at 0 the largest less
/// urgent quantum has just begun, the first release of every task became known as late as possible,
/// and the others become known as soon as possible. Returns `None` if it never ends.
fn simulate_worst_case(system: &[Ticks], at: usize) -> Option<u64> {
    let shared = &system[..=at];
    let over: u64 = hyperperiod(shared);
    let demanded: u64 = shared.iter().map(|task| over / task.period * task.wcet).sum();
    if demanded > over {
        return None;
    }
    let mut blocking = system[at + 1..].iter().map(|task| task.quantum).max().unwrap_or(0);
    let mut pending = vec![0u64; at + 1];
    let mut released = vec![0u64; at + 1];
    let (mut completed, mut worst) = (0, 0);
    // At a utilisation of one the window may never close; three rounds are enough to see all.
    for now in 0..3 * over + 200 {
        if now > 0 && blocking == 0 && pending.iter().all(|&work| work == 0) {
            return Some(worst);
        }
        for (task, (pending, released)) in
            shared.iter().zip(pending.iter_mut().zip(released.iter_mut()))
        {
            while (*released * task.period).saturating_sub(task.jitter) <= now {
                *released += 1;
                *pending += task.wcet;
            }
        }
        if blocking > 0 {
            blocking -= 1;
        } else if let Some(runs) = pending.iter().position(|&work| work > 0) {
            pending[runs] -= 1;
            let task = system[at];
            if runs == at && pending[at].is_multiple_of(task.wcet) {
                // Nominal releases: −J, T − J, 2T − J, …
                worst = worst.max(now + 1 + task.jitter - completed * task.period);
                completed += 1;
            }
        }
    }
    Some(worst)
}

fn agree(seed: u64, rounds: usize, how: Draw) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut unbounded = 0;
    for round in 0..rounds {
        let system = draw(&mut rng, how);
        let exact = response_ticks(&load(&system));
        for (at, &exact) in exact.iter().enumerate() {
            let simulated = simulate_worst_case(&system, at);
            assert_eq!(exact, simulated, "seed {seed} round {round} task {at} of {system:?}");
            unbounded += usize::from(exact.is_none());
        }
    }
    assert!((1..rounds).contains(&unbounded), "both kinds were drawn: {unbounded} of {rounds}");
}

const PLAIN: Draw =
    Draw { tasks: 4, longest: 14, jitter: false, quanta: false, any_deadline: false };

#[test]
fn preemptive() {
    agree(1, 3_000, PLAIN);
}

#[test]
fn with_quanta() {
    agree(2, 3_000, Draw { quanta: true, ..PLAIN });
}

#[test]
fn with_release_jitter_and_any_deadline() {
    agree(3, 3_000, Draw { jitter: true, any_deadline: true, ..PLAIN });
}

#[test]
fn with_everything() {
    agree(4, 5_000, Draw { jitter: true, quanta: true, any_deadline: true, ..PLAIN });
}
