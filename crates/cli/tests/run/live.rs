//! Runs `punctual run`, and looks at the processes that it starts.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use punctual_linux::cgroup::Hierarchy;
use serde_json::Value;

/// The path of the built program.
pub(crate) const PUNCTUAL: &str = env!("CARGO_BIN_EXE_punctual");

/// Prints the scheduling policy of the shell: field 41 of /proc/PID/stat (proc_pid_stat(5)), where
/// 0 is SCHED_OTHER, 1 SCHED_FIFO and 6 SCHED_DEADLINE.
pub(crate) const SHOW_POLICY: &str = "read s < /proc/$$/stat; set -- ${s#*) }; shift 38; echo $1";

/// Much longer than anything takes, for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Serialises the tests, since a CPU has only one timetable.
static ALONE: Mutex<()> = Mutex::new(());

pub(crate) fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(PUNCTUAL);
    // A host profile of this machine must not matter. The group of its own is for job control.
    command.env("PUNCTUAL_HOST_PROFILE", "ideal").arg("run").args(arguments).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs the command to its end, and waits while other programs' timetables hold the CPUs. Returns
/// `None`, and prints the reason, where the host permits none.
pub(crate) fn run(arguments: &[&str]) -> Option<Output> {
    let mut last = None;
    let done = eventually(|| {
        let output = Live::start(arguments).output();
        let taken = text(&output.stderr).contains("another process follows a timetable");
        last = Some(output);
        !taken
    });
    let output = last.expect("was run");
    if !done || output.status.code() == Some(3) {
        println!("skipped: {}", text(&output.stderr));
        return None;
    }
    Some(output)
}

/// Parses the last line of standard error.
pub(crate) fn json(output: &Output) -> Value {
    let stderr = text(&output.stderr);
    let line = stderr.lines().last().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {stderr}"))
}

/// Returns a number in the JSON value.
pub(crate) fn number(json: &Value, key: &str) -> u64 {
    json[key].as_u64().unwrap_or_else(|| panic!("{key}: {json}"))
}

/// A running `punctual run`. Dropping it kills and reaps it, and kills the processes whose ids it
/// printed.
pub(crate) struct Live {
    child: Child,
    out: Option<BufReader<ChildStdout>>,
    named: Vec<i32>,
}

impl Live {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut child = command(arguments).spawn().expect("was built");
        let out = child.stdout.take().map(BufReader::new);
        Self { child, out, named: Vec::new() }
    }

    /// Starts the command and reads the process ids that the program prints, one a line. Waits and
    /// skips as [`run`] does.
    pub(crate) fn with_ids(arguments: &[&str], ids: usize) -> Option<Self> {
        let mut skipped = None;
        let mut started = None;
        eventually(|| {
            let mut live = Self::start(arguments);
            live.named = (0..ids).map_while(|_| live.line().trim().parse().ok()).collect();
            if live.named.len() == ids {
                started = Some(live);
                return true;
            }
            let output = live.output();
            let stderr = text(&output.stderr);
            let taken = stderr.contains("another process follows a timetable");
            assert!(taken || output.status.code() == Some(3), "{:?} {stderr}", output.status);
            skipped = Some(stderr);
            !taken
        });
        if started.is_none() {
            println!("skipped: {}", skipped.unwrap_or_default());
        }
        started
    }

    /// Reads the next line that the program prints.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.as_mut().expect("piped").read_line(&mut line).expect("reads");
        line
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("positive")
    }

    pub(crate) fn ids(&self) -> &[i32] {
        &self.named
    }

    /// Sends a signal, with a name such as TERM.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        let ended = eventually(|| {
            status = self.child.try_wait().expect("ours");
            status.is_some()
        });
        assert!(ended, "punctual run does not end");
        status.expect("ended")
    }

    pub(crate) fn output(mut self) -> Output {
        // The output fits in a pipe, so it can be read afterwards.
        let status = self.wait();
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        self.out.take().expect("piped").read_to_end(&mut stdout).expect("reads");
        self.child.stderr.take().expect("piped").read_to_end(&mut stderr).expect("reads");
        Output { status, stdout, stderr }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for pid in &self.named {
            // The id was read a moment ago, from a process that still is in its own session.
            if is_there(*pid) {
                signal(*pid, "KILL");
            }
        }
    }
}

pub(crate) fn signal(pid: i32, name: &str) {
    let name = format!("-{name}");
    let sent = Command::new("kill").args([&name, &pid.to_string()]).stderr(Stdio::null()).status();
    sent.expect("kill is there");
}

/// Returns the fields of /proc/PID/stat from the state on, or `None` if the process has ended.
fn stat(pid: i32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<String> =
        text.rsplit_once(") ")?.1.split_whitespace().map(str::to_owned).collect();
    (fields.first()? != "Z").then_some(fields)
}

pub(crate) fn is_there(pid: i32) -> bool {
    stat(pid).is_some()
}

pub(crate) fn is_stopped(pid: i32) -> bool {
    stat(pid).is_some_and(|fields| fields[0] == "T")
}

/// Returns the scheduling policy: 0 SCHED_OTHER, 1 SCHED_FIFO, 6 SCHED_DEADLINE.
pub(crate) fn policy(pid: i32) -> Option<String> {
    stat(pid).map(|fields| fields[38].clone())
}

/// Returns the nanoseconds on a CPU (schedstat of proc(5)).
pub(crate) fn on_cpu(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    text.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0)
}

/// Returns whether the process executes instructions.
pub(crate) fn goes_on(pid: i32) -> bool {
    let before = on_cpu(pid);
    eventually(|| on_cpu(pid) > before + 1_000_000)
}

/// Returns the control groups that the process `pid` made.
pub(crate) fn groups_of(pid: i32) -> Vec<PathBuf> {
    let me = i32::try_from(std::process::id()).expect("positive");
    let name = format!("punctual-{pid}-");
    let hierarchies = [Hierarchy::v2(), Hierarchy::v1("freezer")].into_iter().flatten();
    hierarchies
        .filter_map(|hierarchy| fs::read_dir(hierarchy.group_of(me)?).ok())
        .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
        .filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&name)))
        .collect()
}
