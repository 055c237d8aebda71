//! The first sweep: the factor by which all work can grow, by policy and by test.

use punctual_analysis::Steps;
use punctual_analysis::breakdown::{
    Breakdown, Factor, NeverAdmitted, Test, bounds_at, breakdown, preemptible_anywhere,
};
use punctual_model::{Contract, Duration, HostProfile, Policy};
use punctual_sweep::page::{Part, Section};
use punctual_sweep::plot::{Axis, Line, MOST_LINES, Plot, Shape};
use punctual_sweep::sheet::{Sheet, Value};
use punctual_sweep::workers::Workers;

/// The number of factors at which response times are computed.
const POINTS: u64 = 60;

/// The largest ratio of response time to deadline that is drawn.
const TOP: f64 = 1.5;

/// One question: these tasks under this policy, by this test.
struct Row {
    policy: Policy,
    test: Test,
    as_declared: bool,
    contract: Contract,
}

pub(super) fn explore(contract: &Contract, host: &HostProfile, workers: &Workers) -> Section {
    let rows = rows(contract);
    let answers = workers
        .map("breakdown", &rows, |row| breakdown(&row.contract, host, row.test, Steps::ADMISSION));
    let own = rows.iter().zip(&answers).find(|(row, _)| {
        row.as_declared && row.policy == contract.policy && row.test == Test::Exact
    });
    let critical = own.and_then(|(_, answer)| answer.as_ref().ok());
    let verdict = match critical {
        None => "As declared, it is admitted with no factor at all.".into(),
        Some(found) => format!(
            "Under {}, its own policy, the critical factor is {}, where the tasks take {} of a CPU.",
            contract.policy.name(),
            found.factor,
            found.utilisation
        ),
    };
    Section {
        title: "Breakdown utilisation".into(),
        about: vec![
            "Every wcet, quantum and last segment is multiplied by one factor; the critical factor \
             is the largest, in millionths, that is still admitted. Above 1 it is room, below 1 what \
             must be saved. Reservations, channels and the cost of switches stay as they are."
                .into(),
            verdict,
        ],
        plots: vec![bars(&rows, &answers)],
        summary: summary(&rows, &answers),
        parts: vec![response_times(contract, host, critical, workers)],
    }
}

/// Returns each policy with its tests. If a task has a quantum, the policies that can preempt
/// anywhere come once more without quanta.
fn rows(contract: &Contract) -> Vec<Row> {
    let quanta = contract.tasks.iter().any(|task| !task.quantum().is_zero());
    let preemptible = quanta.then(|| preemptible_anywhere(contract));
    let of = |(as_declared, contract): (bool, &Contract)| -> Vec<Row> {
        let policies = Policy::NAMES.iter().map(|&(_, policy)| policy);
        policies
            // Without a task of high criticality it equals `edf`.
            .filter(|&policy| policy != Policy::EdfVd || has_two_criticalities(contract))
            .filter(|&policy| {
                as_declared || matches!(policy, Policy::Rm | Policy::Fp | Policy::Edf)
            })
            .flat_map(|policy| {
                Test::of(policy).iter().map(move |&test| Row {
                    policy,
                    test,
                    as_declared,
                    contract: Contract { policy, ..contract.clone() },
                })
            })
            .collect()
    };
    let variants = std::iter::once((true, contract)).chain(preemptible.iter().map(|c| (false, c)));
    variants.flat_map(of).collect()
}

fn has_two_criticalities(contract: &Contract) -> bool {
    contract.tasks.iter().any(|task| task.wcet_high().is_some())
}

type Answer = Result<Breakdown, NeverAdmitted>;

fn summary(rows: &[Row], answers: &[Answer]) -> Sheet {
    let row = |(row, answer): (&Row, &Answer)| {
        let found = answer.as_ref().ok();
        let utilisation = found.map(|found| found.utilisation.ppm_above());
        vec![
            Value::Text(row.policy.name().into()),
            Value::Text(row.test.name().into()),
            Value::Text(preemption(row).into()),
            Value::Factor(found.map(|found| found.factor.millionths())),
            Value::Share(utilisation.and_then(|ppm| u64::try_from(ppm).ok())),
            Value::Text(answer.as_ref().err().map_or_else(String::new, |never| never.why.clone())),
        ]
    };
    Sheet {
        name: "breakdown",
        columns: &[
            ("policy", "policy"),
            ("test", "test"),
            ("preemption", "preemption"),
            ("factor_ppm", "critical factor"),
            ("utilisation_ppm", "utilisation there"),
            ("never_because", "never, because"),
        ],
        rows: rows.iter().zip(answers).map(row).collect(),
    }
}

fn preemption(row: &Row) -> &'static str {
    if row.as_declared { "as declared" } else { "anywhere" }
}

fn bars(rows: &[Row], answers: &[Answer]) -> Plot {
    // The first row is at the top.
    let name = |row: &Row| {
        let quanta = if row.as_declared { "" } else { ", preempted anywhere" };
        format!("{}, {}{quanta}", row.policy.name(), row.test.name())
    };
    let length = |answer: &Answer| answer.as_ref().map_or(0.0, |found| float(found.factor));
    let lengths: Vec<f64> = answers.iter().rev().map(length).collect();
    let longest = lengths.iter().copied().fold(1.0, f64::max);
    Plot {
        title: "Critical factor by policy and test".into(),
        description: "One bar for each policy and test: by how much all work can be multiplied \
                      before the test no longer admits. No bar: the test admits no factor."
            .into(),
        x: Axis::new("critical factor (1: as declared)", 0.0, longest * 1.05),
        y: Axis::of_names("", rows.iter().rev().map(name).collect()),
        shape: Shape::Bars(lengths),
    }
}

fn response_times(
    contract: &Contract,
    host: &HostProfile,
    critical: Option<&Breakdown>,
    workers: &Workers,
) -> Part {
    let factors = factors(critical);
    let found = workers.map("response times", &factors, |&factor| {
        bounds_at(contract, host, factor, Steps::ADMISSION)
    });
    let mut rows = Vec::new();
    for (factor, scaled) in factors.iter().zip(&found) {
        for (task, bound) in contract.tasks.iter().zip(&scaled.bounds) {
            rows.push(vec![
                Value::Factor(Some(factor.millionths())),
                Value::Flag(scaled.admitted),
                Value::Text(task.name().into()),
                Value::Time(bound.map(Duration::as_nanos)),
                Value::Time(Some(task.relative_deadline().as_nanos())),
            ]);
        }
    }
    let of_deadline = |task: usize, bound: Option<Duration>| {
        let deadline = contract.tasks[task].relative_deadline().as_secs_f64();
        bound.map(|bound| bound.as_secs_f64() / deadline)
    };
    // The tasks nearest to their deadlines at the critical factor, or at the last factor before it.
    let nearest = critical.map_or(0, |critical| {
        factors.iter().rposition(|factor| *factor <= critical.factor).unwrap_or(0)
    });
    let mut tasks: Vec<usize> = (0..contract.tasks.len()).collect();
    let used = |task: usize| of_deadline(task, found[nearest].bounds[task]).unwrap_or(f64::MAX);
    tasks.sort_by(|&a, &b| used(b).total_cmp(&used(a)));
    tasks.truncate(MOST_LINES);
    let line = |&task: &usize| Line {
        name: contract.tasks[task].name().into(),
        points: factors
            .iter()
            .zip(&found)
            .map(|(&factor, scaled)| {
                let part = of_deadline(task, scaled.bounds[task])?;
                (part <= TOP).then_some((float(factor), part * 100.0))
            })
            .collect(),
    };
    let (first, last) = (float(factors[0]), float(factors[factors.len() - 1]));
    Part {
        title: "Response-time bounds as work grows".into(),
        plots: vec![Plot {
            title: format!("Response-time bounds under {}", contract.policy.name()),
            description: format!(
                "The proven response time of each task, in percent of its relative deadline, \
                 against the factor on all work, from {first} to {last}. A line above 100 is late; \
                 it ends where there is no bound, or one beyond {} percent. Drawn are the {} tasks \
                 nearest to their deadlines.",
                TOP * 100.0,
                tasks.len()
            ),
            x: Axis::new("factor on all work (1: as declared)", 0.0, last),
            y: Axis::new("% of the relative deadline", 0.0, TOP * 100.0),
            shape: Shape::Lines(tasks.iter().map(line).collect()),
        }],
        sheet: Sheet {
            name: "response-times",
            columns: &[
                ("factor_ppm", "factor"),
                ("admitted", "admitted"),
                ("task", "task"),
                ("response_time_bound_ns", "response time ≤"),
                ("relative_deadline_ns", "relative deadline"),
            ],
            rows,
        },
    }
}

/// Returns evenly spaced factors up to a tenth beyond the larger of one and the critical factor,
/// with these two included.
fn factors(critical: Option<&Breakdown>) -> Vec<Factor> {
    let critical = critical.map_or(Factor::ONE, |found| found.factor);
    let end = critical.max(Factor::ONE).millionths();
    let end = end.saturating_add(end / 10).max(POINTS);
    // Computed in 128 bits, because a factor may be any number.
    let even = |at: u64| (u128::from(end) * u128::from(at) / u128::from(POINTS)) as u64;
    let mut factors: Vec<Factor> =
        (1..=POINTS).filter_map(|at| Factor::from_millionths(even(at))).collect();
    factors.extend([critical, Factor::ONE]);
    factors.sort_unstable();
    factors.dedup();
    factors
}

/// Converts a factor for drawing only.
fn float(factor: Factor) -> f64 {
    factor.millionths() as f64 / 1e6
}
