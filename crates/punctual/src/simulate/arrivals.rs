//! The arrivals that the options ask for, and the faults in them.

use punctual_model::channel::LinearBounded;
use punctual_model::{Duration, Instant, Service, Task};
use punctual_sim::arrivals::{
    Adversarial, Arrival, Arrivals, Attack, Bursty, Drawn, DrawnTimes, HighTimes, Periodic,
};
use punctual_sim::egress::traffic::{self, Message};
use punctual_sim::faults::{self, OneIn};
use punctual_sim::processor::{Processor, Stolen, Stretch, Theft, Whole as WholeCpu};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::Serialize;

use super::options::{ExecTimes, Options, Pattern};

/// The seed of the draws of one CPU. Each purpose has its own generator, so that one more fault
/// leaves the other draws as they are.
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

    /// Returns one of several generators for the same purpose.
    pub(super) fn rng_of(self, purpose: Purpose, which: u32) -> ChaCha8Rng {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(u64::from(which) << 32 | u64::from(self.cpu) << 8 | purpose as u64);
        rng
    }
}

/// Returns the arrivals of the tasks of one CPU under `options`. Under the adversarial pattern,
/// `blocker` has just begun a quantum.
pub(super) fn own<'a>(
    options: &Options,
    draws: Draws,
    tasks: &'a [Task],
    blocker: Option<u32>,
) -> Box<dyn Arrivals + 'a> {
    let rng = draws.rng(Purpose::Arrivals);
    let own: Box<dyn Arrivals + 'a> = match options.pattern() {
        Pattern::Periodic => together(tasks, critical(options, tasks, blocker)),
        Pattern::Sporadic => Box::new(Drawn::new(tasks, rng)),
        Pattern::Bursty => Box::new(Bursty::new(tasks, rng)),
        Pattern::Adversarial => Box::new(adversarial(options, tasks, blocker)),
    };
    let own: Box<dyn Arrivals + 'a> = match (options.pattern(), options.exec_times()) {
        (Pattern::Sporadic, ExecTimes::Drawn) => own,
        (Pattern::Sporadic, ExecTimes::Worst) => Box::new(Whole { tasks, arrivals: own }),
        (_, ExecTimes::Drawn) => {
            let rng = draws.rng(Purpose::ExecTimes);
            Box::new(DrawnTimes::new(tasks, own, rng))
        }
        (_, ExecTimes::Worst) => own,
    };
    match options.high_jobs {
        Some(one_in) => {
            let rng = draws.rng(Purpose::HighJobs);
            Box::new(HighTimes::new(tasks, own, one_in, rng))
        }
        None => own,
    }
}

/// Returns the arrivals of the entries `above` those tasks: in the same pattern, at the same
/// `critical` instant, and always for the whole budget.
pub(super) fn above<'a>(
    options: &Options,
    rng: ChaCha8Rng,
    above: &'a [Task],
    critical: Duration,
) -> Box<dyn Arrivals + 'a> {
    match options.pattern() {
        Pattern::Periodic | Pattern::Adversarial => together(above, critical),
        Pattern::Sporadic => Box::new(Whole { tasks: above, arrivals: Drawn::new(above, rng) }),
        Pattern::Bursty => Box::new(Bursty::new(above, rng)),
    }
}

/// Returns the time at which all tasks are released together, if they are.
pub(super) fn critical(options: &Options, tasks: &[Task], blocker: Option<u32>) -> Duration {
    match options.pattern() {
        Pattern::Adversarial => {
            adversarial(options, tasks, blocker).critical_instant() - Instant::ZERO
        }
        // At that time each release is as late as its jitter allows.
        _ => tasks.iter().map(Task::release_jitter).max().unwrap_or_default(),
    }
}

fn together(tasks: &[Task], at: Duration) -> Box<dyn Arrivals + '_> {
    Box::new(Periodic::new(tasks, &vec![at; tasks.len()]))
}

fn adversarial<'a>(options: &Options, tasks: &'a [Task], blocker: Option<u32>) -> Adversarial<'a> {
    let lead = options.overheads.unwrap_or_default().costs().length();
    Adversarial::new(tasks, Attack { blocker, lead, aligned: None })
}

/// Returns the task with the longest quantum, the first one if several are equal.
pub(super) fn longest_quantum(tasks: &[Task]) -> Option<u32> {
    let quanta = tasks.iter().zip(0u32..).map(|(task, at)| (task.quantum(), u32::MAX - at));
    let (quantum, at) = quanta.max()?;
    (!quantum.is_zero()).then_some(u32::MAX - at)
}

/// Other arrivals, but with each job running for its wcet.
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

/// The number of times that each fault occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FaultCounts {
    /// Jobs that ran too long.
    pub overruns: u64,
    /// Releases that came too soon.
    pub extra_releases: u64,
    /// Releases that became known too late.
    pub late_timers: u64,
    /// Stolen processor time of all CPUs together.
    pub stolen_ns: u64,
}

impl FaultCounts {
    pub(super) fn add(&mut self, more: Self) {
        self.overruns += more.overruns;
        self.extra_releases += more.extra_releases;
        self.late_timers += more.late_timers;
        self.stolen_ns += more.stolen_ns;
    }
}

/// Calls `run` with the arrivals `own` of this many `tasks`, with the faults of `options`. Faults
/// apply to releases that become known before `options.until`.
pub(super) fn broken(
    options: &Options,
    draws: Draws,
    tasks: usize,
    own: &mut dyn Arrivals,
    run: impl FnOnce(&mut dyn Arrivals),
) -> FaultCounts {
    let often = |one_in: Option<u32>| OneIn(one_in.unwrap_or(0));
    let (extra, late) = (options.extra_releases, options.late_timers);
    let mut overrun = faults::Overrun::new(
        Before { arrivals: own, until: Instant::ZERO + options.until },
        often(options.overrun.map(|overrun| overrun.one_in)),
        options.overrun.map_or(100, |overrun| overrun.percent),
        draws.rng(Purpose::Overruns),
    );
    // Each wrapper borrows the one below, so that its counts can be read afterwards.
    let mut extra = faults::ExtraReleases::new(
        tasks,
        &mut overrun,
        often(extra.map(|extra| extra.one_in)),
        draws.rng(Purpose::ExtraReleases),
    );
    let mut late = faults::LateTimers::new(
        tasks,
        &mut extra,
        often(late.map(|late| late.one_in)),
        Duration::from_nanos(late.map_or(0, |late| late.most_ns)),
        draws.rng(Purpose::LateTimers),
    );
    run(&mut late);
    let late_timers = late.struck();
    let extra_releases = extra.struck();
    FaultCounts { overruns: overrun.struck(), extra_releases, late_timers, stolen_ns: 0 }
}

/// The arrivals that become known before `until`. Later ones are cut off, so that no fault counts
/// in a job that never runs.
struct Before<'a> {
    arrivals: &'a mut dyn Arrivals,
    until: Instant,
}

impl Arrivals for Before<'_> {
    fn next(&mut self, task: u32) -> Arrival {
        let arrival = self.arrivals.next(task);
        if arrival.known < self.until {
            return arrival;
        }
        Arrival { release: Instant::MAX, known: Instant::MAX, exec_time: Service::ZERO }
    }
}

/// A whole CPU, or one from which a hypervisor steals time.
pub(super) enum Cpu {
    Whole,
    Stolen(Box<Stolen<WholeCpu, ChaCha8Rng>>),
}

impl Cpu {
    pub(super) fn of(options: &Options, draws: Draws) -> Self {
        match options.stolen {
            None => Self::Whole,
            Some(stolen) => {
                let rng = draws.rng(Purpose::Stolen);
                Self::Stolen(Box::new(Stolen::new(WholeCpu, Theft::Drawn(stolen), rng)))
            }
        }
    }

    /// Returns the stolen time.
    pub(super) fn taken(&self) -> Duration {
        match self {
            Self::Whole => Duration::ZERO,
            Self::Stolen(stolen) => stolen.taken(),
        }
    }
}

impl Processor for Cpu {
    const WHOLE: bool = false;

    fn at(&mut self, now: Instant, wanted: bool) -> Stretch {
        match self {
            Cpu::Whole => WholeCpu.at(now, wanted),
            Cpu::Stolen(stolen) => stolen.at(now, wanted),
        }
    }
}

/// Returns the messages of `traffic` in this pattern.
pub(super) fn source(
    pattern: Pattern,
    traffic: LinearBounded,
    first: Instant,
    rng: &mut ChaCha8Rng,
) -> Box<dyn Iterator<Item = Message>> {
    match pattern {
        Pattern::Periodic => {
            let spacing = traffic.min_inter_arrival();
            Box::new(traffic::periodic(first, spacing, traffic.max_message()))
        }
        Pattern::Bursty | Pattern::Adversarial => Box::new(traffic::greedy(traffic, first)),
        Pattern::Sporadic => {
            let mut own = rng.clone();
            own.set_stream(rng.next_u64());
            Box::new(traffic::drawn(traffic, first, own))
        }
    }
}
