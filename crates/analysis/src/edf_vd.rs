//! EDF with virtual deadlines: tasks of two criticalities on one CPU.
//!
//! A task of *high* criticality has two wcets: an optimistic one, and a larger and certain one,
//! `wcet_high`. The policy makes two promises. As long as no job needs more than its wcet, every
//! task is in time. From the moment at which some job does until the CPU is idle, the tasks of high
//! criticality are still in time, and the others run in the remaining time.
//!
//! # Method
//! Below, `C_i` is the wcet of a task, `H_i` its `wcet_high`, and `D_i` its relative deadline (or
//! its period, if that is shorter), all with two switches charged.
//!
//! 1. If plain EDF schedules every task of high criticality with `H_i` ([`crate::edf::demand`]),
//!    nothing else is needed.
//! 2. Otherwise such a task is scheduled by an earlier, *virtual* deadline,
//!    `V_i = max(⌊x·D_i⌋, C_i)`, so that there is time left when it turns out to need more. x is
//!    the least, in 1/1024, with which EDF schedules all tasks with `C_i` and virtual deadlines: as
//!    x grows, the demand before the switch only falls, and the demand after it only grows.
//! 3. From the switch on, the tasks of low criticality yield, and real deadlines count. With
//!    `s_i = D_i − V_i`, a window of length t from then on needs at most
//!
//! ```text
//! h(t) = Σ_{high, s_i ≤ t} (⌊(t − s_i)/T_i⌋ + 1)·H_i − max(0, C_i − (t − s_i) mod T_i)  +  B  ≤ t
//! ```
//!
//! of the CPU: a job that has `r < C_i` left until its virtual deadline at the switch has done all
//! but r of its `C_i`. B is one quantum, and two more switches for the task that the switch takes
//! off the CPU.
//!
//! 4. If that is too much, but all deadlines are at the end of the period or later and nothing
//!    delays a switch, utilisations may still suffice: `Σ_low C_i/T_i + Σ_high C_i/V_i ≤ 1` and
//!    `x·Σ_low C_i/T_i + Σ_high max(H_i/T_i, x·C_i/V_i) ≤ 1`, with `V_i = ⌊x·T_i⌋` and the least x
//!    for the first. (With `V_i = x·T_i` these are Theorems 1 and 2 of Baruah et al., whose proof
//!    holds for `V_i ≤ x·T_i` with the maximum.)
//!
//! # Assumptions
//! Step 1 has those of [`crate::edf::demand`]. Steps 2 and 3 also require no release jitter and no
//! reservation on the same CPU.
//!
//! # Sources, units and answers
//! Baruah, Bonifaci, D'Angelo, Li, Marchetti-Spaccamela, van der Ster & Stougie, ECRTS 2012 (the
//! policy); Ekberg & Yi, ECRTS 2012, Lemmas 2 and 3 (the demand; there each task has its own x).
//! Nanoseconds. Sufficient, not necessary. The bound of each task is its deadline. h grows faster
//! than t only up to `s_i + k·T_i` and `s_i + k·T_i + C_i`, so those instants are checked.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use punctual_model::Duration;

use crate::edf::demand::{DemandVerdict, processor_demand};
use crate::judge::{self, Judgement, Miss};
use crate::load::{CpuLoad, TaskLoad};
use crate::ratio::{self, Ratio, Utilisation};
use crate::schedulability::{Order, Schedulability, Test};
use crate::steps::{OutOfSteps, Steps};

/// 1.0 in the units of x.
const ONE: u64 = 1 << 10;

/// EDF with virtual deadlines.
pub(crate) struct EdfVd;

/// The deadlines by which both promises are kept.
enum Plan {
    /// Each task's own deadline.
    Plain,
    /// Virtual deadlines, in the order of the load.
    Virtual(Vec<u64>),
}

/// The reason why a promise is not kept.
enum Broken {
    /// A task is late before any job needs more than its wcet.
    Before(DemandVerdict),
    /// Virtual deadlines do not apply, because the named assumption does not hold, and plain EDF
    /// fails with this verdict.
    Plain(DemandVerdict, &'static str),
    /// A task is late after the switch: in a window of this length, by this much.
    After {
        window: u64,
        by: u64,
    },
    /// More than the whole CPU is needed after the switch.
    Overload,
    Undecided,
}

impl From<OutOfSteps> for Broken {
    fn from(OutOfSteps: OutOfSteps) -> Self {
        Self::Undecided
    }
}

impl Schedulability for EdfVd {
    fn deciding_test(&self) -> &'static str {
        "virtual-deadlines"
    }

    fn promise(&self) -> &'static str {
        "every task meets its deadline while no job needs more than its wcet, and those with wcet_high also afterwards"
    }

    fn order(&self) -> Order {
        Order::Deadline
    }

    fn tests(&self) -> &'static [Test] {
        &[Test::Exact]
    }

    fn fits(&self, load: &CpuLoad, steps: &mut Steps) -> bool {
        plan(load, steps).is_ok()
    }

    fn judge(&self, load: &CpuLoad, steps: &mut Steps, _: &mut Steps) -> Judgement {
        let broken = match plan(load, steps) {
            Ok(_) => {
                let deadlines =
                    load.tasks.iter().map(|task| Some(Duration::from_nanos(task.deadline)));
                return Judgement { bounds: deadlines.collect(), miss: None };
            }
            Err(broken) => broken,
        };
        let none = || load.tasks.iter().map(|_| None);
        let (shortfall, why) = match broken {
            Broken::Before(verdict) => return judge::by_demand(load, verdict, none()),
            Broken::Plain(verdict, assumes) => {
                let mut judgement = judge::by_demand(&certain(load), verdict, none());
                if let Some(miss) = &mut judgement.miss {
                    miss.why = format!(
                        "{}, with wcet_high; virtual deadlines would want {assumes}",
                        miss.why
                    );
                }
                return judgement;
            }
            Broken::After { window, by } => {
                let (window, by) = (Duration::from_nanos(window), Duration::from_nanos(by));
                let why = format!(
                    "can miss its deadline once some job needs more than its wcet: in a window of {window} what \
                     falls due exceeds the time by {by}"
                );
                (Some(by), why)
            }
            Broken::Overload => {
                let why = "has no finite response time once jobs need their wcet_high: that is more than the whole CPU";
                (None, String::from(why))
            }
            Broken::Undecided => {
                (None, String::from("could not be decided within the bound on the analysis"))
            }
        };
        let share = |&at: &usize| {
            let task = &load.tasks[at];
            (task.high > 0, ratio::share(task.work.max(task.high), task.period))
        };
        let task = (0..load.tasks.len()).max_by_key(share).unwrap_or(0);
        Judgement { bounds: none().collect(), miss: Some(Miss { task, shortfall, why }) }
    }

    fn virtual_deadlines(&self, load: &CpuLoad) -> Vec<Duration> {
        // As many as the verdict took, at most.
        match plan(load, &mut Steps::new(u64::MAX)) {
            Ok(Plan::Virtual(deadlines)) => {
                deadlines.into_iter().map(Duration::from_nanos).collect()
            }
            Ok(Plan::Plain) | Err(_) => Vec::new(),
        }
    }
}

/// Returns the load with the certain wcets.
fn certain(load: &CpuLoad) -> CpuLoad {
    let mut load = load.clone();
    for task in &mut load.tasks {
        task.work = task.work.max(task.high);
    }
    load
}

fn plan(load: &CpuLoad, steps: &mut Steps) -> Result<Plan, Broken> {
    let plain = processor_demand(&certain(load), steps);
    if plain == DemandVerdict::Fits {
        return Ok(Plan::Plain);
    }
    match processor_demand(load, steps) {
        DemandVerdict::Fits => {}
        verdict => return Err(Broken::Before(verdict)),
    }
    if load.tasks.iter().any(|task| task.jitter > 0) {
        return Err(Broken::Plain(plain, "tasks without release jitter"));
    }
    if !load.reservations.is_empty() {
        return Err(Broken::Plain(plain, "no reservation or channel on the same CPU"));
    }
    // With x = 1 every task is in time before the switch, and `high` keeps that property.
    let (mut low, mut high) = (0, ONE);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if processor_demand(&brought_forward(load, middle), steps) == DemandVerdict::Fits {
            high = middle;
        } else {
            low = middle;
        }
    }
    let before = brought_forward(load, high);
    let virtual_deadlines = |load: &CpuLoad| load.tasks.iter().map(|task| task.deadline).collect();
    in_time_after(load, &before, steps).map(|()| Plan::Virtual(virtual_deadlines(&before))).or_else(
        |broken| {
            let found = by_utilisation(load);
            found.map(|before| Plan::Virtual(virtual_deadlines(&before))).ok_or(broken)
        },
    )
}

/// Takes step 4: returns the load with virtual deadlines, if utilisations suffice.
fn by_utilisation(load: &CpuLoad) -> Option<CpuLoad> {
    let blocks = load.longest_blocking() > 0;
    if blocks || load.tasks.iter().any(|task| task.deadline < task.period) {
        return None;
    }
    let within_one = |x: u64| -> Option<CpuLoad> {
        let (mut before, mut sum) = (load.clone(), Utilisation::ZERO);
        for task in &mut before.tasks {
            if task.high > 0 {
                let scaled = u128::from(task.period) * u128::from(x) / u128::from(ONE);
                task.deadline = (scaled as u64).max(1);
                sum.add(task.work, task.deadline);
            } else {
                sum.add(task.work, task.period);
            }
        }
        sum.is_at_most_one().then_some(before)
    };
    let (mut low, mut high) = (0, ONE);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        *(if within_one(middle).is_some() { &mut high } else { &mut low }) = middle;
    }
    let before = within_one(high)?;
    let mut after = Utilisation::ZERO;
    for (task, before) in load.tasks.iter().zip(&before.tasks) {
        let scaled = task.work.checked_mul(high)?;
        let of_high = u128::from(task.high) * u128::from(before.deadline);
        let of_wcet = u128::from(scaled) * u128::from(task.period);
        if task.high == 0 {
            after.add(scaled, task.period.checked_mul(ONE)?);
        } else if of_high.checked_mul(u128::from(ONE))? >= of_wcet {
            after.add(task.high, task.period);
        } else {
            after.add(scaled, before.deadline.checked_mul(ONE)?);
        }
    }
    after.is_at_most_one().then_some(before)
}

/// Returns the deadline of a task of high criticality as steps 2 and 3 count it.
fn deadline(task: &TaskLoad) -> u64 {
    task.deadline.min(task.period)
}

/// Returns the load with virtual deadlines.
fn brought_forward(load: &CpuLoad, x: u64) -> CpuLoad {
    let mut load = load.clone();
    for task in load.tasks.iter_mut().filter(|task| task.high > 0) {
        let scaled = u128::from(deadline(task)) * u128::from(x) / u128::from(ONE);
        // The result is not above the deadline; nor is a valid task's work, or plain EDF would
        // refuse it.
        task.deadline = (scaled as u64).max(task.work);
    }
    load
}

/// Checks that the tasks of high criticality are in time from the switch on.
fn in_time_after(load: &CpuLoad, before: &CpuLoad, steps: &mut Steps) -> Result<(), Broken> {
    let blocking = load.longest_blocking();
    let switches = load.tasks.iter().map(|task| task.work - task.wcet).max().unwrap_or(0);
    let blocking = blocking.checked_add(switches).ok_or(OutOfSteps)?;
    let tasks = load.tasks.iter().zip(&before.tasks).filter(|(task, _)| task.high > 0);
    let tasks: Vec<After> = tasks
        .map(|(task, before)| After {
            slack: deadline(task).saturating_sub(before.deadline),
            period: task.period,
            work: task.work,
            high: task.high.max(task.work),
        })
        .collect();
    let mut utilisation = Utilisation::ZERO;
    tasks.iter().for_each(|task| utilisation.add(task.high, task.period));
    if utilisation.exceeds_one() {
        return Err(Broken::Overload);
    }
    // h(t) ≤ U·t + Σ H_i·(T_i − s_i)/T_i + B, so windows need checking only up to where that equals
    // t.
    let mut rest = blocking;
    for task in &tasks {
        let area = u128::from(task.high) * u128::from(task.period - task.slack);
        let share =
            u64::try_from(area.div_ceil(u128::from(task.period))).map_err(|_| OutOfSteps)?;
        rest = rest.checked_add(share).ok_or(OutOfSteps)?;
    }
    let horizon = Ratio::ONE.minus(utilisation.above()).divide_up(rest).ok_or(OutOfSteps)?;
    for one in &tasks {
        for first in [one.slack, one.slack.checked_add(one.work).ok_or(OutOfSteps)?] {
            let mut window = first;
            while window <= horizon {
                steps.take(tasks.len())?;
                let needed = tasks
                    .iter()
                    .try_fold(blocking, |sum, task| sum.checked_add(task.needed_in(window)?));
                let needed = needed.ok_or(OutOfSteps)?;
                if needed > window {
                    return Err(Broken::After { window, by: needed - window });
                }
                window = window.checked_add(one.period).ok_or(OutOfSteps)?;
            }
        }
    }
    Ok(())
}

/// A task of high criticality from the switch on.
struct After {
    /// `s_i`, the time from its virtual deadline to the real one.
    slack: u64,
    period: u64,
    work: u64,
    high: u64,
}

impl After {
    /// Returns the task's demand in a window that begins with the switch, or `None` beyond 64 bits.
    fn needed_in(&self, window: u64) -> Option<u64> {
        let Some(since) = window.checked_sub(self.slack) else { return Some(0) };
        let done = self.work.saturating_sub(since % self.period);
        // A job has done no more than it may need.
        Some((since / self.period + 1).checked_mul(self.high)? - done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admit;
    use alloc::string::ToString;
    use alloc::vec;
    use punctual_model::contract::NamedReservation;
    use punctual_model::{Contract, HostProfile, Policy, Service, Task, TaskSpec};

    /// Builds a contract from `(period, wcet, wcet_high)` in milliseconds.
    fn contract(tasks: &[(u64, u64, Option<u64>)]) -> Contract {
        let task = |&(period, wcet, high): &(u64, u64, Option<u64>)| {
            let (period, wcet) = (Duration::from_millis(period), Service::from_millis(wcet));
            let wcet_high = high.map(Service::from_millis);
            Task::new(TaskSpec { wcet_high, ..TaskSpec::periodic("t", period, wcet) })
                .expect("valid")
        };
        Contract::of_tasks(Policy::EdfVd, 1, tasks.iter().map(task).collect())
    }

    fn virtual_deadlines(tasks: &[(u64, u64, Option<u64>)]) -> Vec<Option<Duration>> {
        let grant = admit(&contract(tasks), &HostProfile::ideal(1)).expect("admitted");
        grant.tasks.iter().map(|task| task.virtual_deadline).collect()
    }

    /// 5/10 and 6/10 ms are too much. If the first 2/10 ms are due after 2 ms, there is time for
    /// the other four.
    #[test]
    fn deadlines_are_brought_forward_only_if_needed() {
        assert_eq!(virtual_deadlines(&[(10, 5, None), (10, 2, Some(5))]), [None, None]);
        let deadlines = virtual_deadlines(&[(10, 5, None), (10, 2, Some(6))]);
        assert_eq!(deadlines, [None, Some(Duration::from_millis(2))]);
    }

    #[test]
    fn a_refusal_says_which_promise_is_broken() {
        let why = |contract: &Contract| {
            admit(contract, &HostProfile::ideal(1)).expect_err("too much").to_string()
        };
        let before = why(&contract(&[(10, 7, None), (10, 4, Some(4))]));
        assert!(before.contains("need more than the whole CPU"), "{before}");
        let overload = why(&contract(&[(10, 1, Some(6)), (10, 1, Some(6))]));
        assert!(overload.contains("once jobs need their wcet_high"), "{overload}");
        let after = why(&contract(&[(4, 2, None), (12, 4, Some(11))]));
        assert!(after.contains("once some job needs more than its wcet"), "{after}");
        let reserved = Contract {
            reservations: vec![NamedReservation {
                name: "r".to_string(),
                reservation: "1ms/10ms".parse().expect("valid"),
            }],
            ..contract(&[(10, 5, None), (10, 2, Some(6))])
        };
        let assumption = why(&reserved);
        assert!(assumption.contains("virtual deadlines would want no reservation"), "{assumption}");
    }
}
