//! Tasks: the deciding test on each CPU, and the cheaper ones for comparison.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use punctual_model::{Contract, Duration, HostProfile, Policy, Task};

use super::expanded::Expanded;
use super::{Failure, Findings};
use crate::entry::Entry;
use crate::judge::Miss;
use crate::load::{CpuLoad, TaskLoad};
use crate::order::by_priority;
use crate::policies;
use crate::steps::Steps;
use crate::system::{Fit, How, Spread, System};
use crate::utilisation::Finding;
use crate::verdict::{Resource, Shortfall, TestReport};

/// The mapping of a contract's tasks to CPUs.
#[derive(Debug)]
pub(crate) struct Placed {
    /// The CPU of each task, by position; `None` if it fits on none.
    pub(crate) cpus: Vec<Option<u16>>,
    how: How,
    /// Whether all tasks are admitted.
    pub(super) admitted: bool,
    /// The positions of all tasks, the most urgent first.
    order: Vec<usize>,
}

impl Placed {
    /// Puts all tasks on the first CPU, whether they fit or not.
    pub(super) fn on_one(contract: &Contract) -> Self {
        let order = by_priority(contract.policy, &contract.tasks);
        let cpus = contract.tasks.iter().map(|_| Some(0)).collect();
        Self { cpus, how: How::OneCpu, admitted: false, order }
    }

    /// Returns the positions of the tasks on `cpu`, the most urgent first.
    pub(crate) fn on(&self, cpu: u16) -> impl Iterator<Item = usize> {
        self.order.iter().copied().filter(move |&at| self.cpus[at] == Some(cpu))
    }

    /// Returns all work of `cpu`.
    pub(crate) fn load(
        &self,
        contract: &Contract,
        host: &HostProfile,
        system: &System<Entry>,
        cpu: u16,
    ) -> CpuLoad {
        load_of(contract, host, system, cpu, self.on(cpu))
    }
}

fn load_of(
    contract: &Contract,
    host: &HostProfile,
    system: &System<Entry>,
    cpu: u16,
    tasks: impl Iterator<Item = usize>,
) -> CpuLoad {
    CpuLoad {
        tasks: tasks.map(|at| TaskLoad::new(&contract.tasks[at], host.context_switch)).collect(),
        reservations: system.above_tasks(cpu).to_vec(),
        wake_up: host.wake_up.as_nanos(),
    }
}

/// Enters all tasks that are there, or none of them.
pub(super) fn enter(
    contract: &Contract,
    host: &HostProfile,
    system: &mut System<Entry>,
    is_there: impl Fn(usize) -> bool,
    steps: &mut Steps,
) -> Placed {
    let mut order = by_priority(contract.policy, &contract.tasks);
    order.retain(|at| is_there(*at));
    let load =
        |&at: &usize| (Entry::Task(at), TaskLoad::new(&contract.tasks[at], host.context_switch));
    let tasks: Vec<(Entry, TaskLoad)> = order.iter().map(load).collect();
    let Spread { how, cpus: in_order, admitted } = system.spread(&tasks, steps);
    let mut cpus = vec![None; contract.tasks.len()];
    order.iter().zip(in_order).for_each(|(&at, cpu)| cpus[at] = cpu);
    Placed { cpus, how, admitted, order }
}

/// Reports the tests, and returns a bound for each task.
pub(super) fn report(
    whole: &Expanded<'_>,
    host: &HostProfile,
    system: &System<Entry>,
    placed: &Placed,
    steps: &mut Steps,
    bounds_within: u64,
    findings: &mut Findings,
) -> Vec<Option<Duration>> {
    let contract = whole.contract();
    let mut bounds = Vec::from_iter(contract.tasks.iter().map(|_| None));
    if contract.tasks.is_empty() {
        return bounds;
    }
    let loads: Vec<Cow<'_, CpuLoad>> = match placed.how {
        // In the order of the policy, as they were entered. Not copied, because there may be
        // thousands.
        How::OneCpu if placed.admitted => Vec::from([Cow::Borrowed(system.work_of(0))]),
        _ => {
            let load = |cpu| Cow::Owned(placed.load(contract, host, system, cpu));
            (0..contract.cpus).map(load).collect()
        }
    };
    let mut miss = unplaced(contract, host, system, placed, steps);
    sufficient_tests(contract.policy, &loads, miss.is_some(), &mut findings.tests);
    // A CPU without tasks has no late one, whatever else runs there.
    for (cpu, load) in (0..contract.cpus).zip(&loads).filter(|(_, load)| !load.tasks.is_empty()) {
        let for_bounds = &mut Steps::new(bounds_within / u64::from(contract.cpus));
        let judgement = policies::of(contract.policy).judge(load, steps, for_bounds);
        let tasks: Vec<usize> = placed.on(cpu).collect();
        for (&at, bound) in tasks.iter().zip(judgement.bounds) {
            bounds[at] = bound;
        }
        miss = miss.or(judgement.miss.map(|miss| Miss { task: tasks[miss.task], ..miss }));
    }
    let test = policies::of(contract.policy).deciding_test();
    let failure = miss.map(|Miss { task, shortfall, why }| Failure {
        test,
        resource: Resource::Cpu,
        entry: Some(whole.task(task)),
        shortfall: shortfall.map(Shortfall::Time),
        why: format!("task \"{}\" {why}", contract.tasks[task].name()),
    });
    let why = format!(
        "{}{}; {}",
        policies::of(contract.policy).promise(),
        found_by(placed.how),
        numbers(contract, &loads, &bounds)
    );
    findings.add(test, why, failure);
    bounds
}

/// Formats the numbers of an admission: the fullest CPU, and the task with the least slack.
fn numbers(contract: &Contract, loads: &[Cow<'_, CpuLoad>], bounds: &[Option<Duration>]) -> String {
    let used = loads.iter().zip(0..).map(|(load, cpu): (_, u16)| (load.utilisation().above(), cpu));
    let (used, cpu) = used.max_by_key(|&(used, cpu)| (used, Reverse(cpu))).unwrap_or_default();
    let place =
        if loads.len() == 1 { String::new() } else { format!(" on CPU {cpu}, the fullest") };
    let slack = |(task, bound): (&Task, &Option<Duration>)| {
        let slack = task.relative_deadline().saturating_sub((*bound)?);
        Some((slack, String::from(task.name())))
    };
    let least = contract.tasks.iter().zip(bounds).filter_map(slack).min_by_key(|found| found.0);
    let least = match least {
        // Under this policy a bound may be no more than the deadline itself.
        Some((slack, _))
            if matches!(contract.policy, Policy::Edf | Policy::EdfVd) && slack.is_zero() =>
        {
            String::new()
        }
        Some((slack, name)) => format!(", least slack {slack}, of task \"{name}\""),
        None => String::new(),
    };
    format!("utilisation {used}{place}{least}")
}

/// Says how the tasks were placed, as a suffix of the promise.
fn found_by(how: How) -> &'static str {
    match how {
        How::OneCpu | How::NoneExists | How::NotFound => "",
        How::By(Fit::First) => ", placed first fit",
        How::By(Fit::Best) => ", placed best fit",
        How::By(Fit::Worst) => ", placed worst fit",
        How::Exhaustively => ", placed by trying every partition",
    }
}

/// Returns the first task, in file order, that fits on no CPU, with its smallest shortfall on any.
fn unplaced(
    contract: &Contract,
    host: &HostProfile,
    system: &System<Entry>,
    placed: &Placed,
    steps: &mut Steps,
) -> Option<Miss> {
    let task = placed.cpus.iter().position(Option::is_none)?;
    let nearest = (0..contract.cpus)
        .filter_map(|cpu| {
            let here = |&at: &usize| at == task || placed.cpus[at] == Some(cpu);
            let tasks: Vec<usize> = placed.order.iter().copied().filter(here).collect();
            let load = load_of(contract, host, system, cpu, tasks.iter().copied());
            let miss = policies::of(contract.policy).judge(&load, steps, &mut Steps::new(0)).miss?;
            Some((miss.shortfall?, cpu, tasks[miss.task], miss.why))
        })
        .min();
    let (shortfall, why) = match nearest {
        Some((shortfall, cpu, late, why)) => {
            let late = contract.tasks[late].name();
            (Some(shortfall), format!("; nearest on CPU {cpu}, where task \"{late}\" {why}"))
        }
        None => (None, String::from("; nowhere was a finite shortfall found")),
    };
    let cpus = contract.cpus;
    let searched = match placed.how {
        How::NoneExists => " in any partition",
        _ => " (first, best and worst fit were tried)",
    };
    let why = format!("fits on none of the {cpus} CPUs{searched}{why}");
    Some(Miss { task, shortfall, why })
}

fn sufficient_tests(
    policy: Policy,
    loads: &[Cow<'_, CpuLoad>],
    unplaced: bool,
    tests: &mut Vec<TestReport>,
) {
    let of_policy = policies::of(policy).tests().iter();
    for (name, test) in of_policy.filter_map(|test| Some((test.name(), test.sufficient()?))) {
        let finding = if unplaced {
            Finding { admits: false, why: "not every task fits on a CPU".to_string() }
        } else {
            on_every_cpu(loads, test)
        };
        tests.push(TestReport { name, admits: finding.admits, why: finding.why });
    }
}

/// Returns the finding of the first CPU with tasks that the test refuses, or else that of the first
/// CPU with tasks.
fn on_every_cpu(loads: &[Cow<'_, CpuLoad>], test: fn(&CpuLoad) -> Finding) -> Finding {
    let mut findings = loads
        .iter()
        .enumerate()
        .filter(|(_, load)| !load.tasks.is_empty())
        .map(|(cpu, load)| (cpu, test(load)));
    let first = findings.next();
    let (cpu, finding) = match first {
        Some((cpu, finding)) if finding.admits => {
            findings.find(|(_, finding)| !finding.admits).unwrap_or((cpu, finding))
        }
        Some(refused) => refused,
        None => return Finding { admits: true, why: "there are no tasks".to_string() },
    };
    if loads.len() == 1 {
        return finding;
    }
    Finding { why: format!("CPU {cpu}: {}", finding.why), ..finding }
}
