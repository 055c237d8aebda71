//! Broken promises: what was asked for, and how often it struck.

use punctual_model::{Duration, Instant, Service};
use punctual_sim::arrivals::{Arrival, Arrivals};
use punctual_sim::faults::{self, OneIn};
use punctual_sim::processor::{Processor, Stolen, Stretch, Theft, Whole};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::arrivals::{Draws, Purpose};
use super::options::Args;

/// Some jobs run for `percent` of what they would have.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Overrun {
    pub(super) percent: u32,
    pub(super) one_in: u32,
}

/// Some releases are followed by one more.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct ExtraReleases {
    pub(super) one_in: u32,
}

/// Some releases become known too late.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct LateTimers {
    pub(super) most_ns: u64,
    pub(super) one_in: u32,
}

/// Messages or frames come `times` as densely as they may.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Flood {
    pub(super) name: String,
    pub(super) times: u32,
}

/// How often each struck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Struck {
    pub(super) overruns: u64,
    pub(super) extra_releases: u64,
    pub(super) late_timers: u64,
    /// Processor time of all CPUs together.
    pub(super) stolen_ns: u64,
}

impl Struck {
    pub(super) fn add(&mut self, more: Self) {
        self.overruns += more.overruns;
        self.extra_releases += more.extra_releases;
        self.late_timers += more.late_timers;
        self.stolen_ns += more.stolen_ns;
    }
}

/// Lets `run` turn the arrivals `own` of so many `tasks`, broken as `args` asks. Faults strike what would be known before
/// `args.until`.
pub(super) fn broken(
    args: &Args,
    draws: Draws,
    tasks: usize,
    own: &mut dyn Arrivals,
    run: impl FnOnce(&mut dyn Arrivals),
) -> Struck {
    let often = |one_in: Option<u32>| OneIn(one_in.unwrap_or(0));
    let (extra, late) = (args.extra_releases, args.late_timers);
    let mut overrun = faults::Overrun::new(
        Before { arrivals: own, until: Instant::ZERO + args.until },
        often(args.overrun.map(|overrun| overrun.one_in)),
        args.overrun.map_or(100, |overrun| overrun.percent),
        draws.rng(Purpose::Overruns),
    );
    // Each borrows the one below, so that their counts can be read afterwards.
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
    Struck { overruns: overrun.struck(), extra_releases, late_timers, stolen_ns: 0 }
}

/// What is known before `until`, and then no more: so that nothing is counted that never runs.
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

/// A whole CPU, or one of which something is stolen.
pub(super) enum Cpu {
    Whole,
    Stolen(Box<Stolen<Whole, ChaCha8Rng>>),
}

impl Cpu {
    pub(super) fn of(args: &Args, draws: Draws) -> Self {
        match args.stolen {
            None => Self::Whole,
            Some(stolen) => {
                let rng = draws.rng(Purpose::Stolen);
                Self::Stolen(Box::new(Stolen::new(Whole, Theft::Drawn(stolen), rng)))
            }
        }
    }

    /// What was stolen.
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
            Cpu::Whole => Whole.at(now, wanted),
            Cpu::Stolen(stolen) => stolen.at(now, wanted),
        }
    }
}
