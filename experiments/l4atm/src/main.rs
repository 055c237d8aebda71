//! The experiments of the channel server, live: clients, a server in a child process, and a receiver
//! in another network namespace behind a veth pair.

mod extent;
mod flood;
mod host;
mod lab;
mod load;
mod many;
mod pacing;
mod policing;
mod rates;
mod role;
mod table;
mod throughput;
mod writers;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use punctual_linux::clock;
use punctual_linux::process::{Blocked, Caught};
use punctual_model::Duration;

use extent::{Error, Extent};
use lab::Lab;
use table::Page;

/// The measurements of L4ATM, and those that its successor must show: live, over a veth pair; needs
/// root
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    experiment: Experiment,
    /// Seconds of each measurement; each experiment has its own default
    #[arg(long, global = true)]
    seconds: Option<f64>,
    /// The number of times that everything is measured, in turn
    #[arg(long, global = true, default_value_t = 3)]
    rounds: u32,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    /// Keep CPUs from entering idle states (`[channels] awake`)
    #[arg(long, global = true)]
    awake: bool,
    /// Also write the tables, and pictures, into this directory
    #[arg(long, global = true, value_name = "DIR")]
    results: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Experiment {
    /// How evenly packets leave under four hogs: the server, tbf, htb, senders that sleep
    Pacing,
    /// Packets a second and processor time a packet: the server, send, sendmmsg, iperf3
    Throughput,
    /// Two writers that offer more than their contracts (Table 2)
    Policing,
    /// Pre-scheduled writers, and one that takes the rest (Figures 7 and 8)
    Writers,
    /// A stream under local load, and local load beside a stream (Figures 9 and 10)
    Load,
    /// Guaranteed messages beside best effort of up to ten times the link
    Flood,
    /// Ten thousand channels on one server
    Many,
    /// Plays the role of another process
    #[command(hide = true)]
    Role { role: String },
}

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match &args.experiment {
        Experiment::Role { role } => role::play(role),
        _ => supervised(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Runs the experiment on a thread of its own. A signal that ends this process ends its children
/// too, as they die with that thread; the networks end with the last of them, and the folder is
/// removed here.
fn supervised(args: &Args) -> Result<(), Error> {
    let blocked = Blocked::new()?;
    // The server's own place is /run, in memory. On a disk each admission would wait for the disk.
    let memory = Path::new("/dev/shm");
    let within = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let folder = tempfile::Builder::new().prefix("punctual-l4atm").tempdir_in(within)?;
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| experiment(args, folder.path(), &blocked));
        while !worker.is_finished() {
            let soon = clock::now() + Duration::from_millis(100);
            if let Some(Caught::Sent { .. }) = blocked.wait_until(soon)? {
                let _ = fs::remove_dir_all(folder.path());
                std::process::exit(130);
            }
        }
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn experiment(args: &Args, folder: &Path, blocked: &Blocked) -> Result<(), Error> {
    let before = host::State::read();
    let lab = Lab::set_up(folder, blocked, args.awake)?;
    let extent = Extent { seconds: args.seconds, rounds: args.rounds.max(1) };
    let mut page = match &args.experiment {
        Experiment::Pacing => pacing::measure(&lab, extent),
        Experiment::Throughput => throughput::measure(&lab, extent),
        Experiment::Policing => policing::measure(&lab, extent),
        Experiment::Writers => writers::measure(&lab, extent),
        Experiment::Load => load::measure(&lab, extent),
        Experiment::Flood => flood::measure(&lab, extent),
        Experiment::Many => many::measure(&lab),
        Experiment::Role { .. } => return Err("a role is no experiment".into()),
    }?;
    page.host = before.until_now();
    publish(args, &page)
}

fn publish(args: &Args, page: &Page) -> Result<(), Error> {
    let json = serde_json::to_string_pretty(page)? + "\n";
    let text = page.to_markdown();
    io::stdout().write_all(if args.json { json.as_bytes() } else { text.as_bytes() })?;
    let Some(folder) = &args.results else { return Ok(()) };
    fs::create_dir_all(folder)?;
    let file = |ending: &str| folder.join(page.name).with_extension(ending);
    fs::write(file("md"), text)?;
    fs::write(file("json"), json)?;
    if let Some(svg) = &page.picture {
        fs::write(file("svg"), svg)?;
    }
    Ok(())
}
