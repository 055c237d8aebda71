//! The roles of the other processes of an experiment: this program again, with its role in a line
//! of JSON. The channel server runs as `punctual serve` runs it; local load is ordinary processes.

mod many;
mod plain;
mod writer;

use std::hint::black_box;
use std::io;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use punctual_broker::parts::Part;
use punctual_broker::server::{Options, Server};
use punctual_linux::sched::Class;
use punctual_linux::{clock, sched, thread};
use punctual_model::{Duration, Instant};
use serde::{Deserialize, Serialize};
use tracing_subscriber::filter::LevelFilter;

use crate::extent::Error;

pub(crate) use many::{Level, Many, Opened};
pub(crate) use plain::{Plain, PlainReport, SendMode};
pub(crate) use writer::{Pattern, Writer, WriterReport};

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) enum Role {
    /// Carries channels until it is killed.
    Server { folder: PathBuf },
    /// A part of the server.
    Part { name: String },
    /// Spins until it is killed.
    Hog,
    /// Starts and awaits programs until it is killed, as a build does.
    Forks,
    /// A fixed amount of computation, in rounds.
    Work { rounds: u64 },
    /// A client that sends through a channel.
    Writer(Writer),
    /// A sender without a server.
    Plain(Plain),
    /// A client with very many channels.
    Many(Many),
}

pub(crate) fn play(role: &str) -> Result<(), Error> {
    match serde_json::from_str(role)? {
        Role::Server { folder } => serve(&folder),
        Role::Part { name } => be_part(&name),
        Role::Hog => spin(),
        Role::Forks => fork(),
        Role::Work { rounds } => report(&work(rounds)),
        Role::Writer(writer) => report(&writer.write()?),
        Role::Plain(plain) => report(&plain.send()?),
        Role::Many(many) => report(&many.open()?),
    }
}

fn report<T: Serialize>(what: &T) -> Result<(), Error> {
    writeln!(io::stdout(), "{}", serde_json::to_string(what)?)?;
    Ok(())
}

/// Waits until an experiment begins, in a class of its own if it has one.
fn begin(start_ns: u64, fifo: Option<u8>) -> Result<(), Error> {
    if let Some(priority) = fifo {
        sched::set(thread::current(), Class::Fifo { priority })?;
        thread::set_timer_slack(Duration::from_nanos(1));
    }
    clock::sleep_until(Instant::from_nanos(start_ns));
    Ok(())
}

/// The stamp that a sender writes at the beginning of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    number: u64,
    /// When it was due, or if nothing is due, when it was written.
    pub(crate) at: Instant,
    /// The number of the sender.
    pub(crate) of: u32,
}

impl Stamp {
    fn write(self, into: &mut [u8]) {
        into[..8].copy_from_slice(&self.number.to_be_bytes());
        into[8..16].copy_from_slice(&self.at.as_nanos().to_be_bytes());
        into[16..20].copy_from_slice(&self.of.to_be_bytes());
    }

    pub(crate) fn read(from: &[u8]) -> Option<Self> {
        let (number, rest) = from.split_first_chunk()?;
        let (at, rest) = rest.split_first_chunk()?;
        let (of, _) = rest.split_first_chunk()?;
        let at = Instant::from_nanos(u64::from_be_bytes(*at));
        Some(Self { number: u64::from_be_bytes(*number), at, of: u32::from_be_bytes(*of) })
    }
}

/// How long a fixed amount of work took.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Worked {
    pub(crate) wall_ns: u64,
    cpu_ns: u64,
}

fn spin() -> Result<(), Error> {
    let mut state = 1;
    loop {
        state = black_box(turn(state));
    }
}

/// Forks, executes and exits, faults pages and does a little work, like a build.
fn fork() -> Result<(), Error> {
    loop {
        let mut command = Command::new("/bin/true");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.spawn()?.wait()?;
        black_box(work(50_000));
    }
}

fn work(rounds: u64) -> Worked {
    let (began, cpu) = (clock::now(), clock::thread_cpu_time());
    let mut state = 1;
    for _ in 0..rounds {
        state = black_box(turn(state));
    }
    let cpu = clock::thread_cpu_time() - cpu;
    Worked { wall_ns: clock::now().saturating_since(began).as_nanos(), cpu_ns: cpu.as_nanos() }
}

/// Takes a few cycles that no compiler removes.
fn turn(state: u64) -> u64 {
    (state ^ (state << 13)).rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Serves from `folder`. Warnings go to standard error; each grant would be a line.
fn serve(folder: &Path) -> Result<(), Error> {
    let level = LevelFilter::WARN;
    tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).init();
    let server = Server::open(Options {
        config: folder.join("broker.toml"),
        config_must_exist: true,
        socket: folder.join("socket"),
        state: folder.join("state"),
        measured: None,
        part: again,
    })?;
    Ok(server.run()?)
}

/// Returns a command that runs this program as a part of the server.
fn again(part: Part) -> Command {
    let role = Role::Part { name: part.name().into() };
    let mut command = Command::new("/proc/self/exe");
    // Cannot fail: a name is text.
    command.arg("role").arg(serde_json::to_string(&role).unwrap_or_default());
    command
}

fn be_part(name: &str) -> Result<(), Error> {
    Ok(Part::of_name(name).ok_or("no part of a server has this name")?.run()?)
}
