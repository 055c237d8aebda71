//! Makes one run: hogs, a server, a client, and a count of the packets.

use std::env;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use punctual_linux::clock;
use punctual_linux::process::die_with_parent;
use punctual_model::Duration;

use super::Pair;
use super::process::{Part, Report, Role};

/// One case of the comparison.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) pair: Pair,
    pub(crate) bytes: u16,
    pub(crate) hogs: u32,
    pub(crate) cpu: usize,
    pub(crate) length: Duration,
    pub(crate) batch: u32,
    /// The server's socket buffer in KiB.
    pub(crate) buffer: usize,
}

/// The result of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// The packets dropped because the server's socket was full.
    pub(crate) lost: u64,
    /// The jobs of upcalls that completed after the end of their period, or were skipped or
    /// contained.
    pub(crate) late: u64,
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
pub(crate) fn run(case: &Case) -> Result<Outcome, Box<dyn std::error::Error>> {
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
