//! Summarises the runs.

use super::run::{Case, Run, Setting};
use super::{Args, Mode, Phases};
use crate::table::{Cell, Table};

/// The bounds of the search for the edge.
const UTILISATIONS: (f64, f64) = (0.5, 0.94);

/// Two-sided 95 % points of Student's distribution, for 1 to 10 degrees of freedom.
const STUDENT: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];

/// Returns the mean, and half of its 95 % interval; `None` for a single value.
fn mean(values: &[f64]) -> (f64, Option<f64>) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    if values.len() < 2 {
        return (mean, None);
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let student = STUDENT.get(values.len() - 2).copied().unwrap_or(1.96);
    (mean, Some(student * (squares / (n - 1.0) / n).sqrt()))
}

fn with_interval(values: &[f64]) -> Cell {
    match (values.is_empty(), mean(values)) {
        (true, _) => Cell::Missing,
        (_, (mean, Some(half))) => Cell::Text(format!("{mean:.3} ± {half:.3}")),
        (_, (mean, None)) => mean.into(),
    }
}

/// Returns all settings that occur, in their order.
fn settings(runs: &[Run]) -> Vec<(usize, Phases)> {
    let mut found = Vec::new();
    for run in runs {
        let setting = (run.case.footprint, run.case.phases);
        if !found.contains(&setting) {
            found.push(setting);
        }
    }
    found
}

/// Returns switches, processor time, and response times, from all undisturbed runs.
pub(crate) fn tables(runs: &[Run], modes: &[Mode]) -> Vec<Table> {
    let columns = [
        "KiB",
        "phases",
        "mode",
        "runs",
        "switches a job",
        "of immediate",
        "CPU / nominal",
        "late jobs",
    ];
    let mut switches =
        Table::new("live-switches", "Context switches of the upcalls' threads", &columns);
    let mut header = vec!["KiB", "phases", "mode"];
    header.extend(["40 ms", "50 ms", "60 ms", "70 ms", "80 ms", "90 ms"]);
    let mut worst = Table::new("live-worst", "Longest response time over the period", &header);
    for (footprint, phases) in settings(runs) {
        for mode in modes {
            let of = |mode: Mode| {
                runs.iter().filter(move |run| {
                    let case = &run.case;
                    (case.footprint, case.phases, case.mode) == (footprint, phases, mode)
                        && !run.is_disturbed()
                })
            };
            // The run to compare with: the same seed, in the same direction.
            let twin = |run: &Run| {
                let is_twin = |other: &&Run| {
                    (other.case.seed, other.case.pass) == (run.case.seed, run.case.pass)
                };
                of(Mode::Immediate).find(is_twin).map(Run::switches_a_job)
            };
            let all: Vec<&Run> = of(*mode).collect();
            let each = |value: &dyn Fn(&Run) -> f64| {
                with_interval(&all.iter().map(|run| value(run)).collect::<Vec<_>>())
            };
            let ratios: Vec<f64> =
                all.iter().filter_map(|run| Some(run.switches_a_job() / twin(run)?)).collect();
            let name = [
                Cell::from(footprint as u64 / 1024),
                Cell::Text(format!("{phases:?}")),
                Cell::Text(format!("{mode:?}")),
            ];
            switches.row(name.iter().cloned().chain([
                Cell::from(all.len() as u64),
                each(&Run::switches_a_job),
                with_interval(&ratios),
                each(&Run::over_nominal),
                Cell::from(all.iter().map(|run| run.late).sum::<u64>()),
            ]));
            let periods = (40..=90).step_by(10).map(|ms| {
                let of_period = all.iter().flat_map(|run| &run.upcalls);
                let ppm = of_period.filter(|of| of.period_us == ms * 1_000).map(|of| of.worst_ppm);
                ppm.max().map_or(Cell::Missing, |ppm| (ppm as f64 / 1e6).into())
            });
            worst.row(name.iter().cloned().chain(periods));
        }
    }
    vec![switches, worst]
}

/// Finds the highest utilisation without a late job, by bisection.
pub(crate) fn edges(
    setting: &Setting,
    args: &Args,
    done: &mut Vec<Run>,
) -> Result<Table, Box<dyn std::error::Error>> {
    let columns = ["KiB", "phases", "mode", "seeds", "highest utilisation without a late job"];
    let mut table = Table::new("live-edges", "Where jobs begin to be late", &columns);
    for kib in &args.footprints {
        for phases in &args.phases {
            for mode in &args.modes {
                let mut found = Vec::new();
                for seed in 0..args.seeds {
                    let (mut low, mut high) = UTILISATIONS;
                    for pass in 0..args.halvings {
                        let utilisation = (low + high) / 2.0;
                        let (mode, phases, footprint) = (*mode, *phases, kib * 1024);
                        let case = Case { mode, phases, footprint, utilisation, seed, pass };
                        let run = run_undisturbed(setting, &case, done)?;
                        eprintln!("edge: {}", run.line());
                        if run.late == 0 { low = utilisation } else { high = utilisation }
                    }
                    found.push(low);
                }
                table.row([
                    Cell::from(*kib as u64),
                    Cell::Text(format!("{phases:?}")),
                    Cell::Text(format!("{mode:?}")),
                    Cell::from(found.len() as u64),
                    with_interval(&found),
                ]);
            }
        }
    }
    Ok(table)
}

/// Makes up to three attempts, so that disturbances by the hypervisor do not decide.
fn run_undisturbed(
    setting: &Setting,
    case: &Case,
    done: &mut Vec<Run>,
) -> Result<Run, Box<dyn std::error::Error>> {
    let mut run = setting.run(case)?;
    for _ in 0..2 {
        if !run.is_disturbed() {
            break;
        }
        done.push(run);
        run = setting.run(case)?;
    }
    done.push(run.clone());
    Ok(run)
}
