//! The study on this host: one call, served in each context in turn, and its effect on other
//! threads.
//!
//! - [`plan`]: the phases of the call, and the amount of work at an interrupt.
//! - [`context`]: the contexts of the driver.
//! - [`kernel`], [`threads`]: the driver in them, and the thread that follows it; [`record`]: its
//!   services.
//! - `lab`: one call in one context, beside competitors.
//! - [`sizing`]: the cost of the modem core here.
//! - [`wakeups`]: the coexisting callback.
//! - [`report`], [`tables`]: the results; [`traced`]: the services as a trace.
//! - [`library`]: the library's modems, in every context that is a thread.
//! - [`transfers`]: ten files in each, in more contexts.

pub mod context;
mod error;
pub mod kernel;
mod lab;
pub mod library;
pub mod plan;
pub mod record;
pub mod report;
pub mod sizing;
pub mod tables;
pub mod threads;
pub mod traced;
pub mod transfers;
pub mod wakeups;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use punctual_bpf::Object;
use punctual_linux::thread;
use punctual_model::{Duration, Service};
use punctual_modem::LineQuality;
use punctual_modem::demo::live::Competitors;
use punctual_modem::fsk::Recording;

use context::Context;
use lab::Lab;
use plan::Plan;
use record::Served;
use report::{ContextReport, Report};
use threads::Follower;
use traced::TraceArgs;

pub use error::Error;

/// The arguments of the live study.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Length of each call; the study's lasted 28 s
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=30))]
    pub seconds: u64,
    /// Lines served at each interrupt; their work is repeated until it costs what the study's did
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub lines: u32,
    /// Spinning ordinary threads on each CPU
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(0..=256))]
    pub competitors: u16,
    /// The CPU for the driver and the callback [default: the last on which an interrupt works]
    #[arg(long)]
    pub cpu: Option<usize>,
    /// Seed of the line's noise
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(..1_000_000))]
    pub seed: u64,
    /// Measure only these modems
    #[arg(long)]
    pub modems: Option<Modems>,
    /// Also write live.json, live.txt, services.csv, callback_gaps.csv, library.json and library.txt into
    /// this folder
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The trace of the services
    #[command(flatten)]
    pub trace: TraceArgs,
}

/// The modems that a driver serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Modems {
    /// The integer core, in every context
    Core,
    /// The library's, in every context that is a thread
    Library,
}

/// Runs the study, prints the results, and writes them.
pub fn main(args: &Args) -> Result<(), Error> {
    let mut traced = args.trace.begin()?;
    let follower = Follower::enter(args.cpu)?;
    let tell = &mut |what: &str| eprintln!("{what} …");
    let (mut text, mut json) = (String::new(), serde_json::Map::new());
    if args.modems != Some(Modems::Library) {
        let (report, runs) = run(args, &follower, tell)?;
        for run in &runs {
            traced.core(report.cpu, run)?;
        }
        let page = tables::text(&report);
        json.insert("core".into(), kept(args, "live", &report, &page)?);
        if let Some(folder) = &args.results {
            for sheet in [tables::services(&runs), tables::gaps(&report)] {
                write(folder, &sheet.file(), &sheet.to_csv())?;
            }
        }
        text += &page;
    }
    if args.modems != Some(Modems::Core) {
        let report = library::run(args, &follower, &mut traced, tell)?;
        let page = library::report::text(&report);
        json.insert("library".into(), kept(args, "library", &report, &page)?);
        text += &page;
    }
    drop(follower);
    traced.end()?;
    print(&if args.json { format!("{:#}\n", serde_json::Value::Object(json)) } else { text })
}

/// Writes a report as JSON and as text, and returns it as JSON.
fn kept(
    args: &Args,
    name: &str,
    report: &impl serde::Serialize,
    text: &str,
) -> Result<serde_json::Value, Error> {
    // Reports contain only integers, strings and lists, which JSON can represent.
    let json = serde_json::to_string_pretty(report).expect("a report can be written") + "\n";
    if let Some(folder) = &args.results {
        write(folder, &format!("{name}.json"), json.as_bytes())?;
        write(folder, &format!("{name}.txt"), text.as_bytes())?;
    }
    Ok(serde_json::to_value(report).expect("it has been written"))
}

fn print(page: &str) -> Result<(), Error> {
    match io::stdout().write_all(page.as_bytes()) {
        // A reader that has seen enough closes the pipe.
        Err(why) if why.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::Results { path: "standard output".into(), why })
        }
        _ => Ok(()),
    }
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), Error> {
    let path = folder.join(name);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&path, bytes))
        .map_err(|why| Error::Results { path, why })
}

/// A call that was served.
#[derive(Clone, Debug)]
pub struct Run {
    /// The context.
    pub context: Context,
    /// The planned services.
    pub plan: Plan,
    /// The services as they ran.
    pub served: Served,
}

/// Runs the integer core in every context. Returns the report, and the services of each context
/// that was run.
///
/// # Errors
/// Fails if nothing can be measured here at all. The report gives the reason for each context that
/// cannot be run.
pub fn run(
    args: &Args,
    follower: &Follower,
    tell: &mut dyn FnMut(&str),
) -> Result<(Report, Vec<Run>), Error> {
    let lines = args.lines;
    let recording = Recording::of_far_end(LineQuality::default(), args.seed);
    let length = Duration::from_secs(args.seconds);

    tell("measuring what the core costs");
    let cpu = follower.cpu;
    let object = kernel::load(lines, &recording);
    let (native_pass, kernel_pass) = measure_core(args, cpu, &recording, &object)?;
    let lab = Lab {
        args,
        cpu,
        recording,
        object,
        native: Plan::new(length, native_pass),
        in_kernel: kernel_pass.map(|pass| Plan::new(length, pass)),
    };
    let (mut contexts, mut runs) = (Vec::new(), Vec::new());
    for context in Context::ALL {
        tell(context.name());
        match lab.measure(context) {
            Ok((row, run)) => {
                contexts.push(row);
                runs.extend(run);
            }
            Err(why) => contexts.push(ContextReport::absent(context, why.to_string())),
        }
    }
    let report = Report {
        host: follower.machine(),
        cpu,
        competitors_per_cpu: usize::from(args.competitors),
        lines,
        length_ns: length.as_nanos(),
        seed: args.seed,
        native_pass_ns: native_pass.as_nanos(),
        kernel_pass_ns: kernel_pass.map(Service::as_nanos),
        contexts,
    };
    Ok((report, runs))
}

/// Measures the cost of the core in a thread and in the kernel, on the driver's CPU and beside the
/// same competitors: two CPUs that share a core are slower when both are busy.
fn measure_core(
    args: &Args,
    cpu: usize,
    recording: &Recording,
    object: &Result<Object, Error>,
) -> Result<(Service, Option<Service>), Error> {
    let before = thread::affinity();
    let _competitors = Competitors::start(usize::from(args.competitors))?;
    thread::pin_to(cpu)?;
    let native = sizing::native(args.lines, recording);
    let kernel = match object {
        Ok(object) => Some(sizing::in_kernel(object, args.lines)),
        Err(_) => None,
    };
    thread::set_affinity(&before)?;
    Ok((native, kernel.transpose()?))
}
