//! Measures what delayed preemption saves: context switches, and deadlines.
//!
//! The upcalls of the paper: 2 or 16 processes of six each, with periods from 40 to 90 ms. Every
//! upcall of a set has the same share of the processor.

use punctual_model::{Duration, Instant, JobId, Policy, Service, Task, TaskSpec};
use punctual_policy::jobs::Jobs;
use punctual_sim::arrivals::Periodic;
use punctual_sim::overheads::Overheads;
use punctual_sim::tasks::{Setting, run_in};
use punctual_trace::{Event, Kind, Sink};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::table::{Cell, Table};

/// The virtual time of one run.
const LENGTH: Duration = Duration::from_secs(10);

/// The PDUs of a batch, and between two yield points.
const BATCH: u64 = 8;

/// The upcalls of a process.
const A_PROCESS: usize = 6;

/// The quantum in PDUs, or `None` for preemption anywhere.
type Quantum = Option<u64>;

/// Returns `processes` processes of six upcalls, 40 to 90 ms.
fn upcalls(processes: u64, utilisation: f64, quantum: Quantum) -> Vec<Task> {
    let share = utilisation / (processes * A_PROCESS as u64) as f64;
    let periods = (0..processes).flat_map(|_| (4..=9).map(|tens| Duration::from_millis(10 * tens)));
    let task = |period: Duration| {
        let a_pdu = (share * period.as_nanos() as f64) as u64 / BATCH;
        Task::new(TaskSpec {
            quantum: Service::from_nanos(a_pdu * quantum.unwrap_or(0)),
            ..TaskSpec::periodic("u", period, Service::from_nanos(a_pdu * BATCH))
        })
        .expect("a small share of its period")
    };
    periods.map(task).collect()
}

/// Counts the switches of the processor to another upcall, and to another process; the jobs; and
/// for each upcall its late jobs.
struct Counter {
    relative_deadlines: Vec<Duration>,
    last: Option<JobId>,
    switches: u64,
    process_switches: u64,
    jobs: u64,
    late: Vec<u64>,
}

impl Sink for Counter {
    fn record(&mut self, event: Event) {
        let task = event.job.task as usize;
        if event.kind == Kind::Complete {
            self.jobs += 1;
            let deadline = event.release + self.relative_deadlines[task];
            self.late[task] += u64::from(event.at > deadline);
        }
        if matches!(event.kind, Kind::Start | Kind::Resume) && self.last != Some(event.job) {
            let process = |job: JobId| job.task as usize / A_PROCESS;
            self.switches += 1;
            self.process_switches += u64::from(self.last.map(process) != Some(process(event.job)));
            self.last = Some(event.job);
        }
    }
}

/// The releases of a process: in order at multiples of 10 ms, as by a clock interrupt, or at any
/// instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phases {
    Ticks,
    Any,
}

fn run(tasks: &[Task], switch: Service, phases: Phases, seed: u64) -> Counter {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let phase = |task: &Task| match phases {
        Phases::Any => {
            Duration::from_nanos(rng.random_range(0..task.min_inter_arrival().as_nanos()))
        }
        Phases::Ticks => {
            let ticks = task.min_inter_arrival().as_nanos() / 10_000_000;
            Duration::from_millis(10 * rng.random_range(0..ticks))
        }
    };
    let phases: Vec<Duration> = tasks.iter().map(phase).collect();
    let mut counter = Counter {
        relative_deadlines: tasks.iter().map(Task::relative_deadline).collect(),
        last: None,
        switches: 0,
        process_switches: 0,
        jobs: 0,
        late: vec![0; tasks.len()],
    };
    let setting = Setting::default().costing(Overheads { switch, ..Overheads::default() });
    let jobs = Jobs::of(Policy::Rmdp, tasks, 0);
    let mut arrivals = Periodic::new(tasks, &phases);
    // A whole processor leaves nothing unfinished.
    let _ = run_in(setting, tasks, jobs, &mut arrivals, Instant::ZERO + LENGTH, &mut counter);
    counter
}

const SEEDS: u64 = 3;

/// Returns the switches a second with immediate preemption and with quanta of 1, 2, 4 and 8 of 8
/// PDUs.
pub(crate) fn counts() -> Table {
    let mut table = Table::new(
        "switches",
        format!(
            "Context switches a second, free of cost ({SEEDS} runs of {LENGTH} each; quanta of a \
             batch of {BATCH} PDUs)"
        ),
        &[
            "upcalls",
            "releases",
            "utilisation",
            "between",
            "immediate",
            "quantum 1",
            "quantum 2",
            "quantum 4",
            "quantum 8",
            "saved by 1",
            "saved by 8",
        ],
    );
    for processes in [2, 16] {
        for phases in [Phases::Ticks, Phases::Any] {
            for percent in [50, 60, 70, 80, 90] {
                let mut of_upcalls = Vec::new();
                let mut of_processes = Vec::new();
                for quantum in [None, Some(1), Some(2), Some(4), Some(8)] {
                    let tasks = upcalls(processes, f64::from(percent) / 100.0, quantum);
                    let (mut switches, mut process_switches) = (0, 0);
                    for seed in 0..SEEDS {
                        let counter = run(&tasks, Service::ZERO, phases, seed);
                        switches += counter.switches;
                        process_switches += counter.process_switches;
                    }
                    let seconds = (SEEDS * LENGTH.as_nanos()) as f64 / 1e9;
                    of_upcalls.push(switches as f64 / seconds);
                    of_processes.push(process_switches as f64 / seconds);
                }
                for (what, counts) in [("upcalls", of_upcalls), ("processes", of_processes)] {
                    let saved = |with: f64| Cell::from(1.0 - with / counts[0]);
                    let first = [
                        Cell::from(processes * A_PROCESS as u64),
                        match phases {
                            Phases::Ticks => "10 ms ticks",
                            Phases::Any => "any instant",
                        }
                        .into(),
                        (f64::from(percent) / 100.0).into(),
                        what.into(),
                    ];
                    let savings = [saved(counts[1]), saved(counts[4])];
                    let counts = counts.iter().map(|&count| Cell::from(count));
                    table.row(first.into_iter().chain(counts).chain(savings));
                }
            }
        }
    }
    table
}

/// Returns the late jobs of all and of the 90 ms upcalls, immediate against delayed preemption,
/// when each switch has a cost.
pub(crate) fn misses() -> Table {
    let mut table = Table::new(
        "misses",
        format!(
            "Jobs late, of all and of the 90 ms upcalls, when a switch costs something ({SEEDS} \
             runs of {LENGTH} each, releases at 10 ms ticks; delayed: a quantum of {BATCH} of \
             {BATCH} PDUs)"
        ),
        &[
            "upcalls",
            "switch us",
            "utilisation",
            "jobs",
            "immediate late",
            "of 90 ms",
            "delayed late",
            "of 90 ms ",
        ],
    );
    for (processes, micros) in [(2, 500), (2, 1_000), (16, 100), (16, 200)] {
        for percent in (60..=96).step_by(4) {
            let mut row = vec![
                Cell::from(processes * A_PROCESS as u64),
                micros.into(),
                (f64::from(percent) / 100.0).into(),
            ];
            for (at, quantum) in [None, Some(BATCH)].into_iter().enumerate() {
                let tasks = upcalls(processes, f64::from(percent) / 100.0, quantum);
                let (mut jobs, mut late, mut longest) = (0, 0, 0);
                for seed in 0..SEEDS {
                    let seen = run(&tasks, Service::from_micros(micros), Phases::Ticks, seed);
                    jobs += seen.jobs;
                    late += seen.late.iter().sum::<u64>();
                    longest += seen.late.iter().skip(A_PROCESS - 1).step_by(A_PROCESS).sum::<u64>();
                }
                if at == 0 {
                    row.push(jobs.into());
                }
                row.extend([late.into(), longest.into()]);
            }
            table.row(row);
        }
    }
    table
}
