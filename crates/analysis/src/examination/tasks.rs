//! Tasks: the test that decides, CPU by CPU, and the cheaper ones for comparison.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Reverse;

use punctual_model::{Contract, Duration, HostProfile, Policy, Task};

use super::whole::Whole;
use super::{Failure, Findings};
use crate::judge::Miss;
use crate::load::CpuLoad;
use crate::partition::{Fit, How, Placement};
use crate::policies;
use crate::steps::Steps;
use crate::utilisation::Finding;
use crate::verdict::{Resource, Shortfall, TestReport};

/// A bound for each task.
pub(super) fn examine(
    whole: &Whole<'_>,
    host: &HostProfile,
    placement: &Placement,
    steps: &mut Steps,
    bounds_within: u64,
    findings: &mut Findings,
) -> Vec<Option<Duration>> {
    let contract = whole.contract();
    let mut bounds = Vec::from_iter(contract.tasks.iter().map(|_| None));
    if contract.tasks.is_empty() {
        return bounds;
    }
    let loads: Vec<CpuLoad> =
        (0..contract.cpus).map(|cpu| placement.load(contract, host, cpu)).collect();
    let mut miss = homeless(contract, host, placement, steps);
    sufficient_tests(contract.policy, &loads, miss.is_some(), &mut findings.tests);
    // Where there is no task none can be late, whatever else is there.
    for (cpu, load) in (0..contract.cpus).zip(&loads).filter(|(_, load)| !load.tasks.is_empty()) {
        let for_bounds = &mut Steps::new(bounds_within / u64::from(contract.cpus));
        let judgement = policies::of(contract.policy).judge(load, steps, for_bounds);
        let tasks: Vec<usize> = placement.tasks_on(cpu).collect();
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
        found_by(placement.how),
        numbers(contract, &loads, &bounds)
    );
    findings.add(test, why, failure);
    bounds
}

/// The numbers behind a yes: the fullest CPU, and the task with the least slack.
fn numbers(contract: &Contract, loads: &[CpuLoad], bounds: &[Option<Duration>]) -> String {
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

/// Says how the tasks found their CPUs, after the promise.
fn found_by(how: How) -> &'static str {
    match how {
        How::OneCpu | How::NoneExists | How::NotFound => "",
        How::By(Fit::First) => ", placed first fit",
        How::By(Fit::Best) => ", placed best fit",
        How::By(Fit::Worst) => ", placed worst fit",
        How::Exhaustively => ", placed by trying every partition",
    }
}

/// The first task, in file order, that fits on no CPU, with the smallest shortfall on any.
fn homeless(
    contract: &Contract,
    host: &HostProfile,
    placement: &Placement,
    steps: &mut Steps,
) -> Option<Miss> {
    let task = placement.task_cpus.iter().position(Option::is_none)?;
    let nearest = (0..contract.cpus)
        .filter_map(|cpu| {
            let (tasks, load) = placement.load_with(contract, host, cpu, task);
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
    let searched = match placement.how {
        How::NoneExists => " in any partition",
        _ => " (first, best and worst fit were tried)",
    };
    let why = format!("fits on none of the {cpus} CPUs{searched}{why}");
    Some(Miss { task, shortfall, why })
}

fn sufficient_tests(
    policy: Policy,
    loads: &[CpuLoad],
    homeless: bool,
    tests: &mut Vec<TestReport>,
) {
    let of_policy = policies::of(policy).tests().iter();
    for (name, test) in of_policy.filter_map(|test| Some((test.name(), test.sufficient()?))) {
        let finding = if homeless {
            Finding { admits: false, why: "not every task fits on a CPU".to_string() }
        } else {
            on_every_cpu(loads, test)
        };
        tests.push(TestReport { name, admits: finding.admits, why: finding.why });
    }
}

/// The finding of the first CPU with tasks that the test does not admit, or else of the first.
fn on_every_cpu(loads: &[CpuLoad], test: fn(&CpuLoad) -> Finding) -> Finding {
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
