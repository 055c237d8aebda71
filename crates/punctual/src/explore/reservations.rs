//! The second sweep: the reservations that are enough for all tasks together.

use std::ops::RangeInclusive;

use punctual_analysis::supply::{Guarantee, LeastBudget, least_budget};
use punctual_analysis::{CpuLoad, order};
use punctual_model::{Contract, Duration, HostProfile};
use punctual_sweep::page::{Part, Section};
use punctual_sweep::plot::{Axis, Line, Plot, Shape};
use punctual_sweep::sheet::{Sheet, Value};
use punctual_sweep::workers::Workers;

/// The most steps of one trial of the bisection. A point has up to 130 trials.
const STEPS_A_TRIAL: u64 = 2_000_000;

const GUARANTEES: [(Guarantee, &str); 2] = [
    (Guarantee::EveryWindow, "X in every window of length Y"),
    (Guarantee::EveryPeriod, "X in every period (hard CBS)"),
];

/// One period with its results.
struct Point {
    period: u64,
    /// In the order of [`GUARANTEES`].
    least: [Option<LeastBudget>; 2],
    by_share: u64,
    by_gap: u64,
}

/// Returns the default range of periods: from a millisecond, or a tenth of the shortest period if
/// that is less, to twice the longest.
pub(super) fn default_range(contract: &Contract) -> RangeInclusive<u64> {
    let periods = || contract.tasks.iter().map(|task| task.min_inter_arrival().as_nanos());
    let shortest = periods().min().unwrap_or(1);
    let longest = periods().max().unwrap_or(1);
    (shortest / 10).clamp(1, 1_000_000)..=longest.saturating_mul(2)
}

pub(super) fn explore(
    contract: &Contract,
    host: &HostProfile,
    range: RangeInclusive<u64>,
    points: u32,
    workers: &Workers,
) -> Section {
    let order = order::by_priority(contract.policy, &contract.tasks);
    let tasks = order.iter().map(|&at| &contract.tasks[at]);
    let load = CpuLoad::new(tasks, [], host.context_switch).with_wake_up(host.wake_up);
    let points = workers.map("reservations", &periods(range, points), |&period| Point {
        period,
        least: GUARANTEES.map(|(guarantee, _)| {
            let period = Duration::from_nanos(period);
            least_budget(contract.policy, &load, guarantee, period, STEPS_A_TRIAL)
        }),
        by_share: share_line(contract, host, period),
        by_gap: period.saturating_sub(shortest_patience(contract)).saturating_add(1),
    });
    Section {
        title: "Reservations that are enough".into(),
        about: vec![
            format!(
                "All tasks run inside one reservation of X every Y, by {} among themselves and with \
                 nothing else in it. For each Y, the least X with which every deadline is proven to \
                 be met: everything above the line is enough.",
                contract.policy.name()
            ),
            "Beside it the two conditions of the soft modem study's model: a share of at least the \
             utilisation, and less than the shortest period or deadline without service, Y - X. The \
             study measured one driver with them; for several tasks they are no proof."
                .into(),
        ],
        summary: summary(&points),
        plots: Vec::new(),
        parts: vec![Part {
            title: "The map".into(),
            plots: vec![budgets(&points), shares(&points)],
            sheet: map(&points),
        }],
    }
}

/// Returns evenly spaced periods that include both ends.
fn periods(range: RangeInclusive<u64>, points: u32) -> Vec<u64> {
    let (from, to, steps) = (*range.start(), *range.end(), u64::from(points.max(2) - 1));
    let length = u128::from(to - from);
    let at = |step: u64| from + (length * u128::from(step) / u128::from(steps)) as u64;
    let mut periods: Vec<u64> = (0..=steps).map(at).collect();
    periods.dedup();
    periods
}

/// Returns the least X with `X/Y ≥ U`, rounded up for each task.
fn share_line(contract: &Contract, host: &HostProfile, period: u64) -> u64 {
    let switches = u128::from(host.context_switch.as_nanos()) * 2;
    let shares = contract.tasks.iter().map(|task| {
        let work = u128::from(task.wcet().as_nanos()) + switches;
        (work * u128::from(period)).div_ceil(u128::from(task.min_inter_arrival().as_nanos()))
    });
    u64::try_from(shares.sum::<u128>()).unwrap_or(u64::MAX)
}

/// Returns the shortest period or deadline: without service for that long, a job is surely late.
fn shortest_patience(contract: &Contract) -> u64 {
    let of_task = contract
        .tasks
        .iter()
        .map(|task| task.min_inter_arrival().min(task.relative_deadline()).as_nanos());
    of_task.min().unwrap_or(0)
}

fn summary(points: &[Point]) -> Sheet {
    let row = |(at, (_, name)): (usize, &(Guarantee, &str))| {
        let enough = || {
            points.iter().filter_map(move |point| {
                point.least[at].map(|found| (found.reservation.utilisation_ppm(), found, point))
            })
        };
        // Of equal shares the one with the longest period, because it switches least.
        let best =
            enough().max_by_key(|(share, _, point)| (std::cmp::Reverse(*share), point.period));
        let longest = enough().map(|(_, _, point)| point.period).max();
        vec![
            Value::Text((*name).into()),
            Value::Count(enough().count()),
            Value::Time(longest),
            Value::Time(best.map(|(_, found, _)| found.reservation.budget().as_nanos())),
            Value::Time(best.map(|(.., point)| point.period)),
            Value::Share(best.map(|(share, ..)| share)),
        ]
    };
    Sheet {
        name: "reservations",
        columns: &[
            ("guarantee", "guarantee"),
            ("periods_with_answer", "periods with an answer"),
            ("longest_period_ns", "longest of them"),
            ("cheapest_budget_ns", "cheapest: X"),
            ("cheapest_period_ns", "every Y"),
            ("cheapest_share_ppm", "share"),
        ],
        rows: GUARANTEES.iter().enumerate().map(row).collect(),
    }
}

fn map(points: &[Point]) -> Sheet {
    let budget =
        |least: Option<LeastBudget>| least.map(|found| found.reservation.budget().as_nanos());
    let row = |point: &Point| {
        let [every_window, every_period] = point.least;
        let mut row = vec![Value::Time(Some(point.period))];
        for least in [every_window, every_period] {
            row.push(Value::Time(budget(least)));
            row.push(Value::Share(least.map(|found| found.reservation.utilisation_ppm())));
            row.push(Value::Flag(least.is_some_and(|found| found.is_least)));
        }
        row.extend([Value::Time(Some(point.by_share)), Value::Time(Some(point.by_gap))]);
        row
    };
    Sheet {
        name: "reservation-map",
        columns: &[
            ("period_ns", "Y"),
            ("every_window_budget_ns", "X, every window"),
            ("every_window_share_ppm", "X/Y"),
            ("every_window_is_least", "proven least"),
            ("every_period_budget_ns", "X, hard CBS"),
            ("every_period_share_ppm", "X/Y"),
            ("every_period_is_least", "proven least"),
            ("share_line_ns", "X by share"),
            ("gap_line_ns", "X by gap"),
        ],
        rows: points.iter().map(row).collect(),
    }
}

/// Returns the four lines of both plots; `height` converts X at a Y to a height.
fn lines(points: &[Point], height: impl Fn(u64, u64) -> f64) -> Vec<Line> {
    let line = |name: &str, budget: &dyn Fn(&Point) -> Option<u64>| Line {
        name: name.into(),
        points: points
            .iter()
            .map(|point| {
                // A budget of more than the whole CPU is no reservation.
                let budget = budget(point).filter(|&budget| budget <= point.period)?;
                Some((millis(point.period), height(budget, point.period)))
            })
            .collect(),
    };
    let nanos =
        |least: Option<LeastBudget>| least.map(|least| least.reservation.budget().as_nanos());
    vec![
        line(GUARANTEES[0].1, &|point| nanos(point.least[0])),
        line(GUARANTEES[1].1, &|point| nanos(point.least[1])),
        line("model: X/Y = utilisation", &|point| Some(point.by_share)),
        line("model: Y - X = shortest period or deadline", &|point| Some(point.by_gap)),
    ]
}

fn budgets(points: &[Point]) -> Plot {
    plot(
        points,
        "Least budget X against period Y",
        "The least sufficient budget X, in milliseconds, for each period Y",
        "budget X, ms",
        millis(points.iter().map(|point| point.period).max().unwrap_or(0)),
        lines(points, |budget, _| millis(budget)),
    )
}

fn shares(points: &[Point]) -> Plot {
    plot(
        points,
        "Least share X/Y against period Y",
        "The least sufficient budget as a share of the CPU, in percent, for each period Y",
        "share X/Y, %",
        100.0,
        lines(points, |budget, period| budget as f64 / period as f64 * 100.0),
    )
}

fn plot(
    points: &[Point],
    title: &str,
    what: &str,
    y_title: &str,
    most: f64,
    lines: Vec<Line>,
) -> Plot {
    let ends = || points.iter().map(|point| millis(point.period));
    let (first, last) = (ends().fold(f64::MAX, f64::min), ends().fold(0.0, f64::max));
    let drawn = lines.iter().flat_map(|line| line.points.iter().flatten());
    let highest = drawn.map(|(_, height)| *height).fold(0.0, f64::max);
    Plot {
        title: title.into(),
        description: format!(
            "{what} from {first} to {last} ms: under both guarantees, and by the two conditions of \
             the soft modem study's model. A line ends where no budget is proven to be enough."
        ),
        x: Axis::new("period Y, ms", first, last),
        y: Axis::new(y_title, 0.0, (highest * 1.05).min(most)),
        shape: Shape::Lines(lines),
    }
}

/// Converts nanoseconds to milliseconds for drawing only.
fn millis(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}
