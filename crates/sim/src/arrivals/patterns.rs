//! Patterns of arrivals: as early as possible, in bursts, drawn, and from a list.

use alloc::vec;
use alloc::vec::Vec;

use punctual_model::{Duration, Instant, Task};
use rand::{Rng, RngExt};

use super::exec_times::draw_up_to_wcet;
use super::{Arrival, Arrivals, Timeline};

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
