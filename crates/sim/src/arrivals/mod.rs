//! Defines arrival patterns: when each job is released and how long it runs.
//!
//! | pattern | arrivals |
//! |---|---|
//! | [`Periodic`] | from given phases on, as densely as allowed |
//! | [`Drawn`] | at random: gaps, jitter and execution times are drawn |
//! | [`Bursty`] | piled up by the jitter, then dense, then a pause |
//! | [`Adversarial`] | all at once, 1 ns after the longest quantum of a chosen task began |
//! | [`Listed`] | from a list, as in a witness |
//!
//! All but the last stay within the contract. Jobs run for their wcet, except in [`Drawn`], in a
//! list, and under [`DrawnTimes`] and [`HighTimes`], which wrap any other pattern.

#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use punctual_model::{Duration, Instant, Service, Task};
use rand::{Rng, RngExt};

/// A future job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The nominal release, from which the deadline counts.
    pub release: Instant,
    /// The instant at which the scheduler learns of it, up to the release jitter later.
    pub known: Instant,
    /// The execution time, more than zero. A job that runs for less than its wcet still ends with
    /// its task's last segment, cut to the job.
    pub exec_time: Service,
}

impl Arrival {
    /// The arrival that stands for the end of the arrivals.
    const NEVER: Self =
        Self { release: Instant::MAX, known: Instant::MAX, exec_time: Service::ZERO };
}

/// A source of each task's jobs, in the order of their releases.
pub trait Arrivals {
    /// Returns the next job of `task`. It is never known before the previous one.
    fn next(&mut self, task: u32) -> Arrival;
}

impl<A: Arrivals + ?Sized> Arrivals for &mut A {
    fn next(&mut self, task: u32) -> Arrival {
        (**self).next(task)
    }
}

impl<A: Arrivals + ?Sized> Arrivals for Box<A> {
    fn next(&mut self, task: u32) -> Arrival {
        (**self).next(task)
    }
}

/// A task's timeline of releases, never denser than the contract allows.
#[derive(Clone, Debug)]
struct Timeline {
    next: Instant,
    last_known: Instant,
}

/// Strictly periodic releases of every task from its phase on. Each job runs for its wcet. The
/// jitter of the first job is the largest, that of all others zero; with phases of zero this is the
/// critical instant.
#[derive(Clone, Debug)]
pub struct Periodic<'a> {
    tasks: &'a [Task],
    timelines: Vec<Timeline>,
    first: Vec<bool>,
}

impl<'a> Periodic<'a> {
    /// Makes arrivals of which task `i` first becomes known to the scheduler at `phases[i]`.
    ///
    /// Its release lies its jitter earlier, or at the origin of time if that is later.
    pub fn new(tasks: &'a [Task], phases: &[Duration]) -> Self {
        let timelines = tasks
            .iter()
            .zip(phases)
            .map(|(task, phase)| Timeline {
                next: Instant::ZERO + phase.saturating_sub(task.release_jitter()),
                last_known: Instant::ZERO,
            })
            .collect();
        Self { tasks, timelines, first: vec![true; tasks.len()] }
    }
}

impl Arrivals for Periodic<'_> {
    fn next(&mut self, task: u32) -> Arrival {
        let task = task as usize;
        let (contract, timeline) = (&self.tasks[task], &mut self.timelines[task]);
        let release = timeline.next;
        let jitter = if self.first[task] { contract.release_jitter() } else { Duration::ZERO };
        self.first[task] = false;
        let known = (release + jitter).max(timeline.last_known);
        timeline.next = release + contract.min_inter_arrival();
        timeline.last_known = known;
        Arrival { release, known, exec_time: contract.wcet() }
    }
}

/// Releases that are as clustered as the jitter allows.
///
/// A burst begins with a release that becomes known as late as allowed; all releases until then
/// become known with it. The rest of the burst is strictly periodic and known at once. Then comes a
/// pause of up to four periods. Phases, the lengths of bursts (up to eight jobs beyond the pile)
/// and pauses are drawn. Every job runs for its wcet.
#[derive(Clone, Debug)]
pub struct Bursty<'a, R> {
    tasks: &'a [Task],
    bursts: Vec<Burst>,
    rng: R,
}

#[derive(Clone, Debug)]
struct Burst {
    next: Instant,
    /// The instant at which everything released by then becomes known.
    pile: Instant,
    /// The remaining jobs of this burst.
    left: u64,
}

impl<'a, R: Rng> Bursty<'a, R> {
    /// Makes arrivals of `tasks`. Every draw comes from `rng`, so its seed replays the run.
    pub fn new(tasks: &'a [Task], mut rng: R) -> Self {
        let bursts = tasks
            .iter()
            .map(|task| {
                let phase = rng.random_range(0..=task.min_inter_arrival().as_nanos());
                Burst { next: Instant::from_nanos(phase), pile: Instant::ZERO, left: 0 }
            })
            .collect();
        Self { tasks, bursts, rng }
    }
}

impl<R: Rng> Arrivals for Bursty<'_, R> {
    fn next(&mut self, task: u32) -> Arrival {
        let (contract, burst) = (&self.tasks[task as usize], &mut self.bursts[task as usize]);
        let (period, jitter) = (contract.min_inter_arrival(), contract.release_jitter());
        if burst.left == 0 {
            burst.left = jitter / period + self.rng.random_range(1..=8);
            let pause = self.rng.random_range(0..=4 * period.as_nanos());
            burst.next += Duration::from_nanos(pause);
            burst.pile = burst.next + jitter;
        }
        let release = burst.next;
        burst.left -= 1;
        burst.next = release + period;
        Arrival { release, known: release.max(burst.pile), exec_time: contract.wcet() }
    }
}

/// Random arrivals within the contract: gaps of at least the minimum (often exactly that, because
/// density is what hurts), jitter up to the bound, execution times up to the wcet.
#[derive(Clone, Debug)]
pub struct Drawn<'a, R> {
    tasks: &'a [Task],
    timelines: Vec<Timeline>,
    rng: R,
}

impl<'a, R: Rng> Drawn<'a, R> {
    /// Makes arrivals of `tasks`. Every draw comes from `rng`, so its seed replays the run.
    pub fn new(tasks: &'a [Task], mut rng: R) -> Self {
        let timelines = tasks
            .iter()
            .map(|task| Timeline {
                next: Instant::from_nanos(
                    rng.random_range(0..=task.min_inter_arrival().as_nanos()),
                ),
                last_known: Instant::ZERO,
            })
            .collect();
        Self { tasks, timelines, rng }
    }
}

impl<R: Rng> Arrivals for Drawn<'_, R> {
    fn next(&mut self, task: u32) -> Arrival {
        let (contract, timeline) = (&self.tasks[task as usize], &mut self.timelines[task as usize]);
        let release = timeline.next;
        let jitter = self.rng.random_range(0..=contract.release_jitter().as_nanos());
        let known = (release + Duration::from_nanos(jitter)).max(timeline.last_known);
        let slack = match self.rng.random_range(0..4) {
            0 => self.rng.random_range(0..=contract.min_inter_arrival().as_nanos()),
            _ => 0,
        };
        timeline.next = release + contract.min_inter_arrival() + Duration::from_nanos(slack);
        timeline.last_known = known;
        Arrival { release, known, exec_time: draw_up_to_wcet(contract, &mut self.rng) }
    }
}

/// The arrivals listed for each task, and then no more.
#[derive(Clone, Debug)]
pub struct Listed<'a> {
    lists: &'a [Vec<Arrival>],
    given: Vec<usize>,
}

impl<'a> Listed<'a> {
    /// Takes the jobs of task `i` from `lists[i]`, in the order of their releases. A task without a
    /// list has no jobs.
    pub fn new(lists: &'a [Vec<Arrival>]) -> Self {
        Self { lists, given: vec![0; lists.len()] }
    }
}

impl Arrivals for Listed<'_> {
    fn next(&mut self, task: u32) -> Arrival {
        let Some(given) = self.given.get_mut(task as usize) else { return Arrival::NEVER };
        let arrival = self.lists[task as usize].get(*given);
        *given += 1;
        arrival.copied().unwrap_or(Arrival::NEVER)
    }
}

/// Another pattern, with a record of its arrivals. [`Listed`] can replay the run.
#[derive(Clone, Debug)]
pub struct Recorded<A> {
    arrivals: A,
    lists: Vec<Vec<Arrival>>,
}

impl<A: Arrivals> Recorded<A> {
    /// Wraps the `arrivals` of `tasks` tasks.
    pub fn new(tasks: usize, arrivals: A) -> Self {
        Self { arrivals, lists: vec![Vec::new(); tasks] }
    }

    /// Returns the recorded arrivals, task by task. A run requests one job more than it uses.
    pub fn into_lists(self) -> Vec<Vec<Arrival>> {
        self.lists
    }
}

impl<A: Arrivals> Arrivals for Recorded<A> {
    fn next(&mut self, task: u32) -> Arrival {
        let arrival = self.arrivals.next(task);
        self.lists[task as usize].push(arrival);
        arrival
    }
}

/// The arrivals of another pattern, with drawn execution times.
///
/// A job runs for its whole wcet in two of three draws. Otherwise it runs for any time from the
/// least that its contract allows: every job has a last segment, so it is never shorter than that.
#[derive(Clone, Debug)]
pub struct DrawnTimes<'a, A, R> {
    tasks: &'a [Task],
    arrivals: A,
    rng: R,
}

impl<'a, A: Arrivals, R: Rng> DrawnTimes<'a, A, R> {
    /// Wraps the `arrivals` of `tasks`, with execution times drawn from `rng`.
    pub fn new(tasks: &'a [Task], arrivals: A, rng: R) -> Self {
        Self { tasks, arrivals, rng }
    }
}

impl<A: Arrivals, R: Rng> Arrivals for DrawnTimes<'_, A, R> {
    fn next(&mut self, task: u32) -> Arrival {
        let arrival = self.arrivals.next(task);
        let exec_time = draw_up_to_wcet(&self.tasks[task as usize], &mut self.rng);
        Arrival { exec_time: exec_time.min(arrival.exec_time), ..arrival }
    }
}

/// The arrivals of another pattern, with some jobs of high criticality that need their `wcet_high`.
#[derive(Clone, Debug)]
pub struct HighTimes<'a, A, R> {
    tasks: &'a [Task],
    arrivals: A,
    one_in: u32,
    rng: R,
}

impl<'a, A: Arrivals, R: Rng> HighTimes<'a, A, R> {
    /// Wraps the `arrivals` of `tasks`. One in `one_in` jobs needs more, drawn from `rng`; none if
    /// it is zero.
    pub fn new(tasks: &'a [Task], arrivals: A, one_in: u32, rng: R) -> Self {
        Self { tasks, arrivals, one_in, rng }
    }
}

impl<A: Arrivals, R: Rng> Arrivals for HighTimes<'_, A, R> {
    fn next(&mut self, task: u32) -> Arrival {
        let arrival = self.arrivals.next(task);
        let high = self.tasks[task as usize].wcet_high().filter(|_| arrival.known < Instant::MAX);
        match high {
            Some(high) if self.one_in > 0 && self.rng.random_range(0..self.one_in) == 0 => {
                Arrival { exec_time: high, ..arrival }
            }
            _ => arrival,
        }
    }
}

fn draw_up_to_wcet(task: &Task, rng: &mut impl Rng) -> Service {
    let wcet = task.wcet().as_nanos();
    let least = task.last_segment().as_nanos().max(1);
    Service::from_nanos(match rng.random_range(0..3) {
        0 => rng.random_range(least..=wcet),
        _ => wcet,
    })
}

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
