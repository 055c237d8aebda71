//! All that admission finds out about a contract: where everything goes, and what is proven there.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use punctual_model::{Contract, Duration, HostProfile, Policy, Service};

use crate::judge::{self, Miss};
use crate::load::CpuLoad;
use crate::partition::{self, Placement};
use crate::reservation::bandwidth_ppm;
use crate::sched_deadline::{KernelLimits, LEAST_RUNTIME, Objection};
use crate::steps::Steps;
use crate::utilisation::{self, Finding};
use crate::verdict::TestReport;

const BANDWIDTH: &str = "reservable-bandwidth";
const SCHED_DEADLINE: &str = "sched-deadline";

/// What finding bounds may use where the verdict does not need them, for all CPUs together.
pub(crate) const BOUNDS: u64 = Steps::ADMISSION / 4;

/// Whether `contract` would be admitted; cheaper than [`crate::admit`], and undecided is no.
pub(crate) fn fits(contract: &Contract, host: &HostProfile, steps: &mut Steps) -> bool {
    if contract.cpus > host.cpus {
        return false;
    }
    let placement = partition::place(contract, host, steps);
    if contract.cpus > 1 {
        // Each CPU was judged while it was filled.
        return placement.task_cpus.iter().chain(&placement.reservation_cpus).all(Option::is_some)
            && kernel_objection(contract, &placement).is_none();
    }
    failing_reservation(contract, host, &placement).is_none()
        && kernel_objection(contract, &placement).is_none()
        && judge::fits(contract.policy, &placement.load(contract, host, 0), steps)
}

/// A task or reservation by its position in the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Task(usize),
    Reservation(usize),
}

pub(crate) struct Failure {
    pub(crate) test: &'static str,
    pub(crate) entry: Option<Entry>,
    pub(crate) shortfall: Option<Duration>,
    pub(crate) why: String,
}

/// All that admission finds out about a contract.
pub(crate) struct Examination {
    pub(crate) placement: Placement,
    pub(crate) bounds: Vec<Option<Duration>>,
    pub(crate) tests: Vec<TestReport>,
    pub(crate) failure: Option<Failure>,
}

/// The verdict within `steps`; bounds beyond what it needs within `bounds_within` steps.
pub(crate) fn examine(
    contract: &Contract,
    host: &HostProfile,
    steps: &mut Steps,
    bounds_within: u64,
) -> Examination {
    if contract.cpus > host.cpus {
        return too_few_cpus(contract, host);
    }
    let placement = partition::place(contract, host, steps);
    let mut bounds = Vec::from_iter(contract.tasks.iter().map(|_| None));
    let mut tests = Vec::new();
    let mut failure = None;
    if !contract.reservations.is_empty() {
        failure = failing_reservation(contract, host, &placement);
        let why = match &failure {
            Some(failure) => failure.why.clone(),
            None => format!("within the {} ppm that may be reserved of a CPU", host.reservable_ppm),
        };
        tests.push(TestReport { name: BANDWIDTH, admits: failure.is_none(), why });
        let objection = kernel_objection(contract, &placement);
        let why = match &objection {
            Some(objection) => objection.why.clone(),
            None => "the kernel takes every budget, every period and their sum on each CPU".into(),
        };
        tests.push(TestReport { name: SCHED_DEADLINE, admits: objection.is_none(), why });
        failure = failure.or(objection);
    }
    if !contract.tasks.is_empty() {
        let loads: Vec<CpuLoad> =
            (0..contract.cpus).map(|cpu| placement.load(contract, host, cpu)).collect();
        let mut miss = homeless_task(contract, host, &placement, steps);
        sufficient_tests(contract.policy, &loads, miss.is_some(), &mut tests);
        for (cpu, load) in (0..contract.cpus).zip(&loads) {
            let for_bounds = &mut Steps::new(bounds_within / u64::from(contract.cpus));
            let judgement = judge::judge(contract.policy, load, steps, for_bounds);
            let tasks: Vec<usize> = placement.tasks_on(cpu).collect();
            for (&at, bound) in tasks.iter().zip(judgement.bounds) {
                bounds[at] = bound;
            }
            miss = miss.or(judgement.miss.map(|miss| Miss { task: tasks[miss.task], ..miss }));
        }
        let name = judge::deciding_test(contract.policy);
        let miss = miss.map(|Miss { task, shortfall, why }| Failure {
            test: name,
            entry: Some(Entry::Task(task)),
            shortfall,
            why: format!("task \"{}\" {why}", contract.tasks[task].name()),
        });
        let why = miss.as_ref().map_or("every task meets its deadline".into(), |m| m.why.clone());
        tests.push(TestReport { name, admits: miss.is_none(), why });
        failure = failure.or(miss);
    }
    Examination { placement, bounds, tests, failure }
}

fn too_few_cpus(contract: &Contract, host: &HostProfile) -> Examination {
    let why =
        format!("the contract asks for {} CPUs and the host has {}", contract.cpus, host.cpus);
    // Nothing is placed: no steps.
    let placement = partition::place(
        &Contract { tasks: Vec::new(), reservations: Vec::new(), ..contract.clone() },
        host,
        &mut Steps::new(0),
    );
    Examination {
        placement,
        bounds: Vec::from_iter(contract.tasks.iter().map(|_| None)),
        tests: Vec::from([TestReport { name: "cpus", admits: false, why: why.clone() }]),
        failure: Some(Failure { test: "cpus", entry: None, shortfall: None, why }),
    }
}

/// The first reservation, in file order, that does not fit beside those before it (one CPU) or
/// that found no CPU.
fn failing_reservation(
    contract: &Contract,
    host: &HostProfile,
    placement: &Placement,
) -> Option<Failure> {
    let mut used = 0;
    let mut taken = 0;
    let at = (0..contract.reservations.len()).find(|&at| {
        let reservation = contract.reservations[at].reservation;
        taken = used;
        used += bandwidth_ppm([reservation]);
        placement.reservation_cpus[at].is_none() || contract.cpus == 1 && used > host.reservable_ppm
    })?;
    if contract.cpus > 1 {
        taken = least_reserved(contract, placement);
    }
    let named = &contract.reservations[at];
    let wanted = named.reservation.utilisation_ppm();
    let left = host.reservable_ppm.saturating_sub(taken);
    let budget = u128::from(left) * u128::from(named.reservation.period().as_nanos()) / 1_000_000;
    let excess = u128::from(named.reservation.budget().as_nanos()).saturating_sub(budget);
    let excess = Service::from_nanos(u64::try_from(excess).unwrap_or(u64::MAX));
    Some(Failure {
        test: BANDWIDTH,
        entry: Some(Entry::Reservation(at)),
        shortfall: Some(excess.at_full_speed()),
        why: format!(
            "reservation \"{}\" of {} wants {wanted} ppm of a CPU and {left} ppm of {} are left, so \
             its budget is {excess} too large",
            named.name, named.reservation, host.reservable_ppm
        ),
    })
}

/// The first reservation, CPU by CPU, that the kernel would refuse. A root domain may be as small as
/// one CPU; and where it is larger, what fits on each of its CPUs fits together.
fn kernel_objection(contract: &Contract, placement: &Placement) -> Option<Failure> {
    let kernel = KernelLimits::default();
    (0..contract.cpus).find_map(|cpu| {
        let here: Vec<usize> = placement.reservations_on(cpu).collect();
        let requests = here.iter().map(|&at| contract.reservations[at].reservation.into());
        let (refused, objection) = kernel.admit(1, requests).err()?;
        let named = &contract.reservations[here[refused]];
        let shortfall = match objection {
            Objection::Bandwidth { wanted, left } => {
                let missing = u128::from(wanted - left);
                let excess = missing * u128::from(named.reservation.period().as_nanos());
                u64::try_from(excess.div_ceil(1 << 20)).ok()
            }
            Objection::RuntimeTooShort { runtime } => {
                Some(LEAST_RUNTIME.as_nanos() - runtime.as_nanos())
            }
            Objection::PeriodOutside { period, shortest, longest } => {
                let short = shortest.saturating_sub(period);
                Some(short.max(period.saturating_sub(longest)).as_nanos())
            }
            Objection::RuntimeAboveDeadline { .. } | Objection::DeadlineAbovePeriod { .. } => None,
        };
        Some(Failure {
            test: SCHED_DEADLINE,
            entry: Some(Entry::Reservation(here[refused])),
            shortfall: shortfall.map(Duration::from_nanos),
            why: format!("reservation \"{}\" {objection}", named.name),
        })
    })
}

fn least_reserved(contract: &Contract, placement: &Placement) -> u64 {
    let reserved_on = |cpu| {
        let here = contract.reservations.iter().zip(&placement.reservation_cpus);
        bandwidth_ppm(here.filter(|(_, at)| **at == Some(cpu)).map(|(named, _)| named.reservation))
    };
    (0..contract.cpus).map(reserved_on).min().unwrap_or(0)
}

/// The first task, in file order, that fits on no CPU, with the smallest shortfall on any.
fn homeless_task(
    contract: &Contract,
    host: &HostProfile,
    placement: &Placement,
    steps: &mut Steps,
) -> Option<Miss> {
    let task = placement.task_cpus.iter().position(Option::is_none)?;
    let nearest = (0..contract.cpus)
        .filter_map(|cpu| {
            let (tasks, load) = placement.load_with(contract, host, cpu, task);
            let miss = judge::judge(contract.policy, &load, steps, &mut Steps::new(0)).miss?;
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
    Some(Miss { task, shortfall, why: format!("fits on none of the {cpus} CPUs{why}") })
}

fn sufficient_tests(
    policy: Policy,
    loads: &[CpuLoad],
    homeless: bool,
    tests: &mut Vec<TestReport>,
) {
    type Test = fn(&CpuLoad) -> Finding;
    // The cheapest first.
    let of_policy: &[(&'static str, Test)] = match policy {
        Policy::Rm => {
            &[("liu-layland", utilisation::liu_layland), ("hyperbolic", utilisation::hyperbolic)]
        }
        Policy::Rmdp => &[
            ("liu-layland", utilisation::liu_layland),
            ("rmdp", utilisation::rmdp),
            ("sha", utilisation::sha),
        ],
        Policy::Fp | Policy::Edf => &[],
    };
    for &(name, test) in of_policy {
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
