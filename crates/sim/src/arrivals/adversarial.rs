//! Generates the arrivals that the proofs show to be the worst.

use alloc::vec::Vec;

use punctual_model::{Duration, Instant, Task};

use super::{Arrival, Arrivals};

/// The target of an attack, and its form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attack {
    /// The task whose quantum begins just before all others are released. Its first job runs for
    /// one quantum (or for its wcet if it has none), so that no yield point comes earlier.
    pub blocker: Option<u32>,
    /// The time for which the blocker is known before its quantum can begin: the cost of a switch.
    pub lead: Duration,
    /// The alignment of deadlines, or `None` if all others are released at once.
    pub aligned: Option<Aligned>,
}

/// An alignment of deadlines. Under EDF the longest response need not come when all are released at
/// once. It comes when the job under attack is due together with a job of another task (Spuri,
/// INRIA RR-2772, 1996).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aligned {
    /// The task under attack. Its release is delayed after the others as far as the alignment
    /// requires.
    pub task: u32,
    /// The task with which it is aligned: one of its jobs is due together with a job of `task`.
    pub with: u32,
    /// The index of that job of `with`, from 0.
    pub job: u64,
}

/// The critical instant with a blocker. All tasks but the blocker become known at one instant with
/// the largest jitter behind it, then come as densely as allowed. The blocker becomes known 1 ns
/// (and [`Attack::lead`]) earlier, with no jitter, so that its deadline is as late as possible.
/// Every job but the blocker's first runs for its wcet.
///
/// In continuous time the blocker could begin arbitrarily shortly before, and hold the processor
/// for almost all of its quantum; here it holds it for a nanosecond less.
#[derive(Clone, Debug)]
pub struct Adversarial<'a> {
    tasks: &'a [Task],
    next: Vec<Next>,
    blocker: Option<u32>,
    instant: Instant,
}

#[derive(Clone, Debug)]
struct Next {
    release: Instant,
    /// The instant at which everything released by then becomes known.
    pile: Instant,
    first: bool,
}

impl<'a> Adversarial<'a> {
    /// Makes the arrivals of `attack` on `tasks`.
    ///
    /// # Panics
    /// If the attack names a task that does not exist.
    pub fn new(tasks: &'a [Task], attack: Attack) -> Self {
        let jitter = tasks.iter().map(Task::release_jitter).max().unwrap_or_default();
        let earlier = Duration::from_nanos(1) + attack.lead;
        let instant = Instant::ZERO + jitter + earlier;
        let phase = |task: u32, contract: &Task| match attack.aligned {
            Some(aligned) if aligned.task == task => {
                let other = &tasks[aligned.with as usize];
                let own = contract.relative_deadline() - contract.release_jitter();
                let due = other.relative_deadline() - other.release_jitter()
                    + other.min_inter_arrival() * aligned.job;
                due.saturating_sub(own) % contract.min_inter_arrival()
            }
            _ => Duration::ZERO,
        };
        let next = tasks
            .iter()
            .zip(0u32..)
            .map(|(contract, task)| {
                let (release, pile) = if attack.blocker == Some(task) {
                    (instant - earlier, instant - earlier)
                } else {
                    let known = instant + phase(task, contract);
                    (known - contract.release_jitter(), known)
                };
                Next { release, pile, first: true }
            })
            .collect();
        Self { tasks, next, blocker: attack.blocker, instant }
    }

    /// Returns the instant at which all tasks become known but the blocker and, if aligned, the
    /// task under attack.
    pub fn critical_instant(&self) -> Instant {
        self.instant
    }
}

impl Arrivals for Adversarial<'_> {
    fn next(&mut self, task: u32) -> Arrival {
        let (contract, next) = (&self.tasks[task as usize], &mut self.next[task as usize]);
        let release = next.release;
        next.release += contract.min_inter_arrival();
        let first = core::mem::replace(&mut next.first, false);
        let one_quantum = first && self.blocker == Some(task) && !contract.quantum().is_zero();
        let exec_time = if one_quantum { contract.quantum() } else { contract.wcet() };
        Arrival { release, known: release.max(next.pile), exec_time }
    }
}
