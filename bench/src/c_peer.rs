//! Peers that are programs of their own: small ones in C, compiled when a benchmark starts, or built
//! elsewhere. They measure themselves when asked.
//!
//! A peer reads lines `what operations` and answers each with the nanoseconds that all of it took:
//! of processor time, or of the clock where two threads are at it. It stays while the benchmark runs, so
//! that its measurements and ours alternate.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A running peer. It ends when this is dropped.
#[derive(Debug)]
pub struct CPeer {
    child: Child,
    /// Taken to tell it that there is no more.
    ask: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl CPeer {
    /// Compiles `source` with what pkg-config says of `package` into `folder`, and starts it.
    ///
    /// # Errors
    /// Why it is not there, as the end of a sentence.
    pub fn start(source: &Path, package: &str, folder: &Path) -> Result<Self, String> {
        let flags = said_by(Command::new("pkg-config").args(["--cflags", "--libs", package]))?;
        let name = source.file_stem().ok_or("it has no name")?;
        let program = folder.join(name);
        // The libraries that it does not use are not loaded.
        let compile = ["-O3", "-Wl,--as-needed", "-o"];
        said_by(
            Command::new("cc")
                .args(compile)
                .arg(&program)
                .arg(source)
                // Headers that another header includes lie beside it.
                .arg("-I")
                .arg(source.parent().unwrap_or(Path::new(".")))
                .args(flags.split_whitespace()),
        )?;
        Self::of(&program)
    }

    /// Starts a program that was built elsewhere.
    ///
    /// # Errors
    /// Why it is not there, as the end of a sentence.
    pub fn of(program: &Path) -> Result<Self, String> {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|why| format!("{} did not start: {why}", program.display()))?;
        let ask = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().ok_or("its output is lost")?);
        let mut peer = Self { child, ask, answers };
        match peer.line()?.as_str() {
            "ready" => Ok(peer),
            why => Err(why.to_owned()),
        }
    }

    /// Nanoseconds of processor time an operation, for so many of `what`.
    ///
    /// # Panics
    /// If the peer does not answer with a number.
    pub fn nanos_per_op(&mut self, what: &str, operations: u64) -> f64 {
        let ask = self.ask.as_mut().expect("taken only when dropped");
        writeln!(ask, "{what} {operations}").expect("the peer listens until it is dropped");
        let line = self.line().unwrap_or_else(|why| panic!("{why}"));
        let nanos: f64 = line.parse().unwrap_or_else(|_| panic!("the peer said {line:?}"));
        nanos / operations as f64
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(1..) => Ok(line.trim().to_owned()),
            Ok(0) => Err("the peer ended without an answer".to_owned()),
            Err(why) => Err(format!("the peer cannot be read: {why}")),
        }
    }
}

impl Drop for CPeer {
    fn drop(&mut self) {
        // The end of its input is the end of the peer; it is ours, so it is waited for.
        drop(self.ask.take());
        let _ = self.child.wait();
    }
}

/// What a command printed.
fn said_by(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|why| format!("{command:?} did not start: {why}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?} failed: {}", said.lines().next().unwrap_or("it said nothing")))
}
