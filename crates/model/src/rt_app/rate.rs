//! Derives a thread's release rate and its execution time per release from its events.
//!
//! # With a timer
//! A job is the part of a thread's run between two wake-ups by its timer. The timer that ends the
//! part releases the next job, no sooner than its period after this one. So all parts that end with
//! the same period are one task with that period and the longest of their runs. Sleep between runs
//! of one job counts as running, which is safe under fixed priorities and EDF on one CPU
//! (suspension-oblivious analysis: Chen et al., Many suspensions, many problems, 2019). Sleep after
//! the last run does not count.
//!
//! # With sleep alone
//! A job of at most R is followed by a sleep of at least S, so the next release comes at least S
//! after the job *completes*. If a thread runs for less than R, the next release is earlier, and a
//! task with period R + S alone would not cover it. With a release jitter of R it does: in any
//! window of length t, n jobs do at most min((n-1)·R, t-(n-1)·S) + R, which is at most
//! ⌈(t+R)/(R+S)⌉·R. The deadline is one period after the latest release, 2R + S: a thread that only
//! sleeps has no deadline of its own.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::problem::{Checked, Problem, problem};
use super::sequence::{BUSY, ONCE, Sequence, StepAct, WOKEN};
use super::threads::{Act, Phase, Times};
use crate::{Duration, Service};

/// The jobs of a thread, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Jobs {
    /// Appended to the name of a thread that has jobs of several periods.
    pub(super) suffix: String,
    pub(super) period: u64,
    pub(super) wcet: u64,
    pub(super) release_jitter: u64,
    pub(super) relative_deadline: u64,
}

/// Returns the jobs of the thread called `name`, or the reason that it has no rate.
pub(super) fn of(
    name: &str,
    offset: usize,
    phases: &[Phase],
    starts_again: bool,
    notes: &mut Vec<Problem>,
) -> Checked<Result<Vec<Jobs>, &'static str>> {
    let mut note = |text: String| notes.push(Problem { offset, text });
    let has = |wanted: fn(&Act) -> bool| {
        let happen = phases.iter().filter(|phase| phase.times != Times::Finite(0));
        happen.flat_map(|phase| &phase.events).any(|event| wanted(&event.act))
    };
    if !has(|act| matches!(act, Act::Run(1..))) {
        return Ok(Err("it runs nothing of its own"));
    }
    let sequence = Sequence::of(phases, starts_again);
    if let Some(why) = sequence.dead_end {
        return Ok(Err(why));
    }
    if has(|act| matches!(act, Act::Timer { period: 1.., .. })) {
        if sequence.several_timers {
            note(format!(
                "\"{name}\" uses several timers: waiting for one within a job of another, and \
                 changing from one to another, is not in the bounds"
            ));
        }
        let jobs = timed(name, &sequence, &mut note)?;
        if jobs.is_empty() {
            return Ok(Err(ONCE));
        }
        return Ok(Ok(jobs));
    }
    if has(|act| matches!(act, Act::Sleep(1..))) {
        return Ok(match asleep(name, &sequence, &mut note) {
            Some(jobs) => Ok([jobs].into()),
            None => Err(ONCE),
        });
    }
    Ok(Err(if has(|act| matches!(act, Act::Wait)) {
        WOKEN
    } else if starts_again {
        BUSY
    } else {
        ONCE
    }))
}

/// The longest job of one period.
struct Longest<'a> {
    run: u64,
    /// Sleep between the runs of the job.
    inside: u64,
    /// The place of its first run in the file.
    offset: usize,
    phase: &'a str,
    differ: bool,
}

fn timed(name: &str, sequence: &Sequence<'_>, note: &mut impl FnMut(String)) -> Checked<Vec<Jobs>> {
    let mut longest: BTreeMap<u64, Longest<'_>> = BTreeMap::new();
    let (mut run, mut inside, mut pending, mut first) = (0u64, 0u64, 0u64, None);
    let mut started = sequence.cyclic;
    for (step, counts) in sequence.walk() {
        match step.act {
            StepAct::Run(more) => {
                run = run.saturating_add(more);
                inside = inside.saturating_add(core::mem::take(&mut pending));
                first.get_or_insert(step);
                started = true;
            }
            // Sleep before the first job only delays the start.
            StepAct::Sleep(more) => {
                pending = pending.saturating_add(if started { more } else { 0 })
            }
            StepAct::Timer(period) => {
                if let (Some(first), true) = (first, counts) {
                    let need = run.saturating_add(inside);
                    let here = Longest {
                        run,
                        inside,
                        offset: first.offset,
                        phase: first.phase,
                        differ: false,
                    };
                    let known = longest.entry(period).or_insert_with(|| Longest { ..here });
                    let differ = known.differ || known.run.saturating_add(known.inside) != need;
                    if need > known.run.saturating_add(known.inside) {
                        *known = here;
                    }
                    known.differ = differ;
                }
                (run, inside, pending, first) = (0, 0, 0, None);
                started = true;
            }
        }
    }
    if !sequence.last_repeats && run > 0 {
        note(format!("what \"{name}\" runs after its last timer happens once: not carried over"));
    }
    let several = longest.len() > 1;
    let mut phases: BTreeMap<&str, usize> = BTreeMap::new();
    for longest in longest.values() {
        *phases.entry(longest.phase).or_default() += 1;
    }
    let mut jobs = Vec::new();
    for (period, longest) in longest {
        let need = longest.run.saturating_add(longest.inside);
        if need > period {
            let (work, period) = (Service::from_nanos(longest.run), Duration::from_nanos(period));
            let asleep = match longest.inside {
                0 => String::new(),
                inside => {
                    format!(" with {} of sleep between its runs", Duration::from_nanos(inside))
                }
            };
            return problem(
                longest.offset,
                format!(
                    "\"{name}\" runs {work}{asleep}, which does not fit in its period {period}"
                ),
            );
        }
        if longest.differ {
            note(format!(
                "\"{name}\" does not run the same in every period of {}: the contract has the \
                 longest, {}, each time",
                Duration::from_nanos(period),
                Service::from_nanos(need)
            ));
        }
        if longest.inside > 0 {
            note(format!(
                "\"{name}\" sleeps {} between its runs in one period: in the contract that is part \
                 of its wcet",
                Duration::from_nanos(longest.inside)
            ));
        }
        let alone = phases.get(longest.phase) == Some(&1);
        let suffix = match (several, longest.phase) {
            (false, _) => String::new(),
            (true, "") => format!(".{}", Duration::from_nanos(period)),
            (true, phase) if alone => format!(".{phase}"),
            (true, phase) => format!(".{phase}.{}", Duration::from_nanos(period)),
        };
        let (wcet, relative_deadline) = (need, period);
        jobs.push(Jobs { suffix, period, wcet, release_jitter: 0, relative_deadline });
    }
    if several {
        let all = jobs.iter().map(|job| Duration::from_nanos(job.period).to_string());
        let all = all.collect::<Vec<_>>().join(", ");
        note(format!(
            "\"{name}\" has periods of {all}: each is a task of its own in the contract, though \
             they never run at the same time"
        ));
    }
    Ok(jobs)
}

fn asleep(name: &str, sequence: &Sequence<'_>, note: &mut impl FnMut(String)) -> Option<Jobs> {
    // Pairs each stretch of running with the sleep that follows it.
    let (mut longest, mut shortest, mut differ) = (0u64, None::<u64>, false);
    let (mut run, mut sleep) = (0u64, 0u64);
    let mut close = |run: u64, sleep: u64| {
        if run > 0 {
            differ |= longest > 0 && longest != run || shortest.is_some_and(|least| least != sleep);
            longest = longest.max(run);
            shortest = Some(shortest.map_or(sleep, |least| least.min(sleep)));
        }
    };
    for (step, counts) in sequence.walk() {
        match step.act {
            StepAct::Run(more) => {
                if sleep > 0 {
                    if counts {
                        close(run, sleep);
                    }
                    (run, sleep) = (0, 0);
                }
                run = run.saturating_add(more);
            }
            StepAct::Sleep(more) => sleep = sleep.saturating_add(more),
            StepAct::Timer(_) => {}
        }
    }
    // The last run of a thread that ends, or the pair that closes the second round.
    if sleep > 0 {
        close(run, sleep);
    } else if !sequence.last_repeats {
        longest = longest.max(run);
    }
    let shortest = shortest?;
    note(format!(
        "\"{name}\" has no timer: each sleep begins when its run ends. The contract has a period of \
         {} (run and sleep), a release jitter of {} (if it runs shorter, it comes back sooner){}",
        Duration::from_nanos(longest.saturating_add(shortest)),
        Duration::from_nanos(longest),
        if differ { "; its longest run and its shortest sleep stand for all" } else { "" }
    ));
    let period = longest.saturating_add(shortest);
    Some(Jobs {
        suffix: String::new(),
        period,
        wcet: longest,
        release_jitter: longest,
        relative_deadline: period.saturating_add(longest),
    })
}
