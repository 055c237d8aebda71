//! Makes one run: sixteen processes of six upcalls, from their start to their
//! results. Their work is of a fixed amount, with a working set, and the same for each kind of
//! scheduling; the kernel's counts are those for the threads of this process.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::ops::Sub;
use std::process::{Child, Command, Stdio};
use std::{env, fs};

use punctual_linux::process::die_with_parent;
use punctual_linux::{clock, host};
use punctual_model::{Duration, Service};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::process::{Outcome, Report, Role};
use super::{Mode, Phases};

const PROCESSES: u64 = 16;
const PERIODS_US: [u64; 6] = [40_000, 50_000, 60_000, 70_000, 80_000, 90_000];
const BATCH: u32 = 8;

/// The words of a cache line.
const LINE: usize = 8;

/// One case of the comparison.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Case {
    pub(crate) mode: Mode,
    pub(crate) phases: Phases,
    pub(crate) footprint: usize,
    pub(crate) utilisation: f64,
    pub(crate) seed: u64,
    /// The direction: there or back.
    pub(crate) pass: u32,
}

/// The settings common to all.
pub(crate) struct Setting {
    cpu: usize,
    length: Duration,
    quantum: u32,
    allowance_us: u64,
    /// The cache lines a millisecond, for each footprint.
    speeds: BTreeMap<usize, u64>,
}

/// The result of a run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Run {
    pub(crate) case: Case,
    jobs: u64,
    pub(crate) late: u64,
    switches: u64,
    /// The nanoseconds used, and those that the same work takes alone.
    exec_time: u64,
    nominal: u64,
    /// The results of upcalls, by period.
    pub(crate) upcalls: Vec<Outcome>,
    /// The stolen time of all CPUs together.
    stolen_ms: u64,
    length_ms: u64,
}

impl Setting {
    /// Measures the speed of this machine, with each working set.
    pub(crate) fn new(
        cpu: usize,
        seconds: f64,
        quantum: u32,
        allowance_us: u64,
        footprints: &[usize],
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let kib: Vec<usize> = footprints.iter().map(|kib| kib * 1024).collect();
        let measure = move || {
            punctual_linux::thread::pin_to(cpu)?;
            Ok(kib.into_iter().map(|bytes| (bytes, Work::lines_per_milli(bytes))).collect())
        };
        let measured: Result<_, punctual_linux::thread::AffinityError> =
            std::thread::spawn(measure).join().unwrap_or_else(|p| std::panic::resume_unwind(p));
        let length = Duration::from_micros((seconds * 1e6) as u64);
        Ok(Self { cpu, length, quantum, allowance_us, speeds: measured? })
    }

    /// Runs `case` to its end.
    pub(crate) fn run(&self, case: &Case) -> Result<Run, Box<dyn std::error::Error>> {
        let mut rng = ChaCha8Rng::seed_from_u64(1_000 + case.seed);
        let start = clock::now() + Duration::from_millis(700);
        let share = case.utilisation / (PROCESSES as f64 * PERIODS_US.len() as f64);
        let speed = self.speeds[&case.footprint] as f64 / 1e6;
        let upcall = |period_us: &u64| {
            let nominal = share * *period_us as f64 * 1e3 / f64::from(BATCH);
            (*period_us, (nominal * speed) as u64, nominal as u64)
        };
        let upcalls: Vec<_> = PERIODS_US.iter().map(upcall).collect();
        let stolen = || host::stolen().unwrap_or(Duration::ZERO);
        let before = stolen();
        let mut children = Vec::new();
        for _ in 0..PROCESSES {
            let offset = Duration::from_micros(rng.random_range(0..90_000));
            let start = match case.phases {
                Phases::Random => start + offset,
                Phases::Synchronous => start,
            };
            let until = start + self.length;
            children.push(spawn(&Role {
                mode: case.mode,
                cpu: self.cpu,
                start: start.as_nanos(),
                until: until.as_nanos(),
                footprint: case.footprint,
                batch: BATCH,
                quantum: self.quantum,
                allowance_us: self.allowance_us,
                upcalls: upcalls.clone(),
            })?);
        }
        let mut run = Run {
            case: case.clone(),
            jobs: 0,
            late: 0,
            switches: 0,
            exec_time: 0,
            nominal: 0,
            upcalls: Vec::new(),
            stolen_ms: 0,
            length_ms: self.length.as_nanos() / 1_000_000,
        };
        for child in children {
            run.add(child, &upcalls)?;
        }
        run.stolen_ms = (stolen() - before).as_nanos() / 1_000_000;
        Ok(run)
    }
}

/// Starts this program in a role. The child is killed if this process ends.
fn spawn(role: &Role) -> Result<Child, Box<dyn std::error::Error>> {
    let mut command = Command::new(env::current_exe()?);
    command.arg("live-process").arg(serde_json::to_string(role)?).stdout(Stdio::piped());
    die_with_parent(&mut command);
    Ok(command.spawn()?)
}

impl Run {
    fn add(
        &mut self,
        child: Child,
        upcalls: &[(u64, u64, u64)],
    ) -> Result<(), Box<dyn std::error::Error>> {
        let output = child.wait_with_output()?;
        if !output.status.success() {
            return Err(format!("a process of the study ended with {}", output.status).into());
        }
        let report: Report = serde_json::from_slice(&output.stdout)?;
        self.switches += report.switches;
        self.exec_time += report.exec_time;
        for (outcome, (_, _, nominal)) in report.upcalls.into_iter().zip(upcalls) {
            self.jobs += outcome.jobs;
            self.late += outcome.late;
            self.nominal += outcome.jobs * nominal * u64::from(BATCH);
            match self.upcalls.iter_mut().find(|of| of.period_us == outcome.period_us) {
                Some(of) => {
                    of.jobs += outcome.jobs;
                    of.late += outcome.late;
                    of.worst_ppm = of.worst_ppm.max(outcome.worst_ppm);
                }
                None => self.upcalls.push(outcome),
            }
        }
        Ok(())
    }

    /// Returns the context switches of the upcalls' threads, for each job.
    pub(crate) fn switches_a_job(&self) -> f64 {
        self.switches as f64 / self.jobs.max(1) as f64
    }

    /// Returns the ratio of the processor time to that of the same work alone.
    pub(crate) fn over_nominal(&self) -> f64 {
        self.exec_time as f64 / self.nominal.max(1) as f64
    }

    /// Returns whether the hypervisor took more than a fiftieth of the time of a CPU: then the run
    /// says nothing about Punctual. Far less already causes late jobs.
    pub(crate) fn is_disturbed(&self) -> bool {
        self.stolen_ms * 50 > self.length_ms
    }

    pub(crate) fn line(&self) -> String {
        let case = &self.case;
        format!(
            "{:?} {:?} {} KiB, U {:.3}, seed {}.{}: {:.3} switches a job, CPU {:.3}, {} of {} late, \
             {} ms stolen",
            case.mode,
            case.phases,
            case.footprint / 1024,
            case.utilisation,
            case.seed,
            case.pass,
            self.switches_a_job(),
            self.over_nominal(),
            self.late,
            self.jobs,
            self.stolen_ms,
        )
    }
}

/// The memory that an upcall passes over in each job.
#[derive(Debug)]
pub(crate) struct Work {
    words: Vec<u64>,
    at: usize,
}

impl Work {
    /// Makes work with this many bytes.
    pub(crate) fn new(footprint: usize) -> Self {
        let words = vec![1; (footprint / size_of::<u64>()).max(LINE)];
        Self { words, at: 0 }
    }

    /// Passes over this many cache lines, cyclically.
    pub(crate) fn go_over(&mut self, lines: u64) {
        for _ in 0..lines {
            let word = &mut self.words[self.at];
            *word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            self.at = (self.at + LINE) % self.words.len();
        }
        black_box(&self.words);
    }

    /// Measures lines a millisecond of processor time, without other data in the cache: the median
    /// of eleven attempts.
    fn lines_per_milli(footprint: usize) -> u64 {
        const LINES: u64 = 1_000_000;
        let mut work = Self::new(footprint);
        work.go_over(LINES);
        let mut tries: Vec<Service> = (0..11)
            .map(|_| {
                let before = clock::thread_cpu_time();
                work.go_over(LINES);
                clock::thread_cpu_time() - before
            })
            .collect();
        tries.sort_unstable();
        LINES * 1_000_000 / tries[tries.len() / 2].as_nanos().max(1)
    }
}

/// The counts of all threads but the first, which only waits for the end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Context switches, voluntary and not (proc_pid_status(5)).
    pub(crate) switches: u64,
    /// Nanoseconds on a CPU (schedstat).
    pub(crate) exec_time: u64,
}

impl Counts {
    /// Reads the counts until now, without threads that have ended.
    pub(crate) fn read() -> Self {
        let mut counts = Self::default();
        let first = std::process::id().to_string();
        for task in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
            if task.file_name().to_str() == Some(&first) {
                continue;
            }
            let of = |file| fs::read_to_string(task.path().join(file)).unwrap_or_default();
            for line in of("status").lines().filter(|line| line.contains("ctxt_switches:")) {
                counts.switches += number_in(line.split_whitespace().next_back());
            }
            counts.exec_time += number_in(of("schedstat").split_whitespace().next());
        }
        counts
    }
}

fn number_in(word: Option<&str>) -> u64 {
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

impl Sub for Counts {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            switches: self.switches.saturating_sub(before.switches),
            exec_time: self.exec_time.saturating_sub(before.exec_time),
        }
    }
}
