//! The arrivals that the proofs call the worst.

use alloc::vec::Vec;

use punctual_model::{Duration, Instant, Task};

use super::{Arrival, Arrivals};

/// What is attacked, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attack {
    /// The task whose quantum begins just before everybody else is released. Its first job runs for
    /// one quantum (for its wcet if it has none), so that no yield point comes earlier.
    pub blocker: Option<u32>,
    /// How long the blocker is known before its quantum can begin: the cost of a switch.
    pub lead: Duration,
    /// `None`: all others are released at once.
    pub aligned: Option<Aligned>,
}

/// Under EDF the longest response need not come when all are released at once: it comes when the
/// job under attack is due together with a job of another task (Spuri, INRIA RR-2772, 1996).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aligned {
    /// The task under attack. It is released as late after the others as alignment asks.
    pub task: u32,
    /// One of its jobs is due when a job of this task is …
    pub with: u32,
    /// … namely this one, counted from 0.
    pub job: u64,
}

/// The critical instant with a blocker: everybody becomes known at one instant with the largest
/// jitter behind it, then comes as densely as allowed; the blocker becomes known 1 ns earlier (and
/// [`Attack::lead`]), with no jitter, so that its deadline is as late as possible. Every job but the
/// blocker's first runs for its wcet.
///
/// In continuous time the blocker could begin any moment before, and hold the processor for all but
/// nothing of its quantum; here it holds it for a nanosecond less.
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
    /// Everything released by then becomes known then.
    pile: Instant,
    first: bool,
}

impl<'a> Adversarial<'a> {
    /// `attack` on `tasks`.
    ///
    /// # Panics
    /// If the attack names a task that is not there.
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

    /// When everybody but the blocker, and but the task under attack where it is aligned, becomes
    /// known.
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
