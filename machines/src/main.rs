//! The laboratory: boots kernels of distributions in emulated machines, and runs this project in
//! them.
//!
//! - [`kernel`]: kernels from the distribution's packages.
//! - [`root`]: the root file system, an archive in memory.
//! - [`machine`]: one machine from its first instruction to its end.
//! - [`job`]: the jobs that run in machines, each a file in `jobs/`.
//! - [`check`]: jobs on kernels with seeds, several machines at a time.
//! - [`table`]: what works on which kernel.
//!
//! docs/machines.md says what instruction time is and is not.

mod check;
mod host;
mod job;
mod kernel;
mod machine;
mod problem;
mod root;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use punctual_model::Duration;

use check::Selection;
use job::Job;
use kernel::Kernel;
use machine::{Clock, Machine};
use problem::Problem;
use root::Contents;

/// Boots kernels in emulated machines and runs this project in them.
///
/// Exit codes: 0 kept, 1 broken, 2 bad usage, 3 this host cannot.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:
  machines check                                    every job on every kernel
  machines check upcalls --kernel 6.12-rt --seed 7  one run, again
  machines run --kernel 6.1 -- 'uname -a; cat /proc/cgroups'
  machines shell --kernel 6.12-rt")]
struct Arguments {
    #[command(subcommand)]
    command: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Lists the jobs.
    Jobs,
    /// Runs jobs and reports which promises held.
    Check(Selection),
    /// Tests what works on each kernel and writes docs/kernels.md.
    Table {
        /// Tests only this kernel and keeps the last results of the others; may be given several
        /// times.
        #[arg(long = "kernel")]
        kernels: Vec<String>,
        /// The number of machines at a time; the number of this host's CPUs by default.
        #[arg(long)]
        machines: Option<usize>,
        /// Take programs of this workspace from this folder as they are, and build nothing.
        #[arg(long, conflicts_with = "profile")]
        built: Option<PathBuf>,
        /// The profile of cargo's with which programs of this workspace are built.
        #[arg(long, default_value = "release")]
        profile: String,
    },
    /// Runs a shell command in a machine and prints its output.
    Run {
        #[command(flatten)]
        choice: Choice,
        /// The folder that receives what the command left in /results.
        #[arg(long, default_value = "target/machines/results/run")]
        results: PathBuf,
        /// The longest that the machine may take, in seconds of this host.
        #[arg(long, default_value_t = 600)]
        patience: u64,
        /// The command, for a POSIX shell.
        command: String,
    },
    /// Boots into a shell on this terminal; `exit` ends the machine.
    Shell {
        #[command(flatten)]
        choice: Choice,
    },
}

/// The machine, and its contents.
#[derive(Args, Clone, Debug)]
struct Choice {
    /// The kernel: 6.1, 6.1-rt, 6.12 or 6.12-rt.
    #[arg(long, default_value = "6.12")]
    kernel: String,
    /// The source of the machine's time.
    #[arg(long, value_enum, default_value = "free")]
    clock: Clock,
    /// The number of CPUs.
    #[arg(long, default_value_t = 1)]
    cpus: u32,
    /// Its memory, in MiB.
    #[arg(long, default_value_t = 1024)]
    memory: u32,
    /// The seed of the random numbers; runs with different seeds differ.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A program of this workspace to build and put in: PACKAGE/PROGRAM, PACKAGE/test:TEST, or
    /// PACKAGE/lib.
    #[arg(long = "program")]
    programs: Vec<String>,
    /// A program or folder of the host to put in at the same path.
    #[arg(long = "of-host")]
    of_host: Vec<PathBuf>,
    /// A file or folder of the project to put in below /lab/project.
    #[arg(long = "of-project")]
    of_project: Vec<PathBuf>,
    /// A kernel module to load.
    #[arg(long = "module")]
    modules: Vec<String>,
    /// Additional arguments on the kernel's command line.
    #[arg(long, default_value = "")]
    kernel_arguments: String,
    /// The profile of cargo's with which programs of this workspace are built.
    #[arg(long, default_value = "release")]
    profile: String,
}

impl Choice {
    fn make(self, patience: Duration, command: String) -> Result<(Machine, Contents), Problem> {
        let built = job::build(&self.programs, &self.profile)?;
        let programs = built.into_iter().map(|(program, path)| (job::name_of(&program), path));
        let contents = Contents {
            programs: programs.collect(),
            of_host: self.of_host,
            of_project: self.of_project,
            modules: self.modules,
            command,
        };
        let machine = Machine {
            kernel: Kernel::find(&self.kernel)?,
            clock: self.clock,
            cpus: self.cpus,
            memory_mib: self.memory,
            seed: self.seed,
            kernel_arguments: self.kernel_arguments,
            patience,
        };
        Ok((machine, contents))
    }
}

fn main() -> ExitCode {
    match act(Arguments::parse().command) {
        Ok(code) => ExitCode::from(code),
        Err(problem) => {
            eprintln!("machines: {problem}");
            ExitCode::from(problem.exit_code())
        }
    }
}

fn act(action: Action) -> Result<u8, Problem> {
    match action {
        Action::Jobs => {
            for job in Job::all()? {
                println!("{:<16} {}", job.name, job.about);
            }
            Ok(0)
        }
        Action::Check(selection) => check::check(&selection),
        Action::Table { kernels, machines, built, profile } => {
            table::table(&Selection::of_job(table::JOB, kernels, &profile, built, machines))
        }
        Action::Run { choice, results, patience, command } => {
            let (machine, contents) = choice.make(Duration::from_secs(patience), command)?;
            let ran = machine.run(&contents, &results)?;
            print!("{}", ran.output);
            if ran.status.is_none() {
                eprintln!("the machine did not come to its end:\n{}", ran.last_words());
            }
            Ok(ran.status.unwrap_or(1))
        }
        Action::Shell { choice } => {
            let (machine, contents) = choice.make(Duration::ZERO, String::new())?;
            Ok(u8::from(!machine.shell(&contents)?.success()))
        }
    }
}
