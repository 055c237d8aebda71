//! Arrivals as the options ask for them.

use punctual_model::{Duration, Instant, Task};
use punctual_sim::arrivals::{
    Adversarial, Arrival, Arrivals, Attack, Bursty, Drawn, DrawnTimes, HighTimes, Periodic,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::options::{Args, ExecTimes, Pattern};

/// Where the draws of one CPU come from. Each purpose has its own, so that one fault more leaves
/// the others as they are.
#[derive(Clone, Copy)]
pub(super) struct Draws {
    pub(super) seed: u64,
    pub(super) cpu: u16,
}

#[derive(Clone, Copy)]
pub(super) enum Purpose {
    Arrivals,
    ExecTimes,
    Above,
    Overruns,
    ExtraReleases,
    LateTimers,
    Stolen,
    Messages,
    SendCosts,
    HighJobs,
}

impl Draws {
    pub(super) fn rng(self, purpose: Purpose) -> ChaCha8Rng {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(u64::from(self.cpu) << 8 | purpose as u64);
        rng
    }
}

/// The arrivals of the tasks of one CPU, and of what runs above them.
pub(super) struct Patterns<'a> {
    pub(super) own: Box<dyn Arrivals + 'a>,
    pub(super) above: Box<dyn Arrivals + 'a>,
}

impl<'a> Patterns<'a> {
    /// `tasks` as `args` says; `above` in the same pattern, at the same critical instant, and
    /// always for the whole budget. Under an adversary `blocker` has just begun.
    pub(super) fn new(
        args: &Args,
        draws: Draws,
        tasks: &'a [Task],
        above: &'a [Task],
        blocker: Option<u32>,
    ) -> Self {
        let (rng, rng_above) = (draws.rng(Purpose::Arrivals), draws.rng(Purpose::Above));
        // Released together when each is as late as it may be: the critical instant.
        let together = |tasks: &'a [Task], at: Duration| {
            Box::new(Periodic::new(tasks, &vec![at; tasks.len()])) as Box<dyn Arrivals + 'a>
        };
        let (own, above): (Box<dyn Arrivals + 'a>, _) = match args.pattern() {
            Pattern::Periodic => {
                let largest = tasks.iter().map(Task::release_jitter).max().unwrap_or_default();
                (together(tasks, largest), together(above, largest))
            }
            Pattern::Sporadic => {
                let above = Whole { tasks: above, arrivals: Drawn::new(above, rng_above) };
                (Box::new(Drawn::new(tasks, rng)), Box::new(above))
            }
            Pattern::Bursty => {
                (Box::new(Bursty::new(tasks, rng)), Box::new(Bursty::new(above, rng_above)))
            }
            Pattern::Adversarial => {
                let lead = args.overheads.unwrap_or_default().costs().length();
                let attack = Attack { blocker, lead, aligned: None };
                let own = Adversarial::new(tasks, attack);
                let critical = own.critical_instant() - Instant::ZERO;
                (Box::new(own), together(above, critical))
            }
        };
        let own: Box<dyn Arrivals + 'a> = match (args.pattern(), args.exec_times()) {
            (Pattern::Sporadic, ExecTimes::Drawn) => own,
            (Pattern::Sporadic, ExecTimes::Worst) => {
                Box::new(Whole { tasks, arrivals: Boxed(own) })
            }
            (_, ExecTimes::Drawn) => {
                let rng = draws.rng(Purpose::ExecTimes);
                Box::new(DrawnTimes::new(tasks, Boxed(own), rng))
            }
            (_, ExecTimes::Worst) => own,
        };
        let own: Box<dyn Arrivals + 'a> = match args.high_jobs {
            Some(one_in) => {
                let rng = draws.rng(Purpose::HighJobs);
                Box::new(HighTimes::new(tasks, Boxed(own), one_in, rng))
            }
            None => own,
        };
        Self { own, above }
    }
}

/// The task with the longest quantum; of equal ones the first.
pub(super) fn longest_quantum(tasks: &[Task]) -> Option<u32> {
    let quanta = tasks.iter().zip(0u32..).map(|(task, at)| (task.quantum(), u32::MAX - at));
    let (quantum, at) = quanta.max()?;
    (!quantum.is_zero()).then_some(u32::MAX - at)
}

struct Boxed<'a>(Box<dyn Arrivals + 'a>);

impl Arrivals for Boxed<'_> {
    fn next(&mut self, task: u32) -> Arrival {
        self.0.next(task)
    }
}

/// Other arrivals, each job running for its wcet.
struct Whole<'a, A> {
    tasks: &'a [Task],
    arrivals: A,
}

impl<A: Arrivals> Arrivals for Whole<'_, A> {
    fn next(&mut self, task: u32) -> Arrival {
        let exec_time = self.tasks[task as usize].wcet();
        Arrival { exec_time, ..self.arrivals.next(task) }
    }
}
