//! Peers that are programs of their own: small ones in C, compiled when a benchmark starts, or
//! built elsewhere. They measure themselves on request.
//!
//! A peer reads lines `what operations` and answers each with the nanoseconds that all operations
//! took: of processor time, or of the clock where two threads take part. It keeps running during
//! the benchmark, so that its measurements and Punctual's alternate.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A running peer. It ends when this value is dropped.
#[derive(Debug)]
pub struct CPeer {
    child: Child,
    /// Taken to close the input.
    ask: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl CPeer {
    /// Compiles `source` into `folder` with the flags that pkg-config prints for `package`, and
    /// starts it.
    ///
    /// # Errors
    /// Says why it is not available, as the end of a sentence.
    pub fn start(source: &Path, package: &str, folder: &Path) -> Result<Self, String> {
        let flags = said_by(Command::new("pkg-config").args(["--cflags", "--libs", package]))?;
        let name = source.file_stem().ok_or("it has no name")?;
        let program = folder.join(name);
        // Libraries that it does not use are not loaded.
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
    /// Says why it is not available, as the end of a sentence.
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

    /// Returns nanoseconds of processor time an operation, for `operations` operations of `what`.
    ///
    /// # Panics
    /// Panics if the peer does not answer with a number.
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
        // The peer ends when its input ends; it is a child of this process, so it is waited for.
        drop(self.ask.take());
        let _ = self.child.wait();
    }
}

/// Returns the output of a command.
fn said_by(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|why| format!("{command:?} did not start: {why}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?} failed: {}", said.lines().next().unwrap_or("it said nothing")))
}
