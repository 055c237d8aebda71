//! Runs jobs on kernels with seeds, several machines at a time.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use clap::Args;
use punctual_linux::clock;
use punctual_model::Duration;

use crate::host::cache;
use crate::job::{self, Job};
use crate::kernel::Kernel;
use crate::machine::{Clock, Machine, Ran};
use crate::problem::Problem;

/// The selected runs.
#[derive(Args, Clone, Debug)]
pub(crate) struct Selection {
    /// Jobs by name; all if none is given.
    jobs: Vec<String>,
    /// Only this kernel; may be given several times.
    #[arg(long = "kernel")]
    kernels: Vec<String>,
    /// Only this seed.
    #[arg(long)]
    seed: Option<u64>,
    /// The number of seeds of each job with a counted clock, from 1; the job's own number by
    /// default.
    #[arg(long, conflicts_with = "seed")]
    seeds: Option<u64>,
    /// Only the jobs of the smoke test, with one seed, on the first kernel that each names.
    #[arg(long)]
    smoke: bool,
    /// The number of machines at a time; the number of this host's CPUs by default.
    #[arg(long)]
    machines: Option<usize>,
    /// Additional arguments on the kernel's command line; NAME=VALUE is a variable of the job's
    /// script, as SET_SECONDS=60 is for `upcalls` and `channels`.
    #[arg(long, default_value = "")]
    kernel_arguments: String,
    /// Take programs of this workspace from this folder as they are, and build nothing.
    #[arg(long, conflicts_with = "profile")]
    built: Option<PathBuf>,
    /// The profile of cargo's with which programs of this workspace are built.
    #[arg(long, default_value = "release")]
    profile: String,
}

/// One machine to run.
#[derive(Debug)]
struct Run {
    job: Job,
    kernel: Kernel,
    seed: u64,
    /// Additional arguments on the kernel's command line.
    arguments: String,
}

/// The counts of outcomes.
#[derive(Debug, Default)]
struct Tally {
    kept: u32,
    cannot: u32,
    broken: u32,
}

/// Runs the selection. Returns 0 if all promises were kept, 1 if something broke.
///
/// # Errors
/// Fails if a job or a kernel is missing, or the build fails: then no machine is started.
pub(crate) fn check(selection: &Selection) -> Result<u8, Problem> {
    let jobs = selection.jobs()?;
    let programs = jobs.iter().flat_map(|job| &job.programs);
    let built = match &selection.built {
        Some(folder) => {
            // Tests know programs by whole paths.
            let folder = folder.canonicalize().map_err(Problem::file(folder))?;
            programs.map(|program| (program.clone(), folder.join(job::name_of(program)))).collect()
        }
        None => job::build(programs, &selection.profile)?,
    };
    let mut kernels = BTreeMap::new();
    let mut runs = VecDeque::new();
    for job in jobs {
        for name in selection.kernels_of(&job) {
            if !kernels.contains_key(&name) {
                kernels.insert(name.clone(), Kernel::find(&name)?);
            }
            for seed in selection.seeds_of(&job) {
                runs.push_back(Run {
                    job: job.clone(),
                    kernel: kernels[&name].clone(),
                    seed,
                    arguments: selection.kernel_arguments.clone(),
                });
            }
        }
    }
    if runs.is_empty() {
        return Err(Problem::Usage("no job is run on that kernel".to_owned()));
    }
    let at_a_time = selection
        .machines
        .unwrap_or_else(|| thread::available_parallelism().map_or(1, std::num::NonZero::get));
    let (runs, tally) = (Mutex::new(runs), Mutex::new(Tally::default()));
    thread::scope(|scope| {
        for _ in 0..at_a_time {
            scope.spawn(|| {
                loop {
                    let next = runs.lock().expect("no run panics").pop_front();
                    let Some(run) = next else { break };
                    run.run(&built, &tally);
                }
            });
        }
    });
    let Tally { kept, cannot, broken } = tally.into_inner().expect("no run panics");
    println!("{kept} kept, {cannot} not possible there, {broken} broken");
    Ok(u8::from(broken > 0))
}

impl Selection {
    /// Selects one job with one seed, on these kernels, or all if there is none.
    pub(crate) fn of_job(
        name: &str,
        kernels: Vec<String>,
        profile: &str,
        built: Option<PathBuf>,
        machines: Option<usize>,
    ) -> Self {
        let (jobs, profile) = (vec![name.to_owned()], profile.to_owned());
        let (seed, seeds, smoke, kernel_arguments) = (Some(1), None, false, String::new());
        Self { jobs, kernels, seed, seeds, smoke, machines, kernel_arguments, built, profile }
    }

    /// Returns the selected jobs.
    fn jobs(&self) -> Result<Vec<Job>, Problem> {
        let all = Job::all()?;
        if let Some(unknown) =
            self.jobs.iter().find(|name| all.iter().all(|job| job.name != **name))
        {
            let names: Vec<&str> = all.iter().map(|job| job.name.as_str()).collect();
            return Err(Problem::Usage(format!(
                "no job is called {unknown:?}; there are {}",
                names.join(", ")
            )));
        }
        let wanted = |job: &Job| {
            (self.jobs.is_empty() || self.jobs.contains(&job.name)) && (job.smoke || !self.smoke)
        };
        Ok(all.into_iter().filter(wanted).collect())
    }

    /// Returns the kernels on which a job is to run.
    fn kernels_of(&self, job: &Job) -> Vec<String> {
        let wanted = |name: &&String| self.kernels.is_empty() || self.kernels.contains(name);
        let wanted = job.kernels.iter().filter(wanted).cloned();
        if self.smoke { wanted.take(1).collect() } else { wanted.collect() }
    }

    /// Returns the seeds with which a job is to run.
    fn seeds_of(&self, job: &Job) -> Vec<u64> {
        match (self.seed, job.clock) {
            (Some(seed), _) => vec![seed],
            _ if self.smoke => vec![1],
            (None, Clock::Free) => vec![1],
            (None, Clock::Counted) => (1..=self.seeds.unwrap_or(job.seeds.into())).collect(),
        }
    }
}

impl Run {
    /// Runs one machine, prints a line for it, and counts it.
    fn run(&self, built: &BTreeMap<String, PathBuf>, tally: &Mutex<Tally>) {
        let Self { job, kernel, seed, arguments } = self;
        let machine = Machine {
            kernel: kernel.clone(),
            clock: job.clock,
            cpus: job.cpus,
            memory_mib: job.memory_mib,
            seed: *seed,
            kernel_arguments: format!("{} {arguments}", job.kernel_arguments),
            patience: Duration::from_secs(60 * u64::from(job.patience_minutes)),
        };
        let results = cache().join("results").join(format!("{}-{}-{seed}", job.name, kernel.name));
        let began = clock::now();
        let contents = job.contents(built);
        let mut ran = machine.run(&contents, &results);
        if let (Ok(first), true) = (&mut ran, job.twice) {
            match machine.run(&contents, &results) {
                Ok(again) => first.must_equal(&again),
                Err(problem) => ran = Err(problem),
            }
        }
        let took = (clock::now() - began).as_nanos() / 1_000_000_000;
        let mut tally = tally.lock().expect("no run panics");
        let verdict = match &ran {
            Ok(Ran { status: Some(0), .. }) => {
                tally.kept += 1;
                "kept"
            }
            Ok(Ran { status: Some(3), .. }) => {
                tally.cannot += 1;
                "not possible there"
            }
            _ => {
                tally.broken += 1;
                "BROKEN"
            }
        };
        let guest = ran.as_ref().ok().and_then(|ran| ran.guest_seconds).unwrap_or_default();
        println!(
            "{:<16} {:<8} {:<8} seed {seed}: {verdict} ({guest:.1} s of its time, {took} s of ours)",
            job.name,
            kernel.name,
            job.clock.name(),
        );
        if verdict != "kept" {
            println!("{}", indented(&self.why(ran, &results)));
        }
        let _ = io::stdout().flush();
    }

    /// Returns the information with which a person can find out why a run failed.
    fn why(&self, ran: Result<Ran, Problem>, results: &Path) -> String {
        let said = match ran {
            Ok(ran) if ran.status.is_some() => crate::host::tail(&ran.output, 20),
            Ok(ran) => format!("the machine did not come to its end:\n{}", ran.last_words()),
            Err(problem) => problem.to_string(),
        };
        let arguments = match self.arguments.as_str() {
            "" => String::new(),
            some => format!(" --kernel-arguments '{some}'"),
        };
        format!(
            "{said}\nresults: {}\nagain: make machines ARGS=\"{} --kernel {} --seed {}{arguments}\"",
            results.display(),
            self.job.name,
            self.kernel.name,
            self.seed,
        )
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect::<String>().trim_end().to_owned()
}
