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
    Received,
    Frames,
}

impl Draws {
    pub(super) fn rng(self, purpose: Purpose) -> ChaCha8Rng {
        self.rng_of(purpose, 0)
    }

    /// Another one of several for the same purpose.
    pub(super) fn rng_of(self, purpose: Purpose, which: u32) -> ChaCha8Rng {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(u64::from(which) << 32 | u64::from(self.cpu) << 8 | purpose as u64);
        rng
    }
}

/// The arrivals of the tasks of one CPU as `args` says. Under an adversary `blocker` has just begun.
pub(super) fn own<'a>(
    args: &Args,
    draws: Draws,
    tasks: &'a [Task],
    blocker: Option<u32>,
) -> Box<dyn Arrivals + 'a> {
    let rng = draws.rng(Purpose::Arrivals);
    let own: Box<dyn Arrivals + 'a> = match args.pattern() {
        Pattern::Periodic => together(tasks, critical(args, tasks, blocker)),
        Pattern::Sporadic => Box::new(Drawn::new(tasks, rng)),
        Pattern::Bursty => Box::new(Bursty::new(tasks, rng)),
        Pattern::Adversarial => Box::new(adversarial(args, tasks, blocker)),
    };
    let own: Box<dyn Arrivals + 'a> = match (args.pattern(), args.exec_times()) {
        (Pattern::Sporadic, ExecTimes::Drawn) => own,
        (Pattern::Sporadic, ExecTimes::Worst) => Box::new(Whole { tasks, arrivals: own }),
        (_, ExecTimes::Drawn) => {
            let rng = draws.rng(Purpose::ExecTimes);
            Box::new(DrawnTimes::new(tasks, own, rng))
        }
        (_, ExecTimes::Worst) => own,
    };
    match args.high_jobs {
        Some(one_in) => {
            let rng = draws.rng(Purpose::HighJobs);
            Box::new(HighTimes::new(tasks, own, one_in, rng))
        }
        None => own,
    }
}

/// The arrivals of what is `above` those tasks: in the same pattern, at the same `critical` instant, and always for
/// the whole budget.
pub(super) fn above<'a>(
    args: &Args,
    rng: ChaCha8Rng,
    above: &'a [Task],
    critical: Duration,
) -> Box<dyn Arrivals + 'a> {
    match args.pattern() {
        Pattern::Periodic | Pattern::Adversarial => together(above, critical),
        Pattern::Sporadic => Box::new(Whole { tasks: above, arrivals: Drawn::new(above, rng) }),
        Pattern::Bursty => Box::new(Bursty::new(above, rng)),
    }
}

/// When all is released at once, if it is.
pub(super) fn critical(args: &Args, tasks: &[Task], blocker: Option<u32>) -> Duration {
    match args.pattern() {
        Pattern::Adversarial => {
            adversarial(args, tasks, blocker).critical_instant() - Instant::ZERO
        }
        // When each is as late as it may be.
        _ => tasks.iter().map(Task::release_jitter).max().unwrap_or_default(),
    }
}

fn together(tasks: &[Task], at: Duration) -> Box<dyn Arrivals + '_> {
    Box::new(Periodic::new(tasks, &vec![at; tasks.len()]))
}

fn adversarial<'a>(args: &Args, tasks: &'a [Task], blocker: Option<u32>) -> Adversarial<'a> {
    let lead = args.overheads.unwrap_or_default().costs().length();
    Adversarial::new(tasks, Attack { blocker, lead, aligned: None })
}

/// The task with the longest quantum; of equal ones the first.
pub(super) fn longest_quantum(tasks: &[Task]) -> Option<u32> {
    let quanta = tasks.iter().zip(0u32..).map(|(task, at)| (task.quantum(), u32::MAX - at));
    let (quantum, at) = quanta.max()?;
    (!quantum.is_zero()).then_some(u32::MAX - at)
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
