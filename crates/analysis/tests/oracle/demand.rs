//! The processor demand test against demand counted job by job at every tick.

use crate::common::{Draw, Ticks, draw, hyperperiod, load};
use punctual_analysis::Steps;
use punctual_analysis::edf::demand::{DemandVerdict, processor_demand};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Returns whether in every window `[0, t]` the jobs with both release and deadline in it, and the
/// largest quantum of a task without a deadline in it yet, fit into t.
fn every_window_has_room(system: &[Ticks]) -> bool {
    let over = hyperperiod(system);
    if system.iter().map(|task| over / task.period * task.wcet).sum::<u64>() > over {
        return false;
    }
    let last = system.iter().map(|task| task.deadline).max().unwrap_or(0);
    (1..=last + 2 * over).all(|t| {
        let mut due = 0;
        let mut blocking = 0;
        for task in system {
            let mut deadline = task.deadline - task.jitter;
            if deadline > t {
                blocking = blocking.max(task.quantum);
            }
            while deadline <= t {
                due += task.wcet;
                deadline += task.period;
            }
        }
        due == 0 || due + blocking <= t
    })
}

fn agree(seed: u64, rounds: usize, how: Draw) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut fitting = 0;
    for round in 0..rounds {
        let system = draw(&mut rng, how);
        let verdict = processor_demand(&load(&system), &mut Steps::default());
        assert_ne!(verdict, DemandVerdict::Undecided);
        let fits = verdict == DemandVerdict::Fits;
        assert_eq!(fits, every_window_has_room(&system), "seed {seed} round {round}: {system:?}");
        fitting += usize::from(fits);
    }
    assert!((rounds / 20..rounds).contains(&fitting), "both kinds were drawn: {fitting}");
}

const PLAIN: Draw =
    Draw { tasks: 4, longest: 12, jitter: false, quanta: false, any_deadline: true };

#[test]
fn preemptive() {
    agree(1, 3_000, PLAIN);
}

#[test]
fn with_quanta() {
    agree(2, 3_000, Draw { quanta: true, ..PLAIN });
}

#[test]
fn with_release_jitter() {
    agree(3, 3_000, Draw { jitter: true, ..PLAIN });
}

#[test]
fn with_everything() {
    agree(4, 5_000, Draw { jitter: true, quanta: true, ..PLAIN });
}

#[test]
fn a_task_alone_is_not_blocked_by_itself() {
    let alone = Ticks { wcet: 2, period: 100, deadline: 10, jitter: 8, quantum: 2 };
    assert_eq!(processor_demand(&load(&[alone]), &mut Steps::default()), DemandVerdict::Fits);
}
