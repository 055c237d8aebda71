//! The events of a thread in order, with its phases laid end to end.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::threads::{Act, Event, Phase, Times};

pub(super) const WOKEN: &str = "other threads wake it, at a rate that is not stated";
pub(super) const BUSY: &str = "it runs without a pause: such load can be promised nothing";
pub(super) const STRAYS: &str = "in the end it runs and sleeps and never returns to its timer";
pub(super) const ONCE: &str = "it runs once and has no period";

/// The events in order, repeated often enough to show all neighbours: a repeated phase appears
/// twice, or once with its times multiplied if no job ends in it.
pub(super) struct Sequence<'a> {
    pub(super) steps: Vec<Step<'a>>,
    /// True if the first event follows the last.
    pub(super) cyclic: bool,
    /// True if more than one timer is in use.
    pub(super) several_timers: bool,
    /// True if the last events repeat earlier ones, so that the end of the steps adds nothing.
    pub(super) last_repeats: bool,
    /// The reason that the thread has no rate: it stays in a phase without timer or sleep.
    pub(super) dead_end: Option<&'static str>,
}

pub(super) struct Step<'a> {
    pub(super) offset: usize,
    pub(super) phase: &'a str,
    pub(super) act: StepAct,
}

#[derive(Clone, Copy)]
pub(super) enum StepAct {
    Run(u64),
    Sleep(u64),
    Timer(u64),
}

impl StepAct {
    /// Returns the same act done `times` times in a row, as one.
    fn times(self, times: u64) -> Self {
        match self {
            Self::Run(run) => Self::Run(run.saturating_mul(times)),
            Self::Sleep(sleep) => Self::Sleep(sleep.saturating_mul(times)),
            Self::Timer(period) => Self::Timer(period),
        }
    }
}

impl<'a> Sequence<'a> {
    pub(super) fn of(phases: &'a [Phase], starts_again: bool) -> Self {
        let mut sequence = Self {
            steps: Vec::new(),
            cyclic: starts_again,
            several_timers: false,
            last_repeats: starts_again,
            dead_end: None,
        };
        let timed = phases.iter().any(|phase| chosen_timer(phase).is_some());
        let mut last_timer = None;
        for phase in phases {
            let timer = chosen_timer(phase);
            let mut steps: Vec<Step<'a>> =
                phase.events.iter().filter_map(|event| step(phase, event, timer)).collect();
            if timer.is_some() {
                let others = phase.events.iter().any(|event| is_timer_beside(event, timer));
                sequence.several_timers |= others || last_timer.is_some() && last_timer != timer;
                last_timer = timer;
            }
            // True if jobs end in this phase. If the thread uses timers, sleep ends no job.
            let ends_jobs = if timed {
                timer.is_some()
            } else {
                steps.iter().any(|step| matches!(step.act, StepAct::Sleep(_)))
            };
            let (times, endless) = match phase.times {
                Times::Finite(times) => (times, false),
                Times::Endless => (u64::MAX, true),
            };
            if !ends_jobs {
                for step in &mut steps {
                    step.act = step.act.times(times);
                }
            }
            let rounds = if ends_jobs { times.min(2) } else { times.min(1) };
            for _ in 0..rounds {
                sequence.steps.extend(steps.iter().map(|step| Step { ..*step }));
            }
            if endless {
                // Events after an endless phase never happen.
                sequence.cyclic = false;
                sequence.last_repeats = true;
                if !ends_jobs {
                    let waits = phase.events.iter().any(|event| matches!(event.act, Act::Wait));
                    let sleeps = steps.iter().any(|step| matches!(step.act, StepAct::Sleep(_)));
                    sequence.dead_end = Some(match (waits, sleeps) {
                        (true, _) => WOKEN,
                        (_, true) => STRAYS,
                        _ => BUSY,
                    });
                }
                break;
            }
        }
        sequence
    }

    /// Returns all steps, twice if the first follows the last, each with a flag that is true in the
    /// round that counts.
    pub(super) fn walk(&self) -> impl Iterator<Item = (&Step<'a>, bool)> {
        let rounds = if self.cyclic { 2 } else { 1 };
        (0..rounds).flat_map(move |round| {
            self.steps.iter().map(move |step| (step, round > 0 || !self.cyclic))
        })
    }
}

/// Returns the timer of a phase; of several, the one with the longest sum. All of them advance
/// together, so only that one determines the phase's rate. `None` if the phase never happens.
fn chosen_timer(phase: &Phase) -> Option<&str> {
    if phase.times == Times::Finite(0) {
        return None;
    }
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for event in &phase.events {
        if let Act::Timer { name, period: period @ 1.. } = &event.act {
            let sum = sums.entry(name).or_default();
            *sum = sum.saturating_add(*period);
        }
    }
    sums.into_iter().max_by_key(|(_, sum)| *sum).map(|(name, _)| name)
}

fn is_timer_beside(event: &Event, timer: Option<&str>) -> bool {
    matches!(&event.act, Act::Timer { name, period: 1.. } if Some(name.as_str()) != timer)
}

fn step<'a>(phase: &'a Phase, event: &Event, timer: Option<&str>) -> Option<Step<'a>> {
    let act = match &event.act {
        Act::Run(run @ 1..) => StepAct::Run(*run),
        Act::Sleep(sleep @ 1..) => StepAct::Sleep(*sleep),
        Act::Timer { name, period: period @ 1.. } if Some(name.as_str()) == timer => {
            StepAct::Timer(*period)
        }
        _ => return None,
    };
    Some(Step { offset: event.offset, phase: &phase.name, act })
}
