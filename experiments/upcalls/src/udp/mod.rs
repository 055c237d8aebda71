//! The paper's client and server over UDP on one host (§7.3): both as upcalls, the server alone, or
//! both as plain processes, without and with background load.

mod process;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::{env, fs, io};

use punctual_linux::process::die_with_parent;
use punctual_linux::{clock, host};
use punctual_model::Duration;
use serde::{Deserialize, Serialize};

use crate::table::Table;
use process::{Part, Report, Role};

pub(crate) use process::play;

/// The kinds of client and server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
enum Pair {
    /// Two ordinary processes.
    Plain,
    /// The server is an upcall every 10 ms.
    ServerUpcall,
    /// The client is an upcall too, every 20 ms.
    Upcalls,
}

impl Pair {
    const ALL: [Self; 3] = [Self::Plain, Self::ServerUpcall, Self::Upcalls];

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain processes",
            Self::ServerUpcall => "server as upcall",
            Self::Upcalls => "both as upcalls",
        }
    }
}

/// UDP client and server on one CPU, as upcalls and as plain processes, live
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds a run
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Payload of a packet in bytes
    #[arg(long, value_delimiter = ',', default_values_t = [512, 1024, 2048, 4096, 8192])]
    bytes: Vec<u16>,
    /// Ordinary processes that spin on the same CPU meanwhile
    #[arg(long, value_delimiter = ',', default_values_t = [0, 4])]
    hogs: Vec<u32>,
    /// Packets of a batch of an upcall
    #[arg(long, default_value_t = 24)]
    batch: u32,
    /// The server's socket buffer in KiB of payload
    #[arg(long, default_value_t = 192)]
    buffer: usize,
    /// The CPU; the last one by default
    #[arg(long)]
    cpu: Option<usize>,
    /// Also write the table as CSV and as text into this directory
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
}

/// Runs all cases, and prints the table.
pub(crate) fn compare(args: &Args) -> Result<(), Box<dyn std::error::Error>> {
    let allowed = punctual_linux::thread::affinity();
    let cpu = args.cpu.or(allowed.last().copied()).ok_or("no CPU to run on")?;
    let length = Duration::from_micros((args.seconds * 1e6) as u64);
    let title = format!(
        "UDP on CPU {cpu}, loopback, {} s a run; batches of {} packets, a socket buffer of {} KiB",
        args.seconds, args.batch, args.buffer
    );
    let columns =
        ["packet", "hogs", "pair", "sent/s", "Mbit/s", "lost %", "late jobs", "stolen ms"];
    let mut table = Table::new("udp", title, &columns);
    for &bytes in &args.bytes {
        for &hogs in &args.hogs {
            for pair in Pair::ALL {
                let case =
                    Case { pair, bytes, hogs, cpu, length, batch: args.batch, buffer: args.buffer };
                let before = host::stolen().unwrap_or(Duration::ZERO);
                let outcome = run(&case)?;
                let stolen = host::stolen().unwrap_or(Duration::ZERO) - before;
                let seconds = length.as_nanos() as f64 / 1e9;
                let received = outcome.received as f64 * f64::from(bytes) * 8.0 / 1e6;
                let lost = outcome.lost as f64 / outcome.sent.max(1) as f64;
                eprintln!(
                    "{bytes} bytes, {hogs} hogs, {}: {:.1} Mbit/s, {:.2} % lost",
                    pair.name(),
                    received / seconds,
                    100.0 * lost
                );
                table.row([
                    u64::from(bytes).into(),
                    u64::from(hogs).into(),
                    pair.name().into(),
                    ((outcome.sent as f64 / seconds) as u64).into(),
                    (received / seconds).into(),
                    (100.0 * lost).into(),
                    outcome.late.into(),
                    (stolen.as_nanos() / 1_000_000).into(),
                ]);
            }
        }
    }
    let text = table.to_text();
    io::stdout().write_all(text.as_bytes())?;
    if let Some(directory) = &args.results {
        fs::create_dir_all(directory)?;
        let name = format!("udp-{}", args.batch);
        fs::write(directory.join(&name).with_extension("csv"), table.to_csv())?;
        fs::write(directory.join(&name).with_extension("txt"), text)?;
    }
    Ok(())
}

/// One case of the comparison.
#[derive(Clone, Debug)]
struct Case {
    pair: Pair,
    bytes: u16,
    hogs: u32,
    cpu: usize,
    length: Duration,
    batch: u32,
    /// The server's socket buffer in KiB.
    buffer: usize,
}

/// The result of a run.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    sent: u64,
    received: u64,
    /// The packets dropped because the server's socket was full.
    lost: u64,
    /// The jobs of upcalls that completed after the end of their period, or were skipped or
    /// contained.
    late: u64,
}

/// A process of the study, which ends when this value is dropped.
struct Process {
    child: Child,
    says: BufReader<ChildStdout>,
}

impl Process {
    /// Starts this program in a role. The child is killed if this process ends.
    fn start(role: &Role) -> Result<Self, Box<dyn std::error::Error>> {
        let mut command = Command::new(env::current_exe()?);
        command.arg("udp-process").arg(serde_json::to_string(role)?).stdout(Stdio::piped());
        die_with_parent(&mut command);
        let mut child = command.spawn()?;
        let says = BufReader::new(child.stdout.take().ok_or("it has no output")?);
        Ok(Self { child, says })
    }

    fn line(&mut self) -> Result<String, Box<dyn std::error::Error>> {
        let mut line = String::new();
        self.says.read_line(&mut line)?;
        Ok(line)
    }

    fn report(mut self) -> Result<Report, Box<dyn std::error::Error>> {
        let mut rest = String::new();
        self.says.read_to_string(&mut rest)?;
        let status = self.child.wait()?;
        if !status.success() {
            return Err(format!("a process of the study ended with {status}").into());
        }
        Ok(serde_json::from_str(&rest)?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `case` to its end.
fn run(case: &Case) -> Result<Outcome, Box<dyn std::error::Error>> {
    let start = clock::now() + Duration::from_millis(500);
    let role = |part| Role {
        part,
        cpu: case.cpu,
        start: start.as_nanos(),
        until: (start + case.length).as_nanos(),
        bytes: case.bytes,
        batch: case.batch,
        buffer: case.buffer * 1024,
    };
    let upcall = case.pair != Pair::Plain;
    let mut server = Process::start(&role(Part::Server { upcall }))?;
    let to = server.line()?.trim().parse().map_err(|_| "the server did not say where it is")?;
    let upcall = case.pair == Pair::Upcalls;
    let client = Process::start(&role(Part::Client { upcall, to }))?;
    let hogs: Result<Vec<_>, _> =
        (0..case.hogs).map(|_| Process::start(&role(Part::Hog))).collect();
    let (client, server) = (client.report()?, server.report()?);
    drop(hogs?);
    Ok(Outcome {
        sent: client.packets,
        received: server.packets,
        lost: server.dropped,
        late: client.late + server.late,
    })
}
